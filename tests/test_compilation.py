"""Kernels are compiled for GPUs that are not there, and must fit them."""

from __future__ import annotations

import re
import time

import pytest
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelgauge.compilation import process, specialization, worker
from kernelgauge.compilation.targets import TARGETS
from tests import kernels_to_compile as kernels
from tests.compiling import (
    compiled,
    launch_from,
    launch_of,
    matmul,
    pointwise,
    rejection,
    square16,
    square32,
    x,
    y,
)

misaligned = torch.zeros(4097)[1:]


def descriptors(**options):
    tile = TensorDescriptor.from_tensor(square16, [64, 64])
    arguments = {"a_desc": tile, "b_desc": tile, "c_desc": tile, "K": 256}
    return launch_of(kernels.descriptors, arguments | {"BM": 64, "BN": 64, "BK": 64}, **options)


def test_kernels_of_every_kind_compile_for_two_nvidia_gpus():
    odd = {"pointers": (x, y), "bias_ptr": None, "flag": True}
    odd |= {"KIND": kernels.tl.float32, "SIZES": (1, 64)}
    square = {"x_ptr": square32, "y_ptr": square32}
    launches = [
        pointwise(),
        launch_of(
            kernels.where, {"x_ptr": x, "keep_ptr": x > 0, "y_ptr": y, "n": 999, "BLOCK": 256}
        ),
        matmul(num_warps=8, num_stages=4),
        descriptors(num_warps=4, num_ctas=1),
        launch_of(kernels.made_descriptor, square | {"M": 99, "N": 64, "BLOCK": 16}),
        launch_of(
            kernels.histogram, {"x_ptr": y.int(), "counts_ptr": y.int(), "n": 77, "BLOCK": 128}
        ),
        launch_of(kernels.asin, {"x_ptr": x, "y_ptr": y, "BLOCK": 128}),
        launch_of(kernels.odd_arguments, odd),
        launch_of(kernels.stride_to_float, {"x_ptr": x, "stride": 2}),
    ]
    found = compiled(*launches, targets=("sm_80", "sm_90"))
    expected = [(launch.kernel.__name__, f"sm_{n}") for launch in launches for n in (80, 90)]
    assert [(one.kernel, one.target) for one in found] == expected
    assert {one.num_warps for one in found} == {4, 8}
    assert all(one.registers is None for one in found)


def test_without_machine_code_shared_memory_is_known_and_the_assembler_is_not_asked(tmp_path):
    assembly = """
    value = tl.inline_asm_elementwise(
        "no_such_instruction $0, $1;", "=r,r", [n], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(x_ptr, value)
    """
    launch = launch_from(tmp_path, assembly)
    compiled(launch, machine_code=False)
    assert "ptxas" in rejection(launch)

    for gpu in ("sm_80", "sm_90", "gfx942"):
        (lowered,) = compiled(matmul(), targets=(gpu,), machine_code=False)
        assert [lowered] == compiled(matmul(), targets=(gpu,))


@pytest.mark.parametrize("launch", [pointwise, matmul, descriptors])
def test_shared_memory_is_known_before_the_kernel_is_lowered(launch):
    for gpu in ("sm_80", "sm_90", "sm_120", "gfx942"):
        (laid_out,) = compiled(launch(), targets=(gpu,), lowered=False, machine_code=False)
        assert [laid_out] == compiled(launch(), targets=(gpu,))


@pytest.mark.parametrize("lowered", [True, False])
def test_without_machine_code_too_much_shared_memory_is_still_too_much(lowered):
    large = matmul(arguments={"BM": 256, "BN": 256, "BK": 128}, num_stages=4)
    message = rejection(large, kind="does-not-fit", lowered=lowered, machine_code=False)
    assert "bytes of shared memory per program" in message


def test_the_compiler_knows_every_target():
    found = compiled(pointwise(), targets=tuple(TARGETS), details=True)
    assert [one.target for one in found] == list(TARGETS)
    assert all(one.registers > 0 and one.spills == 0 for one in found)
    nvidia = [one for one in found if one.target.startswith("sm_")]
    assert all(one.loads == one.stores == ((128, 2),) for one in nvidia)


def test_unknown_target_lists_the_known():
    with pytest.raises(ValueError, match=r"unknown target 'sm_42': one of sm_75, sm_80, .*gfx950"):
        compiled(pointwise(), targets=("sm_80", "sm_42"))


def test_a_second_check_of_the_same_launch_costs_nothing():
    compiled(pointwise())
    start = time.monotonic()
    compiled(pointwise())
    assert time.monotonic() - start < 0.2


# What specializes a kernel


def test_launches_that_share_a_compiled_kernel_count_once():
    same = [pointwise(), pointwise(x=torch.zeros(2**16), n=2**15)]
    assert len(compiled(*same)) == 1
    other = [pointwise(n=33), pointwise(x=misaligned), pointwise(num_warps=8)]
    assert len(compiled(*same, *other)) == 4


def test_alignment_decides_how_wide_loads_are():
    found = compiled(pointwise(), pointwise(x=misaligned), details=True)
    assert [one.loads for one in found] == [((128, 2),), ((32, 8),)]
    assert [one.stores for one in found] == [((128, 2),)] * 2


@pytest.mark.parametrize(
    "value", [1, 2, 16, -1, -16, 2**31 - 1, 2**31, 2**40, -(2**40) + 1, 2**63, 2**63 + 1]
)
def test_representative_of_an_int_is_compiled_alike(value):
    def traits(n):
        return n % 16 == 0, n == 1, -(2**31) <= n < 2**31, n < 2**63

    assert traits(specialization.argument(value, "n")[1]) == traits(value)


def test_an_int_that_is_1_is_a_constexpr():
    launch = launch_of(kernels.stride_to_float, {"x_ptr": x, "stride": 1})
    message = rejection(launch, match="object has no attribute 'to'")
    assert "an int argument that is 1 is a constexpr" in message
    assert "tl.cast(n, tl.float32)" in message


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ([1, 2], "the argument n is a list, which a kernel does not take\nhint: pass tuple"),
        (torch.zeros(4, dtype=torch.complex64), "n is a complex64 tensor.*\nhint: .*view_as_real"),
        ("relu", "n is a str.*\nhint: annotate n: tl.constexpr"),
        (torch.float16, "n is a dtype.*\nhint: annotate n: tl.constexpr"),
        (x.numpy().astype("int64")[0], r"n is a int64.*\nhint: pass int\(n\)"),
    ],
    ids=["list", "complex", "string", "dtype", "numpy"],
)
def test_argument_that_no_kernel_takes(argument, message):
    rejection(pointwise(n=argument), match=message)


def test_spills_beyond_a_budget_are_rejected():
    launch = matmul(arguments={"BM": 128, "BN": 128}, maxnreg=64)
    title = "matmul spills registers to memory for sm_80"
    message = rejection(launch, match=title, kind="register-spills", spills=100)
    assert "bytes per thread go out to memory and come back, but the budget is 100: " in message
    assert "launched with " in message
    compiled(launch, spills=10_000)
    compiled(matmul(), spills=0)


def test_what_machine_code_is_asked_for():
    compiled(pointwise(), asked=["128-bit loads", "128-bit stores"])
    message = rejection(pointwise(x=misaligned, n=999), kind="own-rule", asked=["128-bit loads"])
    assert "pointwise has no 128-bit loads in its machine code for sm_80" in message
    assert "it has 8 x 32-bit global loads, " in message
    for name in (
        "asynchronous copies",
        "mbarriers",
        "wgmma",
        "setmaxnreg",
        "overlap of most exponentials with wgmma",
    ):
        message = rejection(pointwise(), kind="own-rule", asked=[name], targets=("sm_90",))
        assert f"pointwise has no {name} in its machine code for sm_90" in message


# What does not fit


def test_too_much_shared_memory():
    large = {"BM": 128, "BN": 256, "BK": 32}
    launch = matmul(arguments=large, num_warps=8, num_stages=8)
    message = rejection(launch, kind="does-not-fit", targets=("sm_80", "sm_86", "sm_90"))
    assert "matmul does not fit for sm_80 (A100), sm_86 (RTX 3090)\n" in message
    needed = r"it needs 1\d\d,\d{3} bytes of shared memory per program, "
    assert re.search(needed + r"but sm_80 \(A100\) has 166,912", message)
    assert re.search(needed + r"but sm_86 \(RTX 3090\) has 101,376", message)
    assert "BM=128, BN=256, BK=32, num_warps=8, num_stages=8" in message
    assert "smaller tiles or fewer num_stages" in message
    assert "sm_90" not in message
    assert compiled(launch, targets=("sm_90",))[0].shared > 166_912


@pytest.mark.parametrize(("gpu", "num_warps"), [("sm_80", 64), ("gfx942", 32)])
def test_too_many_threads(gpu, num_warps):
    threads = r"makes 2,048 threads per program, .* has 1,024"
    launch = pointwise(num_warps=num_warps)
    message = rejection(launch, match=threads, kind="does-not-fit", targets=(gpu,))
    assert f"num_warps can be at most {num_warps // 2}" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_ctas": 2}, "num_ctas > 1 requires NVIDIA SM90"),
        ({"num_warps": 6}, r"num_warps must be a power of 2\n.*\nhint: num_warps is 1, 2"),
    ],
    ids=["num_ctas", "num_warps"],
)
def test_option_that_a_target_does_not_take(options, message):
    rejection(pointwise(**options), match=message)


def test_dtype_that_only_newer_gpus_have(tmp_path):
    launch = launch_from(
        tmp_path, "tl.store(x_ptr, tl.load(x_ptr).to(tl.float8e4nv).to(tl.float32))"
    )
    message = rejection(
        launch, match=r"does not compile for sm_80 \(A100\)\n", targets=("sm_80", "sm_90")
    )
    assert "sm_89 and newer do" in message


def test_a_plain_kernel_that_fits_one_gpu_many_times_over_is_not_compiled_for_others(monkeypatch):
    asked = []
    ask = process.compile_kernel

    def noted(request, *limits):
        asked.append(request["target"][1])
        return ask(request, *limits)

    monkeypatch.setattr(process, "compile_kernel", noted)
    settings = {"lowered": False, "machine_code": False}
    assert not compiled(pointwise(), targets=("sm_80",), beside=("sm_90", False), **settings)
    assert asked == [90]
    # A product is made otherwise there, and another make of GPU may refuse what one takes.
    for launch, gpu in ((matmul(), "sm_80"), (pointwise(), "sm_75"), (pointwise(), "gfx942")):
        (one,) = compiled(launch, targets=(gpu,), beside=("sm_90", False), **settings)
        assert one.target == gpu


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ('%0 = tt.load %p, %m, %c : tensor<64x!tt.ptr<f32>> loc("a.b.py":1:2)', True),
        ('%0 = "tt.reduce"(%x) <{axis = 0 : i32}> ({', True),
        ('%0 = "tt.atomic_rmw"(%p) : (!tt.ptr<f32>) -> f32', False),
        ("%0 = tt.dot %a, %b, %c, inputPrecision = tf32", False),
        ("%0 = tt.fp_to_fp %x : tensor<64xf8E4M3FN> -> tensor<64xf16>", False),
        ("%0 = tt.descriptor_load %d[%i] : !tt.tensordesc<tensor<64xf32>>", False),
        ("", False),
    ],
)
def test_what_is_plain(line, plain):
    assert worker.is_plain(line) is plain
