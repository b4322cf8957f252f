"""What machine code uses of a GPU: each figure of --compiled, against a kernel made for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from kernelgauge.compilation import figures, listings, machine_code, sass
from kernelgauge.compilation.ahead_of_time import Compiled, compile_each
from kernelgauge.compilation.occupancy import occupancy
from kernelgauge.compilation.sass import Listing
from kernelgauge.compilation.targets import find_target
from kernelgauge.core.launch import Launch
from kernelgauge.core.verdict import Wrong
from tests import kernels_to_compile as kernels
from tests.compiling import compiled, launch_from, launch_of, matmul, pointwise, square16, x
from tests.test_compilation import descriptors


def made(launch: Launch, target: str = "sm_80") -> Compiled:
    (one,) = compiled(launch, targets=(target,), details=True)
    return one


def texts(launch: Launch, target: str) -> dict[str, str]:
    """Return the stages of compilation, with the source beside them."""
    file = Path(launch.kernel.__code__.co_filename)
    (outcomes,) = compile_each([launch], (target,), subject=file, listings=True)
    return outcomes[target].listings


# Tensor cores: one product of 64 x 32 by 32 x 64 in 4 warps

DOT = """
m, k = tl.arange(0, 64), tl.arange(0, 32)
a = tl.load(x_ptr + m[:, None] * 32 + k[None, :]).to(tl.float16)
b = tl.load(x_ptr + k[:, None] * 64 + m[None, :]).to(tl.float16)
tl.store(x_ptr + m[:, None] * 64 + m[None, :], tl.dot(a, b))
"""


@pytest.mark.parametrize(
    ("target", "count"),
    [
        # 64/16 * 64/8 * 32/16 tiles, a quarter of them for each warp.
        ("sm_80", ("mma 16x8x16", 4 * 8 * 2 // 4)),
        ("sm_120", ("mma 16x8x16", 4 * 8 * 2 // 4)),
        # These are for all four warps together.
        ("sm_90", ("wgmma 64x64x16", 2)),
        ("sm_100", ("tcgen05", 2)),
        # 64/32 * 64/32 * 32/8 tiles.
        ("gfx942", ("mfma 32x32x8", 2 * 2 * 4 // 4)),
    ],
)
def test_one_dot_is_so_many_instructions(tmp_path, target, count):
    assert made(launch_from(tmp_path, DOT), target).tensor_cores == (count,)


def test_a_kernel_without_a_dot_has_none():
    assert made(pointwise()).tensor_cores == ()


# Spills


def test_spills_are_bytes_of_the_stack():
    crowded = made(matmul(arguments={"BM": 128, "BN": 128}, maxnreg=64))
    assert crowded.registers == 64
    assert crowded.spills > 100
    assert made(matmul()).spills == 0


def test_an_array_on_the_stack_is_not_spilled(tmp_path):
    """tl.sin keeps the digits of 2/pi there. The assembler says "0 bytes spill stores"."""
    body = "o = tl.arange(0, 1024)\ntl.store(x_ptr + o, tl.sin(tl.load(x_ptr + o)))"
    assert made(launch_from(tmp_path, body)).spills == 0


# Accesses: 1024 elements in 128 threads


@pytest.mark.parametrize(
    ("offsets", "widths"),
    [("o", ((128, 2),)), ("2 * o", ((32, 8),)), ("o * n", ((32, 8),))],
    ids=["neighbours", "every_second", "a_stride_that_is_not_known"],
)
def test_widths_of_loads(tmp_path, offsets, widths):
    body = f"o = tl.arange(0, 1024)\ntl.store(x_ptr + o, tl.load(x_ptr + {offsets}))"
    one = made(launch_from(tmp_path, body))
    assert (one.loads, one.stores) == (widths, ((128, 2),))


def test_widths_of_narrow_loads(tmp_path):
    body = "o = tl.arange(0, 128)\ntl.store(x_ptr + o, tl.load(x_ptr + 3 * o))"
    launch = launch_from(tmp_path, body)
    narrow = {"x_ptr": square16.view(-1), "n": 20}
    one = made(Launch(launch.kernel, (1, 1, 1), narrow, frozenset()))
    assert (one.loads, one.stores) == (((16, 1),), ((16, 1),))


def test_atomics_are_counted():
    counts = x.int()
    given = {"x_ptr": counts, "counts_ptr": counts, "n": 77, "BLOCK": 256}
    assert made(launch_of(kernels.histogram, given)).atomics == 2
    assert made(pointwise()).atomics == 0


# Asynchronous copies


def test_stages_make_loads_copies():
    """Each of a and b is 64 x 32 float16: 4 KB in 2 copies of 16 bytes by 128 threads."""
    one, three = made(matmul(num_stages=1)), made(matmul(num_stages=3))
    assert (one.loads, one.copies) == (((128, 4),), ())
    # Before the loop two stages are filled, and in it one.
    assert (three.loads, three.copies) == ((), (("cp.async", 128, 3 * 4),))
    assert one.shared == 8 * 1024
    assert three.shared == 2 * 8 * 1024


def test_descriptors_make_copies_of_whole_tiles():
    copies = {name: count for name, _, count in made(descriptors(num_stages=3), "sm_90").copies}
    assert copies == {"TMA loads": 3 * 2, "TMA stores": 1}


# Loops

LOOPS = """
o = tl.arange(0, 128)
x = tl.load(x_ptr + o)
for i in range(n):
    x = x * x + 1.0
    for j in range(i):
        x = tl.exp(x)
tl.store(x_ptr + o, x)
"""


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_only_innermost_loops_count(tmp_path, target):
    """The compiler may make two of the inner loop, one of several turns at once."""
    launch = launch_from(tmp_path, LOOPS)
    above = launch.kernel.__code__.co_firstlineno + 2
    loops = made(launch, target).loops
    assert loops
    assert {line - above for loop in loops for _, line, _ in loop.lines} <= {5, 6}


def test_a_loop_that_is_unrolled_or_absent_is_none(tmp_path):
    assert made(pointwise()).loops == ()
    body = "x = n\nfor i in tl.static_range(4):\n    x += tl.load(x_ptr + i)\ntl.store(x_ptr, x)"
    assert made(launch_from(tmp_path, body)).loops == ()


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_waiting_for_a_copy_is_no_loop(target):
    (loop,) = made(descriptors(num_stages=3), target).loops
    assert loop.tensor_cores == 4


def test_a_loop_is_counted_by_its_addresses():
    """All between the label and the branch to it, but NOP."""
    one = made(matmul(num_stages=3), "sm_90")
    lines = texts(matmul(num_stages=3), "sm_90")["sass"].splitlines()
    (start,) = [n for n, line in enumerate(lines) if "innermost loop" in line]
    label = lines[start].partition(":")[0]
    end = next(n for n in range(start, len(lines)) if f"BRA `({label})" in lines[n])
    addresses = [re.findall(r"/\*(\w+)\*/", line)[0] for line in (lines[start + 1], lines[end])]
    first, last = (int(address, 16) for address in addresses)
    idle = sum(" NOP" in line for line in lines[start:end])
    assert one.loops[0].instructions == (last - first) // 16 + 1 - idle


OUT_OF_LINE = """
        /*0000*/                   MOV R1, R2 ;
.L_a:
        /*0010*/                   IADD R1, R1, 1 ;
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R1 ;
        /*0030*/              @!P0 BRA `(.L_wait) ;
.L_back:
        /*0040*/                   NOP ;
        /*0050*/                   BSSY B0, `(.L_met) ;
        /*0060*/               @P1 BRA `(.L_met2) ;
        /*0070*/                   FADD R3, R3, R1 ;
.L_met2:
        /*0080*/                   BSYNC B0 ;
.L_met:
        /*0090*/               @P0 BRA `(.L_a) ;
        /*00a0*/                   EXIT ;
.L_wait:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R1 ;
        /*00c0*/              @!P0 BRA `(.L_wait) ;
        /*00d0*/                   BRA `(.L_back) ;
.L_end:
        /*00e0*/                   BRA `(.L_end) ;
"""


def test_what_lies_behind_the_end_belongs_to_its_loop():
    """A branch back from there is no loop of its own, nor is the wait, nor the end."""
    (loop,) = Listing(OUT_OF_LINE).loops
    assert loop.label == ".L_a"
    # 0x10 to 0x90 without NOP, and the three that wait.
    assert len(loop.instructions) == 8 + 3


PARTITIONS = """
        /*0000*/                   LDS.U8 R2, [R2] ;
        /*0010*/                   BRX R2 -0x10   (*"BRANCH_TARGETS .L_one,.L_other"*) ;
.L_one:
        /*0020*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0 ;
        /*0030*/              @!P0 BRA `(.L_one) ;
.L_a:
        /*0040*/                   FADD R3, R3, R1 ;
        /*0050*/               @P0 BRA `(.L_a) ;
        /*0060*/                   EXIT ;
.L_other:
        /*0070*/                   FMUL R3, R3, R1 ;
        /*0080*/               @P0 BRA `(.L_other) ;
        /*0090*/                   EXIT ;
"""


def test_the_loops_of_all_partitions_are_found_and_no_wait_for_registers():
    assert [loop.label for loop in Listing(PARTITIONS).loops] == [".L_a", ".L_other"]


# Exponentials beside the products of wgmma

SOFTMAX = """
.L_loop:
        /*0000*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24 ;
        /*0010*/                   MUFU.EX2 R3, R1 ;
        /*0020*/                   HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0 ;
        /*0030*/                   HGMMA.64x128x16.F32 R88, R152, gdesc[UR16].tnspB, R88, gsb0 ;
        /*0040*/                   WARPGROUP.DEPBAR.LE gsb0, {first} ;
        /*0050*/                   MUFU.EX2 R4, R1 ;
        /*0060*/                   MUFU.RCP R5, R1 ;
        /*0070*/                   WARPGROUP.DEPBAR.LE gsb0, {second} ;
        /*0080*/                   MUFU.EX2 R6, R1 ;
        /*0090*/               @P0 BRA `(.L_loop) ;
        /*00a0*/                   EXIT ;
"""


@pytest.mark.parametrize(
    ("first", "second", "under"), [("0x0", "0x0", 1), ("0x1", "0x0", 2), ("0x1", "0x1", 3)]
)
def test_exponentials_count_while_a_product_is_under_way(first, second, under):
    (loop,) = Listing(SOFTMAX.format(first=first, second=second)).loops
    assert machine_code.exponentials([loop, loop]) == (6, 2 * under)


def test_products_that_are_under_way_from_turn_to_turn():
    """They are, where the exponentials stand before them in the loop."""
    text = SOFTMAX.format(first="0x1", second="0x1").replace("HGMMA", "FFMA", 2)
    moved = text.replace("MUFU.EX2 R3", "FADD R3").replace("WARPGROUP.DEPBAR.LE gsb0, 0x1", "NOP")
    (loop,) = Listing(moved).loops
    assert machine_code.exponentials([loop]) == (2, 2)


# Occupancy


@pytest.mark.parametrize(
    ("target", "registers", "num_warps", "shared", "programs", "limits"),
    [
        ("sm_90", 32, 4, 0, 16, ("registers", "64 warps")),
        ("sm_90", 33, 4, 0, 12, ("registers",)),
        ("sm_90", 255, 8, 0, 1, ("registers",)),
        ("sm_90", 16, 1, 0, 32, ("32 programs",)),
        ("sm_90", 16, 4, 227 * 1024, 1, ("shared memory",)),
        ("sm_90", 16, 4, 113 * 1024, 2, ("shared memory",)),
        ("sm_90", 16, 4, 113 * 1024 + 1, 1, ("shared memory",)),
        ("sm_80", 64, 8, 40 * 1024, 4, ("registers", "shared memory")),
        ("sm_86", 16, 1, 0, 16, ("16 programs",)),
        ("sm_89", 16, 2, 0, 24, ("48 warps", "24 programs")),
        ("sm_75", 16, 4, 0, 8, ("32 warps",)),
        ("sm_75", 16, 4, 16 * 1024, 4, ("shared memory",)),
        ("gfx942", 64, 4, 0, 8, ("registers", "32 warps")),
        ("gfx942", 140, 4, 16 * 1024, 3, ("registers",)),
    ],
)
def test_programs_on_a_multiprocessor(target, registers, num_warps, shared, programs, limits):
    found = occupancy(find_target(target), registers=registers, num_warps=num_warps, shared=shared)
    assert (found.programs, set(found.limits)) == (programs, set(limits))


# Listings


@pytest.fixture(scope="module")
def calling(tmp_path_factory) -> Launch:
    """A kernel whose loop calls a function of its file, and one of Triton's."""
    above = "@triton.jit\ndef twice(x):\n    return tl.exp(x) * 2\n\n"
    body = (
        "o = tl.arange(0, 1024)\nx = tl.load(x_ptr + o)\nfor i in range(n):\n"
        "    x += twice(x)\n    x /= tl.sum(x)\ntl.store(x_ptr + o, x)"
    )
    return launch_from(tmp_path_factory.mktemp("calling"), body, above)


@pytest.mark.parametrize(
    ("target", "stage", "operations"),
    [
        ("sm_90", "ttir", ("tt.load", "tt.reduce", "math.exp", "scf.for", "tt.store")),
        ("sm_90", "ttgir", ("tt.load", "tt.reduce", "math.exp", "scf.for", "tt.store")),
        ("sm_90", "ptx", ("ld.global", "shfl.sync", "ex2.approx", None, "st.global")),
        ("sm_90", "sass", ("LDG", "SHFL", "MUFU.EX2", None, "STG")),
        ("gfx942", "amdgcn", ("buffer_load", "row_shr", "v_exp_f32", None, "buffer_store")),
    ],
)
def test_the_source_stands_above_what_it_became(calling, target, stage, operations):
    sources = ("tl.load(", "tl.sum(", "tl.exp(", "for i in", "tl.store(")
    shown = ""
    found: dict[str, set[str]] = {}
    for line in texts(calling, target)[stage].splitlines():
        code, mark, comment = line.partition(
            "; kernels.py" if stage == "amdgcn" else "// kernels.py"
        )
        shown = comment if mark else shown
        for operation in filter(None, operations):
            if operation in code:
                found.setdefault(operation, set()).add(shown)
    for operation, source in zip(operations, sources, strict=True):
        if operation:
            assert operation in found
            assert all(source in line for line in found[operation]), found[operation]
    assert "standard.py" not in texts(calling, target)[stage]


def test_ptx_with_comments_is_still_ptx(calling, tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(texts(calling, "sm_80")["ptx"])
    command = [sass.tool("ptxas"), "--gpu-name=sm_80", str(path), "-o", str(tmp_path / "cubin")]
    subprocess.run(command, check=True)


def test_what_triton_inlines_is_at_the_line_of_the_call():
    ptx = (
        "\t.loc\t1 15 3                          // a.py:15:3\n"
        "\t.loc\t2 293 36                        // standard.py:293:36 @[ a.py:16:18 ]\n"
        '\t.file\t1 "/home/a.py"\n'
        f'\t.file\t2 "{Path(sass.tool("")).parents[3]}/triton/language/standard.py"\n'
    )
    assert "\t.loc\t1 16 18\n" in listings.relocated(ptx)
    assert "\t.loc\t1 15 3 " in listings.relocated(ptx)


# The table


def test_the_table_is_80_columns_wide_and_says_what_does_not_fit():
    large = matmul(arguments={"BM": 128, "BN": 256, "BK": 32}, num_warps=8, num_stages=8)
    file = Path(large.kernel.__code__.co_filename)
    (outcomes,) = compile_each([large], ("sm_80", "sm_90"), subject=file)
    assert isinstance(outcomes["sm_80"], Wrong)
    lines = figures.sheet(outcomes)
    assert max(map(len, lines)) <= 80
    table = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[1:])
    assert table["registers a thread"].startswith("does not fit  ")
    assert table["shared memory a program"].endswith(" of 227 KB")
    assert re.fullmatch(r"\d+ instructions", table["innermost loop"])
    assert table["for tensor cores"] == "2"


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_a_loop_is_named_by_its_statement(calling, target):
    """Not by lines that it calls, or that the compiler moved into it."""
    file = Path(calling.kernel.__code__.co_filename)
    (outcomes,) = compile_each([calling], (target,), subject=file)
    (loop,) = outcomes[target].loops
    start = calling.kernel.__code__.co_firstlineno + 4
    assert min(line for _, line, _ in loop.lines) < start
    lines = "\n".join(figures.sheet(outcomes))
    assert re.search(rf"of lines +{start}-{start + 2}$", lines, re.MULTILINE)


def test_a_kernel_of_the_same_text_in_another_file_has_lines_of_its_own(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        launch = launch_from(tmp_path / name, "for i in range(n):\n    tl.atomic_add(x_ptr, i)")
        one = made(launch)
        assert {file for loop in one.loops for file, _, _ in loop.lines} == {one.file}
