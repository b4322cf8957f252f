"""What a compiled kernel uses of a GPU, from its machine code: registers, spills, instructions."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable

from kernelgauge.compilation import listings, sass
from kernelgauge.compilation.sass import Instruction

# Operations of SASS, and what their result is called in PTX. HGMMA.64x256x16.F32 has its shape in
# its name, and so has HMMA.16816.F32, without the times signs.
TENSOR_CORES = re.compile(r"(?:UTC[A-Z]*MMA|[A-Z]GMMA|[A-Z]MMA)\b")
SHAPE = re.compile(r"\d+x\d+x\d+")
JOINED_SHAPE = re.compile(r"(16|8)(8)(\d+)")
LOADS, STORES, ATOMICS = ("LDG", "LD"), ("STG", "ST"), ("ATOMG", "ATOM", "REDG", "RED")
WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}
TMA = {"UTMALDG": "TMA loads", "UTMASTG": "TMA stores", "UTMAREDG": "TMA atomics"}
TMA |= {"UBLKCP": "bulk copies"}
# PTX has div.rn.f32 beside these.
INEXACT_DIVISION = re.compile(r"\bdiv\.(?:full|approx)[.\w]*")
# Of ptxas, C7510 and its like: "wgmma.mma_async instructions are serialized due to ...".
SERIALIZED = "wgmma.mma_async instructions are serialized"
# The last one of a group has "gsb0", and WARPGROUP.DEPBAR waits for all but so many groups.
PART_OF_GROUP = re.compile(r"[A-Z]GMMA\b")
REGISTERS = re.compile(r"\b0x[0-9a-f]+")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")

AMD_ACCESS = re.compile(r"\b(?:global|buffer|flat)_(load|store|atomic)_(\w+)")
AMD_TENSOR_CORES = re.compile(r"\bv_(mfma|wmma)_\w*?_(\d+x\d+x\d+)")
AMD_BLOCK = re.compile(r"^(?:\.L|; %)(BB\w+|bb\.\d+):")
AMD_LOOP = re.compile(r"; +in Loop: Header=(\w+)|; => *This (?:Inner )?Loop Header")
AMD_INSTRUCTION = re.compile(r"\t(?!s_nop)[a-z]")
AMD_BITS = {"byte": 8, "sbyte": 8, "ubyte": 8, "short": 16, "sshort": 16, "ushort": 16}

# How many there are of each kind.
Counts = tuple[tuple, ...]


def resources(code: dict, kernel: str) -> dict:
    """Return what `Compiled` has of details, as plain data.

    code: the `asm` of a CompiledKernel, by kind: "ptx" and "cubin", or "amdgcn"
    kernel: its name in there
    """
    if "amdgcn" in code:
        return _amd(code["amdgcn"])
    return _nvidia(code["ptx"], code["cubin"], sass.disassemble(code["cubin"], kernel))


def _nvidia(ptx: str, cubin: bytes, listing: sass.Listing) -> dict:
    usage = sass.run_tool("cuobjdump", "--dump-resource-usage", cubin=cubin)
    registers, stack = map(int, re.findall(r"REG:(\d+) STACK:(\d+)", usage)[0])
    code, products = listing.instructions, tensor_cores(listing.instructions)
    has_groups = any(name.startswith("wgmma") for name, _ in products)
    said = _assembler(ptx) if stack or has_groups else ""
    spills = SPILLS.findall(said)
    takes = [one.operands for one in code if one.does("USETMAXREG")]
    return {
        "registers": registers,
        # An array of a library's function, such as that of tl.sin, lies on the stack too. Where
        # the assembler does not say, a stack is one of spills.
        "spills": stack if not spills or any(map(int, spills[0])) else 0,
        "tensor_cores": products,
        "serialized": SERIALIZED in said,
        "exponentials": exponentials(listing.loops),
        "barriers": sum(one.does("SYNCS") for one in code),
        "partitions": tuple(sorted({int(it, 0) for it in REGISTERS.findall(" ".join(takes))})),
        "loads": _widths(code, LOADS),
        "stores": _widths(code, STORES),
        "atomics": sum(one.does(*ATOMICS) for one in code),
        "copies": _copies(code),
        "loops": tuple(
            (
                len(loop.instructions),
                sum(count for _, count in tensor_cores(loop.instructions)),
                _places(one.source for one in loop.instructions),
            )
            for loop in listing.loops
        ),
    }


def tensor_cores(code: Iterable[Instruction]) -> Counts:
    """Return how many instructions there are for tensor cores, by name and shape."""
    return _counted(_product(one.operation) for one in code if TENSOR_CORES.match(one.operation))


def exponentials(loops: Iterable[sass.Loop]) -> tuple[int, int]:
    """Return how many exponentials loops have, and how many while a product of wgmma runs."""
    pairs = [_exponentials_of(loop) for loop in loops]
    return sum(count for count, _ in pairs), sum(under for _, under in pairs)


def _exponentials_of(loop: sass.Loop) -> tuple[int, int]:
    groups, begun = 0, False
    for _ in range(2):  # the second turn begins with what the first one leaves under way
        count = under = 0
        for one in loop.instructions:
            if PART_OF_GROUP.match(one.operation):
                begun = not one.operands.endswith("gsb0")
                groups += not begun
            elif one.operation.startswith("WARPGROUP.DEPBAR"):
                groups = min(groups, int(REGISTERS.findall(one.operands)[0], 0))
            elif one.operation.startswith("MUFU.EX2"):
                count, under = count + 1, under + (begun or groups > 0)
    return count, under


def _product(operation: str) -> str:
    """Return PTX's name for a product, and the shape of its tile: wgmma 64x256x16."""
    name, *rest = operation.split(".")
    if name.startswith("UTC"):
        return "tcgen05"
    shapes = [part for part in rest if SHAPE.fullmatch(part)]
    joined = [found for part in rest if (found := JOINED_SHAPE.fullmatch(part))]
    shape = shapes[0] if shapes else "x".join(joined[0].groups()) if joined else ""
    return f"{'wgmma' if name.endswith('GMMA') else 'mma'} {shape}".rstrip()


def _widths(code: Iterable[Instruction], operations: tuple[str, ...]) -> Counts:
    return _counted(_bits(one) for one in code if one.does(*operations))


def _bits(one: Instruction) -> int:
    return next((WIDTHS[part] for part in one.operation.split(".")[1:] if part in WIDTHS), 32)


def _copies(code: Iterable[Instruction]) -> Counts:
    found = [("cp.async", _bits(one)) for one in code if one.does("LDGSTS")]
    found += [(name, 0) for one in code for operation, name in TMA.items() if one.does(operation)]
    return tuple((*kind, count) for kind, count in _counted(found))


def _counted(things: Iterable) -> Counts:
    return tuple(sorted(Counter(things).items()))


def _places(sources: Iterable[tuple[str, int] | None]) -> Counts:
    """Return how many instructions are from each line, as file, line and number."""
    return tuple((*place, count) for place, count in _counted(filter(None, sources)))


def inexact_division(ptx: str) -> tuple[str, int] | None:
    """Return the first division that is not rounded to nearest, and the line that it is from.

    The line is 0 where the kernel's file has none for it. Without such a division: None.
    """
    for text, place in listings.located(ptx):
        if found := INEXACT_DIVISION.search(text):
            return found[0], place[1] if place else 0
    return None


def _assembler(ptx: str) -> str:
    """Return what the assembler says of a kernel: its spills, and its warnings."""
    target = re.findall(r"^\.target (\w+)", ptx, re.MULTILINE)[0]
    newer = sass.tool("ptxas-blackwell")
    is_newer = int(re.findall(r"\d+", target)[0]) >= 100 and os.path.exists(newer)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernel.ptx")
        with open(path, "w") as file:
            file.write(ptx)
        assembler = newer if is_newer else sass.tool("ptxas")
        options = ["-v", f"--gpu-name={target}", path, "-o", f"{path}.cubin"]
        return subprocess.run([assembler, *options], capture_output=True, text=True).stderr


def _amd(assembly: str) -> dict:
    def declared(name: str) -> int:
        return int(re.findall(rf"{name}:\s*(\d+)", assembly)[0])

    accesses = AMD_ACCESS.findall(assembly)

    def widths(access: str) -> Counts:
        bits = [_amd_bits(kind) for done, kind in accesses if done == access]
        return _counted(number for number in bits if number)

    return {
        "registers": declared(r"\.vgpr_count"),
        "spills": declared(r"; ScratchSize"),
        "tensor_cores": _counted(map(" ".join, AMD_TENSOR_CORES.findall(assembly))),
        "loads": widths("load"),
        "stores": widths("store"),
        "atomics": sum(done == "atomic" for done, _ in accesses),
        "copies": (),
        "barriers": 0,
        "partitions": (),
        "serialized": False,
        "exponentials": (0, 0),
        "loops": _amd_loops(assembly),
    }


def _amd_bits(kind: str) -> int:
    if wide := re.match(r"(?:dwordx|b)(\d+)$", kind):
        return int(wide[1]) * (32 if kind.startswith("dwordx") else 1)
    return 32 if kind == "dword" else AMD_BITS.get(re.sub(r"_d16.*", "", kind), 0)


def _amd_loops(assembly: str) -> tuple:
    """Return the innermost loops, as LLVM marks them in its comments."""
    loops: dict[str, tuple[list[str], list]] = {}
    inner: list[str] = []
    block = header = ""
    for line, place in listings.located(assembly):
        if begun := AMD_BLOCK.match(line):
            block, header = begun[1], ""
        if found := AMD_LOOP.search(line):
            header = found[1] or block
            inner += [block] if "Inner" in found[0] else []
        elif header and AMD_INSTRUCTION.match(line):
            code, places = loops.setdefault(header, ([], []))
            code.append(line)
            places.append(place)
    return tuple(
        (len(code), sum(map(bool, map(AMD_TENSOR_CORES.search, code))), _places(places))
        for code, places in map(loops.__getitem__, inner)
    )
