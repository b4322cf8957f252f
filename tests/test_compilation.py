"""Kernels are compiled for GPUs that are not there, and what is wrong is told in their terms."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from judge.compilation import ahead_of_time, errors, machine_code, specialization
from judge.compilation import process as compile_process
from judge.compilation.targets import TARGETS
from judge.core import paths
from judge.core.launch import Launch
from judge.core.verdict import Wrong

HEADER = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""

RIGHT = """
@triton.jit
def square(x):
    return x * x


@triton.jit
def pointwise(x_ptr, y_ptr, n, scale, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, FUNCTION(x) * scale, mask=mask)


@triton.jit
def where(x_ptr, keep_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    keep = tl.load(keep_ptr + offsets, mask=mask)
    x = tl.load(x_ptr + offsets, mask=mask & keep, other=0.0)
    tl.store(y_ptr + offsets, tl.where(keep, x, -1.0), mask=mask)


@triton.autotune([triton.Config({"BM": 64, "BN": 64, "BK": 32})], key=["K"])
@triton.heuristics({"EVEN": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    PRECISION: tl.constexpr, EVEN: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        in_k = k + offs_k < K
        a = tl.load(a_ptr + offs_m[:, None] * stride_am + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * stride_bk + offs_n[None, :])
        if not EVEN:
            a = tl.where(in_k[None, :], a, 0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :], acc)


@triton.jit
def descriptors(a_desc, b_desc, c_desc, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a_desc.load([m, k]), b_desc.load([k, n]), acc)
    c_desc.store([m, n], acc.to(c_desc.dtype))


@triton.jit
def made_descriptor(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    y.store([0, 0], x.load([0, 0]))


@triton.jit
def histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.atomic_add(counts_ptr + x, 1, mask=offsets < n)


@triton.jit
def asin(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, libdevice.asin(tl.load(x_ptr + offsets)))


@triton.jit
def odd_arguments(pointers, bias_ptr, flag, KIND: tl.constexpr, SIZES: tl.constexpr):
    offsets = tl.arange(0, SIZES[1])
    x = tl.load(pointers[0] + offsets).to(KIND)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + offsets)
    if flag:
        x = -x
    tl.store(pointers[1] + offsets, x)


@triton.jit
def stride_to_float(x_ptr, stride):
    tl.store(x_ptr, stride.to(tl.float32))


@triton.jit
def scan_and_sum(x_ptr, y_ptr, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, ROWS)
    carry = tl.zeros((ROWS,), tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns[None, :] < n
        x = tl.load(x_ptr + rows[:, None] * n + columns[None, :], mask=mask, other=0.0)
        y = tl.cumsum(x, axis=1) + carry[:, None]
        tl.store(y_ptr + rows[:, None] * n + columns[None, :], y, mask=mask)
        carry += tl.sum(x, axis=1)
"""

half = torch.float16
x, y = torch.zeros(4096), torch.zeros(4096)
a, b, c = (torch.zeros(256, 256, dtype=half) for _ in range(3))
c32 = torch.zeros(256, 256)

MATMUL = {"a_ptr": a, "b_ptr": b, "c_ptr": c32, "M": 256, "N": 256, "K": 256}
MATMUL |= {"stride_am": 256, "stride_bk": 256, "stride_cm": 256}
MATMUL |= {"PRECISION": "tf32", "EVEN": True, "BM": 64, "BN": 64, "BK": 32}


def written(folder: Path, source: str, name: str = "kernels"):
    """The module of this source in a file of its own, as a learner's file is loaded."""
    path = folder / f"{name}.py"
    path.write_text(HEADER + textwrap.dedent(source))
    return paths.load(path)


def function(kernel):
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


def launched(kernel, arguments: dict, **options) -> Launch:
    kernel = function(kernel)
    constexprs = frozenset(name for name, kind in kernel.__annotations__.items() if kind)
    return Launch(kernel, (1, 1, 1), arguments, constexprs, options)


def checked(*launches: Launch, targets=("sm_80",), **options) -> list[ahead_of_time.Compiled]:
    subject = Path(launches[0].kernel.__code__.co_filename)
    return ahead_of_time.check_compiles(list(launches), targets, subject=subject, **options)


@pytest.fixture
def forgetful(monkeypatch):
    """No answer of an earlier test is used."""
    monkeypatch.setattr(compile_process, "_answers", {})


@pytest.fixture(scope="module")
def right(tmp_path_factory):
    return written(tmp_path_factory.mktemp("right"), RIGHT, "right")


def pointwise(right, *, x=x, y=y, n=4096, **options) -> Launch:
    arguments = {"x_ptr": x, "y_ptr": y, "n": n, "scale": 2.0}
    arguments |= {"FUNCTION": right.square, "BLOCK": 1024}
    return launched(right.pointwise, arguments, **options)


def matmul(right, changes: dict | None = None, **options) -> Launch:
    return launched(right.matmul, MATMUL | (changes or {}), **options)


def descriptors(right, **options) -> Launch:
    described = [TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in (a, b, c)]
    arguments = dict(zip(("a_desc", "b_desc", "c_desc"), described, strict=True))
    arguments |= {"K": 256, "BM": 64, "BN": 64, "BK": 64}
    return launched(right.descriptors, arguments, **options)


def slow(right) -> Launch:
    """A kernel that compiles for minutes."""
    changes = {"a_ptr": c32, "b_ptr": c32, "BM": 256, "BN": 256, "BK": 128, "PRECISION": "ieee"}
    return matmul(right, changes)


# Right kernels


def test_kernels_of_every_kind_compile_for_two_nvidia_gpus(right):
    launches = [
        pointwise(right),
        launched(right.where, {"x_ptr": x, "keep_ptr": x > 0, "y_ptr": y, "n": 999, "BLOCK": 256}),
        matmul(right, num_warps=8, num_stages=4),
        descriptors(right, num_warps=4, num_ctas=1),
        launched(
            right.made_descriptor, {"x_ptr": c32, "y_ptr": c32, "M": 99, "N": 64, "BLOCK": 16}
        ),
        launched(
            right.histogram,
            {"x_ptr": y.int(), "counts_ptr": y.int(), "n": 77, "BLOCK": 128},
        ),
        launched(right.asin, {"x_ptr": x, "y_ptr": y, "BLOCK": 128}),
        launched(
            right.odd_arguments,
            {
                "pointers": (x, y),
                "bias_ptr": None,
                "flag": True,
                "KIND": right.tl.float32,
                "SIZES": (1, 64),
            },
        ),
        launched(right.stride_to_float, {"x_ptr": x, "stride": 2}),
    ]
    found = checked(*launches, targets=("sm_80", "sm_90"))
    expected = [launch.kernel.__name__ for launch in launches for _ in range(2)]
    assert [one.kernel for one in found] == expected
    assert [one.target for one in found] == ["sm_80", "sm_90"] * len(launches)
    assert {one.num_warps for one in found} == {4, 8}
    assert all(one.registers is None for one in found)


def test_every_target_is_one_the_compiler_knows(right):
    found = checked(pointwise(right), targets=tuple(TARGETS), details=True)
    assert [one.target for one in found] == list(TARGETS)
    assert all(one.registers > 0 and one.spills == 0 for one in found)
    assert all(one.loads == one.stores == (128,) for one in found)


def test_unknown_target_lists_the_known(right):
    with pytest.raises(ValueError, match=r"unknown target 'sm_42': one of sm_75, sm_80, .*gfx950"):
        checked(pointwise(right), targets=("sm_80", "sm_42"))


def test_a_second_check_of_the_same_launch_costs_nothing(right):
    checked(pointwise(right))
    start = time.monotonic()
    checked(pointwise(right))
    assert time.monotonic() - start < 0.2


# What a launch specialises by


def test_launches_that_triton_serves_by_one_kernel_count_once(right):
    wide, narrow = torch.zeros(2**16), torch.zeros(4097)[1:]
    same = [pointwise(right), pointwise(right, x=wide, n=2**15)]
    assert len(checked(*same)) == 1
    other = [pointwise(right, n=33), pointwise(right, x=narrow), pointwise(right, num_warps=8)]
    assert len(checked(*same, *other)) == 4


def test_alignment_decides_how_wide_loads_are(right):
    misaligned = torch.zeros(4097)[1:]
    found = checked(pointwise(right), pointwise(right, x=misaligned), details=True)
    assert [one.loads for one in found] == [(128,), (32,)]
    assert [one.stores for one in found] == [(128,), (128,)]


def test_ints_keep_apart_what_triton_keeps_apart():
    kinds = [1, 2, 16, -1, -16, 2**31 - 1, 2**31, 2**40, -(2**40) + 1, 2**63, 2**63 + 1]
    found = [specialization.argument(value, "n")[1] for value in kinds]
    assert [value % 16 == 0 for value in found] == [value % 16 == 0 for value in kinds]
    assert [value == 1 for value in found] == [value == 1 for value in kinds]
    assert [-(2**31) <= value < 2**31 for value in found] == [
        -(2**31) <= value < 2**31 for value in kinds
    ]
    assert [value < 2**63 for value in found] == [value < 2**63 for value in kinds]


def test_an_int_that_is_1_is_a_constexpr(right):
    with pytest.raises(Wrong, match="object has no attribute 'to'") as wrong:
        checked(launched(right.stride_to_float, {"x_ptr": x, "stride": 1}))
    assert "an int argument that is 1 is a constexpr" in str(wrong.value)
    assert "tl.cast(n, tl.float32)" in str(wrong.value)


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ([1, 2], "the argument n is a list, which a kernel does not take\nhint: pass tuple"),
        (torch.zeros(4, dtype=torch.complex64), "n is a complex64 tensor.*\nhint: .*view_as_real"),
        ("relu", "n is a str.*\nhint: annotate n: tl.constexpr"),
        (torch.float16, "n is a dtype.*\nhint: annotate n: tl.constexpr"),
        (x.numpy().astype("int64")[0], r"n is a int64.*\nhint: pass int\(n\)"),
    ],
    ids=["list", "complex", "string", "dtype", "numpy"],
)
def test_argument_that_no_kernel_takes(right, argument, told):
    with pytest.raises(Wrong, match=told):
        checked(pointwise(right, n=argument))


# Details


def test_details_of_tensor_cores_and_copies(right):
    launches = matmul(right), descriptors(right)
    found = checked(*launches, targets=("sm_80", "sm_90", "gfx942"), details=True)
    ampere, hopper, amd, _, tma, _ = found
    assert ampere.tensor_cores == ("mma.sync",)
    assert hopper.tensor_cores == tma.tensor_cores == ("wgmma.mma_async",)
    assert amd.tensor_cores == ("mfma",)
    assert ampere.copies == hopper.copies == ("cp.async",)
    assert tma.copies == ("TMA",)
    assert ampere.loads == amd.loads == (128,)
    assert ampere.shared > 0


def test_spills_are_reported_not_failed(right):
    (found,) = checked(matmul(right, {"BM": 128, "BN": 128}, maxnreg=64), details=True)
    assert found.registers <= 64
    assert found.spills > 100


def test_widths_of_accesses_in_ptx():
    ptx = """
        ld.global.L1::evict_last.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
        @%p1 ld.global.b16 { %rs1 }, [ %rd2 + 0 ];
        st.global.v2.b64 [ %rd3 + 0 ], { %rd5, %rd6 };
        cp.async.ca.shared.global [ %r9 + 0 ], [ %rd4 + 0 ], 0x8, %r10;
        ld.param.b64 %rd1, [k_param_0];
    """
    assert re.findall(machine_code.PTX_LOAD, ptx) == [("4", "32"), ("", "16")]
    assert re.findall(machine_code.PTX_STORE, ptx) == [("2", "64")]
    assert re.findall(machine_code.PTX_COPY, ptx) == ["0x8"]


def test_table_has_a_line_for_each_kernel_and_target(right):
    plain = ahead_of_time.table(checked(pointwise(right), targets=("sm_80", "sm_90")))
    assert [line.split()[:2] for line in plain.splitlines()] == [
        ["kernel", "target"],
        ["pointwise", "sm_80"],
        ["pointwise", "sm_90"],
    ]
    assert "registers" not in plain
    assert "FUNCTION=square, BLOCK=1024" in plain
    detailed = ahead_of_time.table(checked(matmul(right), details=True))
    assert "registers" in detailed
    assert "mma.sync" in detailed
    assert "128" in detailed


# What does not fit


def test_too_much_shared_memory(right):
    large = matmul(right, {"BM": 128, "BN": 256, "BK": 32}, num_warps=8, num_stages=8)
    with pytest.raises(Wrong) as wrong:
        checked(large, targets=("sm_80", "sm_86", "sm_90"))
    message = str(wrong.value)
    assert "matmul does not fit for sm_80\n" in message
    needed = r"it needs 1\d\d,\d{3} bytes of shared memory a program, "
    assert re.search(needed + r"sm_80 \(A100\) has 166,912", message)
    assert re.search(needed + r"sm_86 \(RTX 3090\) has 101,376", message)
    assert "BM=128, BN=256, BK=32, num_warps=8, num_stages=8" in message
    assert "smaller tiles or fewer num_stages" in message
    assert "sm_90" not in message
    assert checked(large, targets=("sm_90",))[0].shared > 166_912


@pytest.mark.parametrize(("gpu", "num_warps"), [("sm_80", 64), ("gfx942", 32)])
def test_too_many_threads(right, gpu, num_warps):
    with pytest.raises(Wrong, match=r"makes 2,048 threads a program, .* has 1,024") as wrong:
        checked(pointwise(right, num_warps=num_warps), targets=(gpu,))
    assert f"num_warps can be {num_warps // 2} at most" in str(wrong.value)


def test_options_that_a_target_does_not_take(right):
    with pytest.raises(Wrong, match="num_ctas > 1 requires NVIDIA SM90"):
        checked(pointwise(right, num_ctas=2))
    with pytest.raises(Wrong, match=r"num_warps must be a power of 2\n.*\nhint: num_warps is 1, 2"):
        checked(pointwise(right, num_warps=6))


def test_dtype_that_only_newer_gpus_have(tmp_path):
    module = written(
        tmp_path,
        """
        @triton.jit
        def fp8(x_ptr):
            tl.store(x_ptr, tl.load(x_ptr).to(tl.float8e4nv).to(tl.float32))
        """,
    )
    with pytest.raises(Wrong, match="does not compile for sm_80\n") as wrong:
        checked(launched(module.fp8, {"x_ptr": x}), targets=("sm_80", "sm_90"))
    assert "sm_89 and newer do" in str(wrong.value)


# What the interpreter accepts and the compiler rejects

REJECTED = {
    "break": ("for i in range(n):\n    if i > 2:\n        break", "no `break`"),
    "continue": ("for i in range(n):\n    if i > 2:\n        continue", "no `continue`"),
    "return_in_for": ("for i in range(n):\n    if i > 2:\n        return", "return inside a loop"),
    "return_in_while": ("while n > 2:\n    return", "return inside a loop"),
    "list": ("sums = [x, x]\nsums[0] = x", "a list is read only"),
    "append": ("sums = []\nsums.append(x)", "no list, dict or set"),
    "dict": ("sums = {'a': x}", "no list, dict or set"),
    "comprehension": ("sums = [x for i in range(3)]", "no list, dict or set"),
    "size_100": ("y = tl.arange(0, 100)", "power of two"),
    "size_of_zeros": ("y = tl.zeros((3,), tl.float32)", "power of two"),
    "size_not_constexpr": ("y = tl.arange(0, n)", "annotate the parameter `: tl.constexpr`"),
    "shape_not_constexpr": ("y = tl.zeros((n,), x.dtype)", "annotate the parameter"),
    "small_dot": (
        "y = tl.dot(tl.zeros((16, 8), tl.float16), tl.zeros((8, 16), tl.float16))",
        r"K >= 16\nhint: .*pad with masked lanes",
    ),
    "dot_dtypes": ("y = tl.dot(tile, tile.to(tl.float16))", r"b.to\(a.dtype\)"),
    "dot_shapes": ("y = tl.dot(tile, tl.zeros((32, 16), tl.float32))", "as many columns"),
    "dot_vector": ("y = tl.dot(tile, x)", r"tl.sum\(a \* x"),
    "f_string": ("y = f'{n}'", "tl.device_print"),
    "try": ("try:\n    y = x\nexcept Exception:\n    y = x", "no `try`"),
    "lambda": ("f = lambda x: x + 1", "no `lambda`"),
    "yield": ("yield x", "no `yield`"),
    "nested_function": ("def f(x):\n    return x", "at the top of the file"),
    "global": ("y = x * SCALE", r"SCALE = tl.constexpr\(...\)"),
    "if_tile": ("if x > 0:\n    n += 1", "tl.where"),
    "while_tile": ("while x > 0:\n    x -= 1", "tl.where"),
    "loop_type": (
        "y = 0\nfor i in range(n):\n    y += tl.load(x_ptr + i)",
        r"Loop-carried variable y has initial type int32.*\nhint: .*start y with",
    ),
    "loop_dtype": (
        "y = tl.zeros((16,), tl.float16)\nfor i in range(n):\n    y = y + x",
        r"initial type fp16\[16\] but is re-assigned to fp32\[16\]",
    ),
    "if_types": ("if n > 2:\n    y = x\nelse:\n    y = x.to(tl.float16)", "give one type"),
    "set_in_if": ("if n > 2:\n    y = x\ntl.store(x_ptr, y)", "set y before"),
    "shapes": ("y = x + tl.arange(0, 32)", r"x\[:, None\] makes a column"),
    "tile_to_one_address": ("tl.store(x_ptr, x)", "add the offsets to the pointer"),
    "python_function": ("y = python(x)", "decorated with @triton.jit"),
    "math": ("y = math.sqrt(x)", "tl.sqrt"),
    "torch_dtype": ("y = x.to(torch.float16)", "tl.float16"),
    "libdevice_name": (
        "y = libdevice.arcsine(x)",
        "no function of triton.language.extra.libdevice",
    ),
    "libdevice_dtype": ("y = libdevice.asin(x.to(tl.float16))", "float32 or float64"),
    "exp_of_int": ("y = tl.exp(n)", r"x.to\(tl.float32\)"),
    "enumerate": ("for i, j in enumerate((1, 2)):\n    n += i", "Python's enumerate"),
    "matmul_operator": ("y = tile @ tile", r"tl.dot\(a, b\)"),
    "power": ("y = x ** 2", r"x \* x"),
    "item": ("y = x[0]", "a tile has no items"),
    "static_range": ("for i in tl.static_range(n):\n    x += i", "unrolled by the compiler"),
    "long_offsets_of_a_descriptor": (
        "d = tl.make_tensor_descriptor(x_ptr, [n, 16], [16, 1], [16, 16])\n"
        "y = d.load([tl.program_id(0).to(tl.int64), 0])",
        r"counted in int32",
    ),
    "recursion": ("y = recursive(n)", "cannot call itself"),
}


@pytest.fixture(scope="module")
def rejected(tmp_path_factory):
    """Where each body stands as a kernel of its own, in one module."""
    source = """
import math

SCALE = 2.0


def python(x):
    return x + 1


@triton.jit
def recursive(n):
    return recursive(n)
"""
    for name, (body, _) in REJECTED.items():
        source += (
            f"\n\n@triton.jit\ndef {name}_kernel(x_ptr, n):\n"
            "    x = tl.load(x_ptr + tl.arange(0, 16))\n"
            "    tile = x[:, None] + x[None, :]\n" + textwrap.indent(body, "    ") + "\n"
        )
    return written(tmp_path_factory.mktemp("rejected"), source, "rejected")


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_with_advice_at_its_line(rejected, name):
    body, told = REJECTED[name]
    kernel = function(getattr(rejected, f"{name}_kernel"))
    with pytest.raises(Wrong) as wrong:
        checked(launched(kernel, {"x_ptr": x, "n": 20}))
    message = str(wrong.value)
    assert re.search(told, message), message
    place = re.match(
        r"(.*rejected\.py):(\d+)(?::\d+)?  (\w+) does not compile for sm_80\n", message
    )
    first = kernel.__code__.co_firstlineno
    if name != "recursion":
        assert place[3] == kernel.__name__
        # The decorator, `def` and two lines of loads precede the body.
        earliest = first + 1 if name == "return_in_while" else first + 4
        assert earliest <= int(place[2]) < first + 4 + len(body.splitlines())
    assert "Traceback" not in message
    assert "loc(" not in message


def test_every_target_gets_the_same_message(rejected):
    launch = launched(rejected.python_function_kernel, {"x_ptr": x, "n": 20})
    with pytest.raises(Wrong, match="does not compile for sm_80, sm_90, gfx942\n") as wrong:
        checked(launch, targets=("sm_80", "sm_90", "gfx942"))
    assert str(wrong.value).count("hint:") == 1


def test_message_in_full(tmp_path, monkeypatch):
    module = written(
        tmp_path,
        """
        @triton.jit
        def total(x_ptr, n, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            if n > 1:
                tl.store(x_ptr + offsets, 1.0 + tl.arange(0, 3 * BLOCK))
        """,
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Wrong) as wrong:
        checked(
            launched(module.total, {"x_ptr": x, "n": 5, "BLOCK": 4}), targets=("sm_80", "sm_90")
        )
    assert str(wrong.value) == textwrap.dedent("""\
        kernels.py:11:41  total does not compile for sm_80, sm_90
            tl.store(x_ptr + offsets, 1.0 + tl.arange(0, 3 * BLOCK))
                                            ^
        arange's range must be a power of 2
        launched with BLOCK=4
        hint: every side of a tile is a power of two: round up with triton.next_power_of_2(n) \
in the launcher, and mask the rest""")


def test_error_in_a_called_function_stands_there(tmp_path):
    module = written(
        tmp_path,
        """
        @triton.jit
        def helper(x):
            return x + tl.arange(0, 3)

        @triton.jit
        def caller(x_ptr):
            tl.store(x_ptr, helper(1.0))
        """,
    )
    with pytest.raises(Wrong) as wrong:
        checked(launched(module.caller, {"x_ptr": x}))
    assert re.match(r".*kernels.py:9:16  caller does not compile", str(wrong.value))
    assert re.search(r"called from .*kernels.py:13\n", str(wrong.value))


def test_same_text_in_another_file_is_not_mistaken(tmp_path):
    source = """
        @triton.jit
        def twin(x_ptr):
            tl.store(x_ptr, unknown)
        """
    for name in ("first", "second", "third"):
        module = written(tmp_path, source, name)
        with pytest.raises(Wrong, match=rf"{name}.py:9:21  twin"):
            checked(launched(module.twin, {"x_ptr": x}))


def test_error_in_tritons_library_stands_at_the_call(tmp_path):
    module = written(
        tmp_path,
        """
        @triton.jit
        def axis(x_ptr):
            tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=3))
        """,
    )
    with pytest.raises(Wrong, match=r"kernels.py:9:21  axis .*\n.*\n.*\ninvalid axis 3"):
        checked(launched(module.axis, {"x_ptr": x}))


def test_a_pass_that_fails_is_named(right):
    printed = (
        "/tmp/k.py:3:0: error: Failures have been detected while processing an MLIR pass pipeline\n"
        "/tmp/k.py:3:0: note: Pipeline failed while executing [`SomePass` on 'builtin.module']\n"
    )
    error = {"kind": "RuntimeError", "message": "PassManager::run failed", "frames": []}
    place, body = errors.rejection(error, printed, (right.__file__, 3), "")
    assert place.endswith("right.py:3")
    assert "PassManager::run failed in SomePass\nhint: the compiler could not handle this" in body


def test_a_diagnostic_in_tritons_library_stands_at_the_call(right):
    library = f"{os.path.dirname(triton.__file__)}/language/standard.py"
    printed = f"{library}:293:36: error: bad\n{right.__file__}:7:0: note: called from\n"
    error = {"kind": "RuntimeError", "message": "PassManager::run failed", "frames": []}
    place, body = errors.rejection(error, printed, (right.__file__, 3), "")
    assert place.endswith("right.py:7")
    assert body.endswith("bad")


# The process that compiles


def test_a_module_that_prints_does_not_disturb(tmp_path, capfd):
    module = written(
        tmp_path,
        """
        import os
        import sys
        print("printed at import")
        os.write(1, b"written at import" * 10000)
        print("/tmp/x.py:1:2: error: written at import", file=sys.stderr)

        @triton.jit
        def fine(x_ptr):
            tl.static_print("printed by the compiler")
            tl.store(x_ptr, 1.0)

        @triton.jit
        def wrong(x_ptr):
            tl.store(x_ptr, unknown)
        """,
    )
    capfd.readouterr()
    compile_process.stop()
    assert checked(launched(module.fine, {"x_ptr": x}))
    with pytest.raises(Wrong, match="unknown is not defined"):
        checked(launched(module.wrong, {"x_ptr": x}))
    assert capfd.readouterr() == ("", "")


def test_a_module_that_needs_the_interpreter(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    module = written(
        tmp_path,
        """
        import os
        os.environ["TRITON_INTERPRET"]

        @triton.jit
        def kernel(x_ptr):
            tl.store(x_ptr, 1.0)
        """,
    )
    with pytest.raises(Wrong, match="import without TRITON_INTERPRET raised KeyError") as wrong:
        checked(launched(module.kernel, {"x_ptr": x}))
    assert re.match(r".*kernels.py:8  kernel", str(wrong.value))


def test_a_kernel_that_is_made_at_launch(tmp_path):
    module = written(
        tmp_path,
        """
        def make():
            @triton.jit
            def kernel(x_ptr):
                tl.store(x_ptr, 1.0)
            return kernel
        """,
    )
    with pytest.raises(Wrong, match="define it at the top level of the file"):
        checked(launched(module.make(), {"x_ptr": x}))


def test_a_file_that_changed_is_compiled_anew(tmp_path):
    source = "@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, {})\n"
    module = written(tmp_path, source.format("1.0"))
    launch = launched(module.kernel, {"x_ptr": x})
    checked(launch)
    path = tmp_path / "kernels.py"
    path.write_text(HEADER + source.format("unknown"))
    os.utime(path, (1, 1))
    with pytest.raises(Wrong, match="unknown is not defined"):
        checked(launch)


def test_time_limit_ends_the_compilation_and_not_the_judge(right, forgetful):
    with pytest.raises(Wrong) as wrong:
        checked(slow(right), targets=("sm_80", "sm_90"), time_limit=1.0)
    message = str(wrong.value)
    assert re.match(
        r".*right.py:\d+  matmul did not finish compiling within 1 s for sm_80\n", message
    )
    assert "ieee" in message
    assert "def matmul" in Path(right.__file__).read_text().splitlines()[_line(message) - 1]
    assert checked(pointwise(right))


def test_time_limit_of_the_test_counts_too(right, monkeypatch, forgetful):
    monkeypatch.setattr(signal, "getitimer", lambda which: (3.5, 0.0))
    with pytest.raises(Wrong, match=r"within 2 s for sm_80\n.*\n.*--time-limit SECONDS") as wrong:
        checked(slow(right))
    assert "smaller tiles" not in str(wrong.value)


def test_a_compiler_that_dies_is_told_and_replaced(right, forgetful):
    victim = compile_process._current().process.pid
    threading.Timer(0.7, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(Wrong, match=r"crashed the compiler itself \(SIGKILL\) for sm_80") as wrong:
        checked(slow(right))
    assert f"a fault of Triton {triton.__version__}" in str(wrong.value)
    assert checked(pointwise(right))
    assert compile_process._worker.process.pid != victim


@pytest.mark.skipif(
    tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 9), reason="Triton 3.9 compiles it"
)
def test_a_crash_that_triton_catches_is_told_as_one(right, forgetful):
    arguments = {"x_ptr": x, "y_ptr": y, "n": 1000, "ROWS": 4, "BLOCK": 1024}
    with pytest.raises(Wrong, match="scan_and_sum crashed the compiler itself for sm_80") as wrong:
        checked(launched(right.scan_and_sum, arguments))
    assert not compile_process._worker
    told = r"TritonGPUOptimizeThreadLocality, OptimizeThreadLocality.cpp:\d+: Assertion `"
    assert re.search(told, str(wrong.value))
    assert checked(pointwise(right))


def test_an_interrupted_check_leaves_no_answer_behind(right, forgetful):
    class Interrupted(BaseException):
        pass

    def interrupt(signum, frame):
        raise Interrupted

    compile_process._current()
    before = signal.signal(signal.SIGUSR1, interrupt)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Interrupted):
            checked(slow(right))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [one.kernel for one in checked(pointwise(right))] == ["pointwise"]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "compiling"])
def test_the_compilers_process_dies_with_its_parent(busy, tmp_path):
    hangs = tmp_path / "hangs.py"
    hangs.write_text("while True:\n    pass\n")
    script = textwrap.dedent("""
        import sys, time
        from judge.compilation import process as compile_process
        worker = compile_process._current()
        print(worker.process.pid, flush=True)
        if {busy}:
            worker.connection.send({{"subject": "{hangs}"}})
        time.sleep(100)
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", script.format(busy=busy, hangs=hangs)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 5
    while _runs(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _line(message: str) -> int:
    return int(re.match(r".*?:(\d+)", message)[1])


NESTED = """
import torch
import triton
import triton.language as tl


@triton.jit
def halved(x):
    return missing(x)


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, halved(tl.load(x_ptr)))


def subject():
    kernel.warmup(torch.empty(4), grid=(1,))
"""

LAUNCHED = """
import sys
from pathlib import Path

from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime import driver

from judge.compilation import errors, worker
from judge.core import paths
from judge.core.settings import settings

path = Path(sys.argv[1])
settings.subjects = path.parent
driver.set_active(worker.TargetDriver(GPUTarget("cuda", 90, 32)))
try:
    paths.load(path).subject()
except CompilationError as error:
    print(errors.explained(error, path))
"""


def test_a_launch_that_does_not_compile_is_explained_at_the_innermost_line(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    path = tmp_path / "subject.py"
    path.write_text(NESTED)
    said = subprocess.run(
        [sys.executable, "-c", LAUNCHED, path], capture_output=True, text=True, cwd=paths.ROOT
    )
    assert said.stdout.splitlines()[:-1] == [
        f"{path}:9:12  does not compile",
        "    return missing(x)",
        "           ^",
        "missing is not defined",
        f"called from {path}:14",
        f"launched at {path}:18",
    ], said.stderr
    assert "hint: is it misspelt?" in said.stdout
