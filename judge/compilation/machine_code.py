"""Resources of a compiled kernel, from its machine code: registers, tensor cores, wide accesses."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

# cp.async has its size in bytes after the addresses: [shared], [global], 16, 16 or 0x10, 0x10.
PTX_LOAD = r"\bld\.global[\w.:]*?(?:\.v(\d))?\.[busf](\d+)\b"
PTX_STORE = r"\bst\.global[\w.:]*?(?:\.v(\d))?\.[busf](\d+)\b"
PTX_COPY = r"\bcp\.async\.c[ag]\.shared\.global\S*\s*\[[^\]]*\],\s*\[[^\]]*\],\s*(\w+)"
PTX_TENSOR_CORES = r"\b(wgmma\.mma_async|mma\.sync|tcgen05\.mma)\b"
AMD_ACCESS = r"\b(?:global|buffer|flat)_{}_(\w+)"
AMD_TENSOR_CORES = r"\bv_(mfma|wmma)_"
AMD_BITS = {"byte": 8, "sbyte": 8, "ubyte": 8, "short": 16, "sshort": 16, "ushort": 16}


def resources(code: dict) -> dict:
    """Return registers, spills, tensor_cores, loads, stores and copies, as in `Compiled`.

    code: the `asm` of a CompiledKernel, by kind: "ptx" and "cubin", or "amdgcn"
    """
    return _amd(code["amdgcn"]) if "amdgcn" in code else _nvidia(code["ptx"], code["cubin"])


def _nvidia(ptx: str, cubin: bytes) -> dict:
    registers, stack = _usage(cubin)
    loads = {int(lanes or 1) * int(bits) for lanes, bits in re.findall(PTX_LOAD, ptx)}
    copied = {8 * int(size, 0) for size in re.findall(PTX_COPY, ptx)}
    stores = {int(lanes or 1) * int(bits) for lanes, bits in re.findall(PTX_STORE, ptx)}
    copies = (["cp.async"] if copied else []) + (["TMA"] if "cp.async.bulk.tensor" in ptx else [])
    return {
        "registers": registers,
        "spills": stack,
        "tensor_cores": _found(PTX_TENSOR_CORES, ptx),
        "loads": tuple(sorted(loads | copied)),
        "stores": tuple(sorted(stores)),
        "copies": tuple(copies),
    }


def _usage(cubin: bytes) -> tuple[int, int]:
    """Return registers and bytes of stack per thread. Triton uses the stack for spills alone."""
    import triton

    folder = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        listing = subprocess.run(
            [os.path.join(folder, "cuobjdump"), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    registers, stack = re.findall(r"REG:(\d+) STACK:(\d+)", listing)[0]
    return int(registers), int(stack)


def _amd(assembly: str) -> dict:
    def declared(name: str) -> int:
        return int(re.findall(rf"{name}:\s*(\d+)", assembly)[0])

    def widths(access: str) -> tuple[int, ...]:
        kinds = re.findall(AMD_ACCESS.format(access), assembly)
        return tuple(sorted({bits for kind in kinds if (bits := _amd_bits(kind))}))

    return {
        "registers": declared(r"\.vgpr_count"),
        "spills": declared(r"; ScratchSize"),
        "tensor_cores": _found(AMD_TENSOR_CORES, assembly),
        "loads": widths("load"),
        "stores": widths("store"),
        "copies": (),
    }


def _amd_bits(kind: str) -> int:
    if wide := re.match(r"(?:dwordx|b)(\d+)$", kind):
        return int(wide[1]) * (32 if kind.startswith("dwordx") else 1)
    return 32 if kind == "dword" else AMD_BITS.get(re.sub(r"_d16.*", "", kind), 0)


def _found(pattern: str, code: str) -> tuple[str, ...]:
    return tuple(sorted(set(re.findall(pattern, code))))
