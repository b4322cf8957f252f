"""What the compiler rejects is explained in its own words, at the learner's line, with advice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch
import triton

from course import paths
from kernelgauge import words
from kernelgauge.compilation import errors
from kernelgauge.words.fault import Place, note
from tests import kernels_to_compile
from tests.compiling import launch_from, launch_of, load_kernels, rejection, x

WIDE = "wide = x[:, None] + tl.arange(0, 32)[None, :]\n"

# What the interpreter accepts and the compiler rejects: the body of a kernel, words of the message.
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
    "range_of_the_program": (
        "pid = tl.program_id(0)\ny = tl.arange(pid * 16, (pid + 1) * 16)",
        r"hint: both ends of tl\.arange .* pid \* BLOCK \+ tl\.arange\(0, BLOCK\)",
    ),
    "range_up_to_the_program": (
        "pid = tl.program_id(0)\ny = tl.arange(0, (pid + 1) * 16)",
        r"hint: both ends of tl\.arange",
    ),
    "shape_not_constexpr": ("y = tl.zeros((n,), x.dtype)", "annotate the parameter"),
    "small_dot": (
        "y = tl.dot(tl.zeros((16, 8), tl.float16), tl.zeros((8, 16), tl.float16))",
        r"K >= 16\nhint: .*such as BLOCK_K = 16.*pad with masked lanes",
    ),
    "dot_dtypes": ("y = tl.dot(tile, tile.to(tl.float16))", r"b.to\(a.dtype\)"),
    "dot_of_named_dtypes": (
        "half = tile.to(tl.float16)\ny = tl.dot(tile, half)",
        r"tile\.to\(half\.dtype\) makes both fp16, half\.to\(tile\.dtype\) both fp32",
    ),
    "dot_shapes": ("y = tl.dot(tile, tl.zeros((32, 16), tl.float32))", "as many columns"),
    "dot_int8": (
        "t = tl.zeros((32, 32), tl.int8)\ny = tl.dot(t, t, tl.zeros((32, 32), tl.int32))",
        r"out_dtype=tl.int32",
    ),
    "dot_int8_into_floats": (
        "t = tl.zeros((32, 32), tl.int8)\n"
        "acc = tl.dot(t, t, tl.zeros((32, 32), tl.float32))\n"
        "tl.store(x_ptr + tl.arange(0, 32)[:, None] + tl.arange(0, 32)[None, :], acc)",
        r"product of int8 tiles is int32",
    ),
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
        r"Loop-carried variable y has initial type int32.*\nhint: .*start y as float32, with 0\.0",
    ),
    "loop_shape": (
        "y = 0.0\nfor i in range(n):\n    y += tl.load(x_ptr + i + tl.arange(0, 16))",
        r"y becomes float32 of shape \[16\]: .* tl\.zeros\(\[16\], tl\.float32\) .* tl\.sum",
    ),
    "loop_broadcasts": (
        "y = x[:, None]\nfor i in range(n):\n    y += tl.load(x_ptr + tl.arange(0, 32))[None, :]",
        r"y becomes float32 of shape \[16, 32\]: "
        r"add tl\.zeros\(\[16, 32\], tl\.float32\) to what it starts with$",
    ),
    "loop_loses_an_axis": (
        "y = x[:, None]\nfor i in range(n):\n    y = tl.sum(y + x[None, :], axis=1)",
        r"hint: [^:]*, and y becomes float32 of shape \[16\]: start it with that shape$",
    ),
    "loop_leaves_one_value": (
        "y = x\nfor i in range(n):\n    y = tl.sum(x + y)",
        r"hint: [^:]*, and y becomes a single float32: start it with that shape$",
    ),
    "loop_pointer": (
        "y = x_ptr\nfor i in range(n):\n    y += tl.arange(0, 16)",
        r"hint: .*start y with the type that it ends with$",
    ),
    "loop_dtype": (
        "y = tl.zeros((16,), tl.float16)\nfor i in range(n):\n    y = y + x",
        r"initial type fp16\[16\] but is re-assigned to fp32\[16\].*\n"
        r"hint: .*start y as float32, or convert in the loop with \.to\(tl\.float16\)$",
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
    "item_of_a_variable": ("y = x[n]", "a tile has no items"),
    "item_of_a_pointer": (
        "y = x_ptr[tl.arange(0, 16)]",
        r"hint: x_ptr is a pointer, .*: tl\.load\(x_ptr \+ offs, mask=mask\)$",
    ),
    "number_as_item_of_a_pointer": ("y = x_ptr[0]", "hint: x_ptr is a pointer"),
    "item_of_pointers": ("p = x_ptr + tl.arange(0, 16)\ny = p[n]", "hint: p is a pointer"),
    "pointer_as_array": (
        "x_ptr[tl.arange(0, 16)] = x",
        r"hint: x_ptr is a pointer, .*: tl\.store\(x_ptr \+ offs, value, mask=mask\)$",
    ),
    "tile_as_array": ("x[0] = 1.0", r"hint: an item cannot be assigned"),
    "maximum_of_one": ("y = max(x)", r"hint: .*tl\.max\(x, axis=0\)"),
    "no_such_axis": ("y = tl.sum(x, axis=1)", r"invalid axis 1.*\nhint: .* axis 0"),
    "no_such_axis_of_two": ("y = tl.sum(tile, axis=2)", r"invalid axis 2.*\nhint: .* 0 to 1"),
    "print_without_a_name": (
        "print(x)",
        r"fp32\[16\] is not string\nhint: .*tl\.device_print\(\"x\", x\)",
    ),
    "debugger": ("breakpoint()", "interpreter only: take it out"),
    "static_range": ("for i in tl.static_range(n):\n    x += i", "unrolled by the compiler"),
    "range_over_a_tuple": (
        "scales = (1.0, 2.0)\nfor i in range(2):\n    x += scales[1 - i]",
        r"hint: i counts in a range, in line \d+,.* tl\.static_range",
    ),
    "loaded_index_of_a_tuple": (
        "i = tl.load(x_ptr).to(tl.int32)\nfor j in range(2):\n    x += (1.0, 2.0)[i]",
        "an index into a tuple must be known",
    ),
    "histogram_of_int64": (
        "counts = tl.histogram(x.to(tl.int64), 16)\ntl.store(x_ptr + tl.arange(0, 16), counts)",
        r"hint: .*x\.to\(tl\.int32\)",
    ),
    "sum_along_the_other_axis": (
        f"{WIDE}mean = tl.sum(wide, axis=0) / 32\nshare = mean / 2\ny = wide - share[:, None]",
        r"hint: tl\.sum in line \d+ goes along axis 0 .*: axis=1 leaves 16, one for each row",
    ),
    "maximum_along_the_other_axis": (
        f"{WIDE}for i in range(3):\n    x = tl.maximum(x, tl.max(wide, 0))",
        r"tl\.max in line \d+ goes along axis 0 of a 16 x 32 tile",
    ),
    "sum_that_is_right": (
        f"{WIDE}mean = tl.sum(wide, axis=1)\ny = wide - mean[:, None] + tl.arange(0, 32)[:, None]",
        "tiles are broadcast as in NumPy",
    ),
    "turned_value_of_a_store": (
        f"{WIDE}p = x_ptr + tl.arange(0, 32)[:, None] * 16 + tl.arange(0, 16)\ntl.store(p, wide)",
        "hint: the value is 16 x 32, the pointers are 32 x 16: transpose one of them",
    ),
    "turned_value_in_one_line": (
        f"{WIDE}r = tl.arange(0, 16)\nc = tl.arange(0, 32)\n"
        "tl.store(x_ptr + r[:, None] * n + c[None, :], tl.trans(wide).to(tl.float16))",
        "hint: the value is 32 x 16, the pointers are 16 x 32: transpose one of them",
    ),
    "turned_mask_of_a_load": (
        f"{WIDE}r = tl.arange(0, 16)\nc = tl.arange(0, 32)\n"
        "y = tl.load(x_ptr + r[:, None] * n + c, mask=(r[None, :] < n) & (c[:, None] < n))",
        "hint: the mask is 32 x 16, the pointers are 16 x 32: transpose one of them",
    ),
    "value_of_another_height": (
        f"{WIDE}tl.store(x_ptr + tl.arange(0, 32)[:, None] + tl.arange(0, 32)[None, :], wide)",
        "tiles are broadcast as in NumPy",
    ),
    "value_of_a_row_as_a_row": (
        f"{WIDE}top = tl.max(wide, axis=1)\nwide = wide - top",
        r"hint: top has 16 values, as many as a 16 x 32 tile has rows: .* top\[:, None\]",
    ),
    "turned_block_of_a_store": (
        f"{WIDE}d = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [32, 16])\n"
        "d.store([0, 0], wide)",
        "d was made with a block_shape of 32 x 16, and the tile is 16 x 32",
    ),
    "turned_block_of_a_dot": (
        f"{WIDE}d = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [64, 32])\n"
        "b = d.load([0, 0])\ny = tl.dot(wide, b)",
        "d loads blocks of 64 x 32, .* 32 x 64 would fit here",
    ),
    "turned_block_of_a_sum": (
        f"{WIDE}d = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [32, 16])\n"
        "y = wide + d.load([0, 0])",
        "d loads blocks of 32 x 16, .* 16 x 32 would fit here",
    ),
    "long_offsets_of_a_descriptor": (
        "d = tl.make_tensor_descriptor(x_ptr, [n, 16], [16, 1], [16, 16])\n"
        "y = d.load([tl.program_id(0).to(tl.int64), 0])",
        r"offsets that are int32",
    ),
    "recursion": ("y = recursive(n)", "cannot call itself"),
}

PREPARATION = """
import math

SCALE = 2.0


def python(x):
    return x + 1


@triton.jit
def recursive(n):
    return recursive(n)
"""

KERNEL = """

@triton.jit
def {name}_kernel(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tile = x[:, None] + x[None, :]
{body}
"""


@pytest.fixture(scope="module")
def rejected(tmp_path_factory):
    """A module with a kernel for each rejected body."""
    source = PREPARATION
    for name, (body, _) in REJECTED.items():
        source += KERNEL.format(name=name, body=textwrap.indent(body, "    "))
    return load_kernels(tmp_path_factory.mktemp("rejected"), source, "rejected")


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_with_advice_at_its_line(rejected, name):
    body, words = REJECTED[name]
    launch = launch_of(getattr(rejected, f"{name}_kernel"), {"x_ptr": x, "n": 20})
    message = rejection(launch, match=words)
    place = re.match(
        r"(.*rejected\.py):(\d+)(?::\d+)?  (\w+) does not compile for sm_80 \(A100\)\n", message
    )
    first = launch.kernel.__code__.co_firstlineno
    if name != "recursion":
        assert place[3] == launch.kernel.__name__
        # The decorator, `def` and two lines of loads precede the body.
        earliest = first + 1 if name == "return_in_while" else first + 4
        assert earliest <= int(place[2]) < first + 4 + len(body.splitlines())
    assert "Traceback" not in message
    assert "loc(" not in message


def test_every_target_gets_the_same_message(rejected):
    launch = launch_of(rejected.python_function_kernel, {"x_ptr": x, "n": 20})
    message = rejection(
        launch,
        match=r"does not compile for sm_80 \(A100\), sm_90 \(H100\), gfx942 \(MI300X\)\n",
        targets=("sm_80", "sm_90", "gfx942"),
    )
    assert message.count("hint:") == 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("y = tl.load(x_ptr + offs, mask=offs < n, other=0)", r"write 0\.0 instead of 0"),
        ("y = x + x", r"no arithmetic on 8-bit floats .*x\.to\(tl\.float32\)"),
    ],
)
def test_what_8_bit_floats_cannot_do(tmp_path, statement, words):
    body = f"offs = tl.arange(0, 16)\nx = tl.load(x_ptr + offs)\n{statement}\n"
    launch = launch_from(tmp_path, body + "tl.store(x_ptr + offs, y)")
    launch.arguments["x_ptr"] = x.to(torch.float8_e4m3fn)
    rejection(launch, match=words, targets=("sm_89",))


def test_message_in_full(tmp_path, monkeypatch):
    source = """
        @triton.jit
        def total(x_ptr, n, BLOCK: tl.constexpr):
            offsets = tl.arange(0, BLOCK)
            if n > 1:
                tl.store(x_ptr + offsets, 1.0 + tl.arange(0, 3 * BLOCK))
    """
    kernel = load_kernels(tmp_path, source).total
    monkeypatch.chdir(tmp_path)
    launch = launch_of(kernel, {"x_ptr": x, "n": 5, "BLOCK": 4})
    assert rejection(launch, targets=("sm_80", "sm_90")) == textwrap.dedent("""\
        kernels.py:11:41  total does not compile for sm_80 (A100), sm_90 (H100)
            tl.store(x_ptr + offsets, 1.0 + tl.arange(0, 3 * BLOCK))
                                            ^
        arange's range must be a power of 2
        launched with BLOCK=4
        hint: every side of a tile must be a power of two: round up with \
triton.next_power_of_2(n) in the launcher, and mask the rest""")


def test_error_in_a_called_function_is_shown_there(tmp_path):
    helper = "@triton.jit\ndef helper(x):\n    return x + tl.arange(0, 3)\n\n"
    message = rejection(launch_from(tmp_path, "tl.store(x_ptr, helper(1.0))", helper))
    assert re.match(r".*kernels.py:8:16  kernel does not compile", message)
    assert re.search(r"called from .*kernels.py:12  tl.store\(", message)


def test_error_in_tritons_library_is_shown_at_the_call(tmp_path):
    body = "tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=3))"
    place = r"kernels.py:8:21  kernel .*\n.*\n.*\ninvalid axis 3"
    rejection(launch_from(tmp_path, body), match=place)


def test_files_with_the_same_text_are_told_apart(tmp_path):
    for name in ("first", "second", "third"):
        launch = launch_from(tmp_path, "tl.store(x_ptr, unknown)", name=name)
        rejection(launch, match=rf"{name}.py:8:21  kernel")


FILE = kernels_to_compile.__file__


@pytest.mark.parametrize(
    ("printed", "line", "body"),
    [
        (
            "/tmp/k.py:3:0: error: Failures have been detected while processing an MLIR pass\n"
            "/tmp/k.py:3:0: note: Pipeline failed while executing [`SomePass` on 'module']\n",
            3,
            r"PassManager::run failed in SomePass\nhint: the compiler could not handle this",
        ),
        (
            f"{os.path.dirname(triton.__file__)}/language/standard.py:293:36: error: bad\n"
            f"{FILE}:7:0: note: called from\n",
            7,
            "bad$",
        ),
    ],
    ids=["failed_pass", "diagnostic_in_tritons_library"],
)
def test_error_of_a_pass_is_found_in_what_it_printed(printed, line, body):
    error = {"kind": "RuntimeError", "message": "PassManager::run failed", "frames": []}
    fault = errors.rejection(error, printed, (FILE, 3), note("launch-does-not-compile"))
    assert fault.place == Place(FILE, line)
    assert re.search(body, words.message(fault))


LAUNCH_ON_A_GPU = """
from pathlib import Path

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime import driver

from kernelgauge.compilation import errors, worker
from kernelgauge.core.settings import settings
from kernelgauge.words import message


@triton.jit
def halved(x):
    return missing(x)


@triton.jit
def kernel(x_ptr):
    tl.store(x_ptr, halved(tl.load(x_ptr)))


settings.subjects = Path(__file__).parent
driver.set_active(worker.TargetDriver(GPUTarget("cuda", 90, 32)))
try:
    kernel.warmup(torch.empty(4), grid=(1,))
except CompilationError as error:
    print(message(errors.explain(error, Path(__file__))))
"""


@pytest.mark.proof
def test_launch_on_a_gpu_is_explained_at_the_innermost_line(tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    path = tmp_path / "subject.py"
    path.write_text(LAUNCH_ON_A_GPU)
    process = subprocess.run([sys.executable, path], capture_output=True, text=True)
    shown = paths.display_path(path)
    assert process.stdout.splitlines()[:-1] == [
        f"{shown}:18:12  does not compile",
        "    return missing(x)",
        "           ^",
        "missing is not defined",
        f"  called from {shown}:23  tl.store(x_ptr, halved(tl.load(x_ptr)))",
        f"  called from {shown}:29  kernel.warmup(torch.empty(4), grid=(1,))",
    ], process.stderr
    assert "hint: is it misspelt?" in process.stdout
