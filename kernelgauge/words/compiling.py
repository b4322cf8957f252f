"""What the compiler says of a kernel, what it needs of a GPU, and how fast it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.common import plain_numbers

# Of each kind, how many.
Counted = Sequence[tuple] | None

# Nodes of Python's syntax tree that are not named like the keyword that a learner writes.
CONSTRUCTS = {
    "AsyncWith": "with",
    "ClassDef": "class",
    "Delete": "del",
    "GeneratorExp": "a generator",
    "ImportFrom": "import",
    "NamedExpr": ":=",
    "YieldFrom": "yield",
}


def format_si(amount: float, unit: str) -> str:
    """Format an amount with three digits and a decimal prefix: 268 MB, 12.8 TB/s."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= 0.9995 * factor:
            return f"{three_digits(amount / factor)} {prefix}{unit}"
    return f"{three_digits(amount)} {unit}"


def three_digits(number: float) -> str:
    """Format a number with three digits, or as a whole number from 1000 on."""
    if number == 0 or number >= 999.5:
        return f"{number:.0f}"
    return f"{number:.3g}"


def speed_up(ratio: float, low: float, high: float) -> str:
    """Format how many times as fast, with its interval: 1.52x [1.51, 1.53]."""
    shown = [f"{it:.2f}" if it < 9.995 else f"{it:.3g}" for it in (ratio, low, high)]
    return f"{shown[0]}x [{shown[1]}, {shown[2]}]"


def _rejected(what: str) -> Callable[..., str]:
    """Return the words of the first line about a kernel that some GPUs do not take."""

    def words(kernel: str, targets: Sequence[str], **values: object) -> str:
        return f"{kernel} {what.format(**values)} for {', '.join(targets)}"

    return words


def _crashed(kernel: str, targets: Sequence[str], how: str) -> str:
    return _rejected(f"crashed the compiler itself{how and f' ({how})'}")(kernel, targets)


def _rejected_line(line: str, column: int | None) -> str:
    """Return a line of source, with a mark below the column if there is one to point at."""
    mark = "" if column is None else f"\n    {' ' * column}^"
    return f"    {line}{mark}"


def _no_such_construct(node: str) -> str:
    return (
        f"the compiler supports no `{CONSTRUCTS.get(node, node.lower())}`: it supports "
        "assignments, `if`, `for` over ranges, `while`, and calls"
    )


def _type_kept_in_loop(name: str | None, before: str, after: str) -> str:
    name = name or "it"
    begin = f"a variable must keep its type through a loop: start {name}"
    (old, old_shape), (new, shape) = _type(before), _type(after)
    if not (old and new):
        return f"{begin} with the type that it ends with"
    if shape != old_shape:
        becomes = f"{new} of shape [{shape}]" if shape else f"a single {new}"
        begin = f"a variable must keep its type through a loop, and {name} becomes {becomes}"
        if not _fits(old_shape, shape):
            return f"{begin}: start it with that shape"
        reduced = ", or reduce in the loop what is added, for example with tl.sum"
        zeros = f"tl.zeros([{shape}], tl.{new})"
        return f"{begin}: add {zeros} to what it starts with{'' if old_shape else reduced}"
    zero = ", with 0.0 instead of 0" if "int" in old and "float" in new else ""
    return f"{begin} as {new}{zero}, or convert in the loop with .to(tl.{old})"


def _type(text: str) -> tuple[str, str]:
    """Return dtype and shape of one of the compiler's types, "" for those of pointers."""
    found = re.fullmatch(r"(u?int|fp|bf)(\w+)(?:\[([\d, ]+)\])?", text)
    if not found:
        return "", ""
    return {"fp": "float", "bf": "bfloat"}.get(found[1], found[1]) + found[2], found[3] or ""


def _fits(shape: str, larger: str) -> bool:
    """Whether a tile of a shape is broadcast to a larger one."""
    sizes, wanted = ([int(it) for it in text.split(",") if it] for text in (shape, larger))
    pairs = zip(reversed(sizes), reversed(wanted), strict=False)
    return len(sizes) <= len(wanted) and all(size in (1, whole) for size, whole in pairs)


def _other_axis(call: str, line: int, shape: Sequence[int], axis: int) -> str:
    kept, other = ("column", "row") if axis == 0 else ("row", "column")
    return (
        f"{call} in line {line} goes along axis {axis} of a {_tile(shape)} tile, which leaves "
        f"{shape[1 - axis]} values, one for each {kept}: axis={1 - axis} leaves {shape[axis]}, one "
        f"for each {other}"
    )


def _no_such_axis(axes: str) -> str:
    if axes == "1":
        return "this tile has one axis, which is axis 0"
    return f"the axes of this tile are 0 to {int(axes) - 1}"


def _tile(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _race(headline: str) -> Callable[..., str]:
    def words(ratio: float, low: float, high: float, at_least: float, scale: float) -> str:
        scaled = f", scaled by {scale:.3g} to {at_least * scale:.3g}x" if scale != 1 else ""
        return (
            f"{headline}: {speed_up(ratio, low, high)} the speed of the reference; "
            f"the spec asks for {at_least:.3g}x{scaled}"
        )

    return words


def _beats_limit(
    amount: float, unit: str, milliseconds: float, rate: float, fastest: float, work: str
) -> str:
    verb = {"copy": "copies", "read": "reads"}.get(work, f"multiplies {work}")
    return (
        f"{format_si(amount, unit)} in {milliseconds:.3g} ms would be "
        f"{format_si(rate, f'{unit}/s')}, but this GPU {verb} at {format_si(fastest, f'{unit}/s')}"
    )


def times(ratio: float) -> str:
    """Return a ratio to read, no more exact than an estimate is: 0.8x, 1.0x, 16x."""
    return (
        f"{ratio:.0f}x" if ratio >= 1.95 else f"{ratio:.1f}x" if ratio >= 0.95 else f"{ratio:.1g}x"
    )


# What an estimate knows to limit a kernel, and what there is more or less of then.
LIMITS = {
    "memory": ("memory", "bytes"),
    "l2": ("the L2", "bytes from the L2"),
    "accesses": ("load and store instructions", "load and store instructions"),
    "arithmetic": ("arithmetic", "arithmetic"),
    "products": ("products", "multiply-adds"),
    "waits": ("waiting for memory", "trips to memory, one after the other"),
}

# How machine code comes to what is asked of it.
TO_HAVE = {
    "128-bit loads": (
        "a thread loads at once what it holds side by side: 16 bytes, if size_per_thread of the "
        "layout says so and neither the mask nor the address may fall between them"
    ),
    "128-bit stores": (
        "a thread stores at once what it holds side by side: 16 bytes, if size_per_thread of the "
        "layout says so and neither the mask nor the address may fall between them"
    ),
    "asynchronous copies": (
        "start the copies of the next tiles by async_copy.async_copy_global_to_shared or "
        "tma.async_copy_global_to_shared, and wait for them later"
    ),
    "TMA loads": "fetch tiles by tma.async_copy_global_to_shared, with a TensorDescriptor",
    "mbarriers": "let copies arrive on an mbarrier, and wait for its phase",
    "wgmma": "multiply by warpgroup_mma, with both factors in shared memory",
    "wgmma in flight": (
        "the assembler serializes products whose accumulator is touched before it is waited for: "
        "pass it from warpgroup_mma to warpgroup_mma_wait(deps=...) and nowhere else"
    ),
    "setmaxnreg": "give warp_specialize worker_num_regs",
    "overlap of most exponentials with wgmma": (
        "start a product by is_async=True, take the exponentials, and wait for it after them: the "
        "assembler lifts that wait over them, unless an mbarrier.wait stands right above it"
    ),
}


def _found_there(
    loads: Counted, stores: Counted, copies: Counted, products: Counted, serialized: bool,
    exponentials: tuple[int, int] | None,
) -> str:  # fmt: skip
    parts = [f"{count} x {bits}-bit global loads" for bits, count in loads or ()]
    parts += [f"{count} x {bits}-bit global stores" for bits, count in stores or ()]
    parts += [f"{count} {name}" for name, _, count in copies or ()]
    parts += [f"{count} {name}{' one by one' * serialized}" for name, count in products or ()]
    if exponentials and exponentials[0]:
        parts.append("{} exponentials in loops, {} of them under wgmma".format(*exponentials))
    return f"it has {', '.join(parts) or 'neither loads nor stores'}"


WORDS: Mapping[str, str | Callable[..., str]] = {
    # What is wrong with a kernel, for which targets.
    "does-not-compile": _rejected("does not compile"),
    "launch-does-not-compile": "does not compile",
    "import-raises": _rejected(
        "cannot be compiled: the import without TRITON_INTERPRET raised {error}"
    ),
    "kernel-not-defined": _rejected("cannot be compiled"),
    "import-defines-no-kernel": "importing the file did not define {kernel}",
    "compiles-too-long": _rejected("did not finish compiling within {seconds:.0f} s"),
    "compiler-crashed": _crashed,
    "does-not-fit-gpu": _rejected("does not fit"),
    "spills-registers": _rejected("spills registers to memory"),
    "lacks-in-machine-code": _rejected("has no {asked} in its machine code"),
    "found-there": _found_there,
    "to-have-in-machine-code": lambda asked: TO_HAVE[asked],
    "rounds-divisions-otherwise": _rejected("does not round its divisions to nearest"),
    "runs-otherwise": _rejected("runs otherwise than it is written"),
    "hands-on-too-early": _rejected("lets others load what it may still be storing"),
    "kernel-of-no-file": (
        "the compiler runs in a process of its own, which imports a kernel from its file: {kernel} "
        "has none"
    ),
    "cannot-take-argument": "{kernel}: {why}",
    "rejected-line": _rejected_line,
    "compiler-said": plain_numbers,
    "pass-failed": "{text} in {part}",
    "called-before-compiled": "{function} is called before it is compiled",
    "launched-with": "launched with {settings}",
    "shared-memory-needed": (
        "it needs {needed:,} bytes of shared memory per program, but {gpu} has {limit:,}"
    ),
    "threads-needed": (
        "num_warps={num_warps} makes {threads:,} threads per program, but {gpu} has {limit:,}"
    ),
    "bytes-spilled": (
        "{spilled:,} bytes per thread go out to memory and come back, but the budget is {budget}: "
        "with num_warps={num_warps} a thread holds more values than registers"
    ),
    "bytes-spilled-beyond-budget": (
        "{spilled:,} bytes per thread go out to memory and come back, but the budget is {budget}"
    ),
    "atomic-before-stores": (
        "one thread does this atomic for its program, and other threads may still be at the "
        "tl.store in line {store}: whoever acquires it may load what is not there yet"
    ),
    "keeps-first-value": lambda version, variable: (
        f"the loop around this one changes {f'{variable}, ' if variable else ''}what only its "
        f"bounds are made of: Triton {version} keeps the first value there, and the interpreter "
        "does not"
    ),
    "division-is": (
        "this is {ptx} in machine code, which may be off in the last bits; the spec asks for those "
        "of PyTorch, whose divisions are rounded to nearest"
    ),
    "limited-by": lambda limit, whose: f"{whose} is limited by {LIMITS[limit][0]}",
    "both-limited-by": lambda limit: f"both limited by {LIMITS[limit][0]}",
    "more-of": lambda ratio, limit: f"{times(ratio)} the {LIMITS[limit][1]}",
    "argument-of-no-kernel": "the argument {name} is a {type}, which a kernel does not take",
    "complex-argument": "the argument {name} is a {dtype} tensor: Triton has no complex numbers",
    "constexpr-of-no-kernel": "the constexpr {name} is a {type}",
    # What to do about it.
    "define-at-top-level": "define it at the top level of the file, under @triton.jit",
    "smaller-tiles-or-stages": "use smaller tiles or fewer num_stages",
    "fewer-warps": "num_warps can be at most {most}",
    "spread-over-warps": (
        "a program keeps its tile in registers: spread it over more warps, or take a smaller one"
    ),
    "less-unrolled-code": (
        "unrolled code grows with the tile: use smaller tiles, avoid a long tl.static_range, and "
        'avoid input_precision="ieee" in the tl.dot of large float32 tiles'
    ),
    "longer-time-limit": "the test had no more time left: --time-limit SECONDS allows more",
    "use-div-rn": "divide with tl.div_rn, which is div.rn.f32 there; in Triton `/` is not",
    "barrier-before-atomic": (
        "tl.debug_barrier() before the atomic lets all threads of the program store first"
    ),
    "bound-of-counter": (
        "make the bound inside the outer loop, of that loop's own counter; or use the variable for "
        "something else there, too. Triton 3.8 compiles the loop as it is written"
    ),
    "bug-in-triton": "this is a bug in Triton {version}: {remedy}",
    "no-such-instruction": (
        "the GPU has no instruction for this: cp.async and mma begin with sm_80, TMA and "
        "warpgroup_mma with sm_90"
    ),
    "smaller-steps": "write the kernel in another way, in smaller steps, until it compiles",
    "pass-tuple": "pass tuple({name})",
    "pass-triton-dtype": (
        "annotate {name}: tl.constexpr, and pass a dtype of Triton, such as tl.float32"
    ),
    "annotate-constexpr": "annotate {name}: tl.constexpr",
    "pass-number": "pass int({name}) or float({name})",
    "pass-view-as-real": "pass torch.view_as_real({name}), pairs of floats",
    "what-a-kernel-takes": (
        "a kernel takes tensors, tensor descriptors, int, float, bool, None and tuples"
    ),
    "what-a-constexpr-is": (
        "a constexpr is a number, a string, a dtype of Triton, a tuple or a jit function"
    ),
    # What to do about messages of the compiler, which compilation/advice.py knows.
    "advice-no-break": (
        "the compiler supports no `break`: put the exit into the bounds of the loop, or into the "
        "condition of a `while`"
    ),
    "advice-no-continue": (
        "the compiler supports no `continue`: put the rest of the body under an `if`, or mask it"
    ),
    "advice-no-return-in-loop": (
        "a kernel cannot return inside a loop: put the rest of the body under an `if`, or mask it"
    ),
    "advice-no-containers": (
        "the compiler supports no list, dict or set: keep each tile in a variable of its own, or "
        "in a tuple, whose items cannot be replaced"
    ),
    "advice-no-item-assignment": (
        "an item cannot be assigned: replace the whole tile, with tl.where(offsets == i, new, x); "
        "a list is read only"
    ),
    "advice-no-nested-function": (
        "a kernel cannot define a function: define it at the top of the file, under @triton.jit"
    ),
    "advice-no-such-construct": _no_such_construct,
    "advice-constexprs-in-f-string": (
        "an f-string can contain only constexprs: print other values with "
        'tl.device_print("name", value)'
    ),
    "advice-elements-not-tiles": (
        "the offsets of a descriptor count elements, not tiles: step * BLOCK_K, not step"
    ),
    "advice-warps-of-layout": (
        "warps_per_cta of the layout is [{warps}], whose product must be the number of warps that "
        "run it: num_warps of the launch, which the kernel has as gl.num_warps()"
    ),
    "advice-warps-power-of-two": "num_warps is 1, 2, 4, 8, 16 or 32",
    "advice-whole-pieces": (
        "an asynchronous copy moves 4, 8 or 16 bytes at a time, and the compiler has to know that "
        "these are whole: give the layout so many elements a thread, and where 8 divides N, say, "
        "write N = N // 8 * 8, and the same for the strides: it sees then that neither the mask "
        "nor an address falls between them"
    ),
    "advice-power-of-two": (
        "every side of a tile must be a power of two: round up with triton.next_power_of_2(n) in "
        "the launcher, and mask the rest"
    ),
    "advice-size-is-constexpr": (
        "the size of a tile must be known when the kernel is compiled: annotate the parameter `: "
        "tl.constexpr`"
    ),
    "advice-ends-of-a-range": (
        "both ends of tl.arange must be known when the kernel is compiled: add what is known only "
        "when it runs, as in pid * BLOCK + tl.arange(0, BLOCK)"
    ),
    "advice-unroll-known-bounds": (
        "tl.static_range is unrolled by the compiler, which must know its bounds: use range, or "
        "annotate the bound `: tl.constexpr`"
    ),
    "advice-dot-least-sizes": (
        "tl.dot multiplies an M x K tile by a K x N tile, and for these dtypes this GPU needs at "
        "least these sizes: take tiles as large, such as BLOCK_K = {k}; where a matrix is smaller, "
        "pad with masked lanes, other=0.0, or multiply and add up with tl.sum"
    ),
    "advice-dot-one-dtype": (
        "tl.dot multiplies tiles of one dtype: convert one of them, for example with b.to(a.dtype)"
    ),
    "advice-dot-casts": (
        "tl.dot multiplies tiles of one dtype: {a}.to({b}.dtype) makes both {right}, "
        "{b}.to({a}.dtype) both {left}"
    ),
    "advice-dot-inner-sizes": (
        "a must have as many columns as b has rows: use tl.dot(a, tl.trans(b)) if b is stored "
        "transposed"
    ),
    "advice-dot-two-tiles": (
        "tl.dot multiplies two 2-D tiles: for a matrix and a vector, use tl.sum(a * x[None, :], "
        "axis=1)"
    ),
    "advice-dot-dtypes": (
        "tl.dot multiplies int8, fp8, fp16, bf16, fp32 and fp64: convert the tiles first"
    ),
    "advice-dot-accumulator": (
        "the accumulator of tl.dot must have the shape and dtype of the product: "
        "tl.zeros((BLOCK_M, BLOCK_N), tl.float32); from int8 tiles it is int32, which has to be "
        "said twice: tl.zeros((BLOCK_M, BLOCK_N), tl.int32) and tl.dot(a, b, acc, "
        "out_dtype=tl.int32)"
    ),
    "advice-dot-int8-accumulator": (
        "the product of int8 tiles is int32, and so must be its accumulator: tl.zeros((BLOCK_M, "
        "BLOCK_N), tl.int32), tl.dot(a, b, acc, out_dtype=tl.int32)"
    ),
    "advice-float8-zero": (
        "an int does not become an 8-bit float: write 0.0 instead of 0, as in other=0.0"
    ),
    "advice-float8-arithmetic": (
        "there is no arithmetic on 8-bit floats except tl.dot: convert first, with x.to(tl.float32)"
    ),
    "advice-global-constexpr": (
        "a kernel can use a global only if it is a constexpr: write {name} = tl.constexpr(...), or "
        "pass it as an argument"
    ),
    "advice-one-condition": (
        "a condition must be one value, not a tile: choose per element with tl.where(condition, x, "
        "y), or reduce the condition to one value, for example with tl.max"
    ),
    "advice-type-kept-in-loop": _type_kept_in_loop,
    "advice-constexpr-in-loop": (
        "a constexpr cannot change in a loop: copy it to a variable first, x = tl.full((), VALUE, "
        "tl.int32)"
    ),
    "advice-branches-one-type": (
        "both branches must give one type: convert with .to(dtype), or write 0.0 instead of 0"
    ),
    "advice-no-python-function": (
        "a kernel cannot call Python's {function}: look for it in triton.language"
    ),
    "advice-name-not-defined": (
        "is it misspelt? A name that is set only under an `if` or in a loop is not defined after "
        "it: set {name} before"
    ),
    "advice-broadcasting": (
        "tiles are broadcast as in NumPy: x[:, None] makes a column, x[None, :] a row"
    ),
    "advice-turned-access": lambda what, shape, pointers: (
        f"the {what} is {_tile(shape)}, the pointers are {_tile(pointers)}: transpose one of them"
    ),
    "advice-other-axis": _other_axis,
    "advice-column": lambda name, shape: (
        f"{name} has {shape[0]} values, as many as a {_tile(shape)} tile has rows: if there is one "
        f"for each row, write {name}[:, None]"
    ),
    "advice-turned-block": lambda name, block, tile: (
        f"{name} was made with a block_shape of {_tile(block)}, and the tile is {_tile(tile)}: "
        "the block_shape has the sides in the other order"
    ),
    "advice-turned-load": lambda name, block, needed: (
        f"{name} loads blocks of {_tile(block)}, as its block_shape says, and {_tile(needed)} "
        "would fit here: either that is meant, or the transposed tile"
    ),
    "advice-static-range": (
        "{name} counts in a range, in line {line}, so it is known only when the kernel runs, and "
        "an index into a tuple must be known when it is compiled: count with tl.static_range"
    ),
    "advice-index-known": (
        "an index into a tuple must be known when the kernel is compiled: choose among its items "
        "with tl.where"
    ),
    "advice-histogram-of-int32": (
        "tl.histogram takes int32 only: convert what it counts with x.to(tl.int32)"
    ),
    "advice-store-tile-to-one-address": (
        "the pointer is one address and the value a tile: add the offsets to the pointer, or "
        "reduce the value"
    ),
    "advice-mask-of-one-address": (
        "the pointer is one address and the mask or `other` a tile: add the offsets to the pointer"
    ),
    "advice-address-first": (
        "the first argument must be an address: a pointer that was passed to the kernel, plus "
        "offsets"
    ),
    "advice-shapes-of-store": "the pointer and the value must have the same shape",
    "advice-other-needs-mask": "`other` is the value of masked lanes: pass a mask too",
    "advice-only-jit-functions": (
        "a kernel can call functions of tl, and functions decorated with @triton.jit"
    ),
    "advice-no-math-module": "Python's math module works on numbers: use tl.exp, tl.sqrt, tl.log",
    "advice-triton-dtypes": "a kernel uses Triton's dtypes: tl.float16, or x_ptr.dtype.element_ty",
    "advice-no-such-libdevice-function": (
        "there is no function of triton.language.extra.libdevice by that name"
    ),
    "advice-import-libdevice": (
        "write from triton.language.extra import libdevice, which works on every GPU"
    ),
    "advice-no-such-triton-function": (
        "there is no such function in triton.language; libdevice has more: from "
        "triton.language.extra import libdevice"
    ),
    "advice-int-that-is-one": (
        "an int argument that is 1 is a constexpr, a plain number: write tl.cast(n, tl.float32) "
        "instead of n.to(tl.float32)"
    ),
    "advice-libdevice-dtypes": (
        "functions of libdevice take float32 or float64: convert with x.to(tl.float32), and "
        "convert all arguments to one dtype"
    ),
    "advice-convert-to-float32": "convert first, with x.to(tl.float32)",
    "advice-no-power": "the compiler supports no `**`: write x * x",
    "advice-no-such-method": "a tile has no method {name}: look for a function in triton.language",
    "advice-no-matmul-operator": "the compiler supports no `@`: write tl.dot(a, b)",
    "advice-no-in": "the compiler supports no `in`: compare with == and combine with |",
    "advice-no-chained-comparison": "write (a <= x) & (x < b)",
    "advice-loop-over-range": "a loop must run over range, tl.range or tl.static_range",
    "advice-int-loop-bounds": "the bounds of a loop must be ints: convert with .to(tl.int32)",
    "advice-no-indexing": (
        "a tile has no items: pick one with tl.sum(tl.where(offsets == i, x, 0)); the brackets may "
        "contain only None and :"
    ),
    "advice-load-through": (
        "{name} is a pointer, which has no items: tl.load({name} + offs, mask=mask)"
    ),
    "advice-store-through": (
        "{name} is a pointer, which has no items: tl.store({name} + offs, value, mask=mask)"
    ),
    "advice-maximum-of-a-tile": (
        "Python's max and min compare several values: of one tile, use tl.max(x, axis=0) or "
        "tl.min(x, axis=0)"
    ),
    "advice-no-such-axis": _no_such_axis,
    "advice-print-with-a-name": (
        "without a name first, print works in the interpreter only: take it out, or use "
        'tl.device_print("x", x)'
    ),
    "advice-no-breakpoint": (
        "breakpoint() stops in the interpreter only: take it out when you are done"
    ),
    "advice-one-assignment-per-line": "write one assignment per line",
    "advice-names-for-values": "write as many names as there are values",
    "advice-no-starred": "the compiler supports no *names: write each name",
    "advice-no-numpy": "NumPy works on arrays: use a number, or a function of tl",
    "advice-no-float8-e4m3": "this GPU has no float8_e4m3: sm_89 and newer do",
    "advice-tile-too-large": "loop over smaller tiles, or use more programs",
    "advice-no-recursion": "a function of a kernel cannot call itself",
    "advice-pointer-arithmetic": "an address plus ints is an address; / gives a float, // an int",
    "advice-no-block-pointers": "use tl.make_tensor_descriptor, or pointers",
    "advice-contiguous-descriptor": "a tensor descriptor needs contiguous rows",
    "advice-int32-descriptor-offset": (
        "a descriptor loads and stores at offsets that are int32: convert that offset with "
        ".to(tl.int32)"
    ),
    "advice-no-num-ctas": "leave num_ctas out",
    "advice-keep-summed-axis": (
        "keep the axis that is summed, as in carry += tl.sum(x, axis=1, keep_dims=True), with a "
        "carry of that shape"
    ),
    "advice-compiler-pass-failed": (
        "the compiler could not handle this: try other tiles, num_stages or num_warps, and no "
        "options of tl.range"
    ),
    "advice-no-such-option": "this target has no option {option}",
    # Races.
    "race-lost": _race("too slow"),
    "race-undecided": _race("too close to call"),
    "race-times": (
        "yours takes {subject:.4g} ms, the reference {reference:.4g} ms (medians of {calls} calls "
        "each, the L2 cache flushed before every call)"
    ),
    "share-of-limit": "yours reaches {percent:.0f} % of this GPU's {limit}",
    "interval-contains-bar": (
        "after {seconds:.1f} s of timing the interval in brackets still contains the bar, so "
        "reaching it may be luck, which is not a pass"
    ),
    "clock-held-back": (
        "between the calls the GPU's clock was at {low} to {high} of {most} MHz, held back by its "
        "{reasons}"
    ),
    "clock-free": (
        "between the calls the GPU's clock was at {low} to {high} of {most} MHz, and nothing held "
        "it back"
    ),
    "one-percent-faster": "make the kernel 1 % faster, or run again on an otherwise idle GPU",
    "count-loads-and-kernels": (
        "count how often each element is loaded and stored, and how many kernels run"
    ),
    "other-tiles-and-warps": (
        "try other tile sizes, num_warps and num_stages, and a program order for the L2"
    ),
    "each-element-once": "the memory is busy all the time: load and store each element only once",
    "neighbouring-addresses": (
        "check that neighbouring lanes access neighbouring addresses, that each element is loaded "
        "only once, and that each program has enough work"
    ),
    "impossible-time": "impossible time: {arithmetic}",
    "beats-limit": _beats_limit,
    "call-did-not-work": "the call did not do its work, or returned before it was done",
    "timed-call-wrong": "a timed call returned a wrong result: {what}",
    "same-memory-other-values": (
        "a result must not depend on earlier calls; in timed calls the same memory holds other "
        "values each time"
    ),
    "work-outside-stream": "work outside the timed stream: {evidence}",
    "waits-for-stream": "the call waits for another stream",
    "slower-without-other-streams": (
        "a call takes {alone:.3g} ms, but {held:.3g} ms if no other stream may start before it"
    ),
    "gpu-done-later": "that stream is done after {stream:.3g} ms, the GPU after {gpu:.3g} ms",
    "launch-on-current-stream": "launch on the current stream, which Triton does by default",
    "faster-on-known-values": (
        "remembers what it computed: a call takes {new:.3g} ms on new values, but {known:.3g} ms "
        "on the same values again"
    ),
    "compute-in-every-call": "compute the result from the arguments in every call",
}
