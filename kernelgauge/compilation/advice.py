"""What to do about each thing that the compiler rejects: a table of its messages and our advice.

The interpreter, which runs a kernel as Python, accepts most of this. The messages are those of
Triton 3.6 to 3.9.
"""

from __future__ import annotations

import re

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
BUILTINS = (
    "abs|all|any|dict|enumerate|filter|map|open|pow|reversed|round|set|sorted|str|sum|type|zip"
)

CONTAINERS = (
    "the compiler supports no list, dict or set: keep each tile in a variable of its own, "
    "or in a tuple, whose items cannot be replaced"
)
ONE_CONDITION = (
    "a condition must be one value, not a tile: choose per element with tl.where(condition, x, y), "
    "or reduce the condition to one value, for example with tl.max"
)

# (a pattern in the compiler's message, what to do), where {0} is the first group of the pattern.
# The first pattern that matches counts.
# fmt: off
ADVICE = (
    (r"AST node type: Break", "the compiler supports no `break`: put the exit into the bounds of "
     "the loop, or into the condition of a `while`"),
    (r"AST node type: Continue", "the compiler supports no `continue`: put the rest of the body "
     "under an `if`, or mask it"),
    (r"`return` statements inside|has_terminator|region #1 to have 0 or 1 blocks", "a kernel "
     "cannot return inside a loop: put the rest of the body under an `if`, or mask it"),
    (r"AST node type: (?:Dict|Set|ListComp|SetComp|DictComp)|tuple comprehensions", CONTAINERS),
    (r"no attribute '?(?:append|extend|insert|pop)\b|'(?:append|extend|insert|pop)' is not in list",
     CONTAINERS),
    (r"__setitem__", "an item cannot be assigned: replace the whole tile, with "
     "tl.where(offsets == i, new, x); a list is read only"),
    (r"AST node type: FunctionDef|^StopIteration|nested function", "a kernel cannot define "
     "a function: define it at the top of the file, under @triton.jit"),
    (r"AST node type: (\w+)", "the compiler supports no `{construct}`: it supports assignments, "
     "`if`, `for` over ranges, `while`, and calls"),
    (r"f-string", "an f-string can contain only constexprs: print other values with "
     "tl.device_print(\"name\", value)"),
    (r"block offset start must be 16-byte aligned", "the coordinates of a descriptor are in "
     "elements, and count where the tile begins: step * BLOCK_K, not step"),
    (r"num_warps must be a power of 2", "num_warps is 1, 2, 4, 8, 16 or 32"),
    (r"must be a power of 2", "every side of a tile must be a power of two: round up with "
     "triton.next_power_of_2(n) in the launcher, and mask the rest"),
    (r"arguments must be of type tl.constexpr|must have type `constexpr", "the size of a tile must "
     "be known when the kernel is compiled: annotate the parameter `: tl.constexpr`"),
    (r"used as tl.static_range .* is not a constexpr", "tl.static_range is unrolled by the "
     "compiler, which must know its bounds: use range, or annotate the bound `: tl.constexpr`"),
    (r"Input shapes should have M >=", "tl.dot multiplies an M x K tile by a K x N tile, and for "
     "these dtypes this GPU needs at least these sizes: pad with masked lanes, other=0.0, or "
     "multiply and add up with tl.sum"),
    (r"Both operands must be same dtype", "tl.dot multiplies tiles of one dtype: "
     "convert one of them, for example with b.to(a.dtype)"),
    (r"equal reduction dimensions", "a must have as many columns as b has rows: "
     "use tl.dot(a, tl.trans(b)) if b is stored transposed"),
    (r"equal ranks|must be either 2D or 3D|operands must be block tensors", "tl.dot multiplies two "
     "2-D tiles: for a matrix and a vector, use tl.sum(a * x[None, :], axis=1)"),
    (r"Unsupported (?:lhs|rhs) dtype|only int8 supported", "tl.dot multiplies int8, fp8, fp16, "
     "bf16, fp32 and fp64: convert the tiles first"),
    (r"acc\.type", "the accumulator of tl.dot must have the shape and dtype of the product: "
     "tl.zeros((BLOCK_M, BLOCK_N), tl.float32); from int8 tiles it is int32, which has to be said "
     "twice: tl.zeros((BLOCK_M, BLOCK_N), tl.int32) and tl.dot(a, b, acc, out_dtype=tl.int32)"),
    (r"'arith\.\w+' op operand #\d must be signless-fixed-width-integer.* got '.*xf32>'",
     "the product of int8 tiles is int32, and so must be its accumulator: "
     "tl.zeros((BLOCK_M, BLOCK_N), tl.int32), tl.dot(a, b, acc, out_dtype=tl.int32)"),
    (r"cannot cast int\d+.* to fp8", "an int does not become an 8-bit float: write 0.0 instead of "
     "0, as in other=0.0"),
    (r"'llvm\.f\w+' op operand #\d .* but got 'i8'", "there is no arithmetic on 8-bit floats "
     "except tl.dot: convert first, with x.to(tl.float32)"),
    (r"Cannot access global variable (\w+)", "a kernel can use a global only if it is a constexpr: "
     "write {0} = tl.constexpr(...), or pass it as an argument"),
    (r"Boolean value of Tensor|must be 1-bit signless integer, but got 'tensor", ONE_CONDITION),
    (r"initial type (\S+) but is re-assigned to (\S+) in", "a variable must keep its type through "
     "a loop: start {name} with the type that it ends with, for example with "
     "tl.zeros(shape, dtype) or 0.0, or convert in the loop with .to(dtype)"),
    (r"[cC]annot reassign constexpr|carried variable \w+ changed type", "a constexpr cannot change "
     "in a loop: copy it to a variable first, x = tl.full((), VALUE, tl.int32)"),
    (r"Mismatched type for|inconsistent types|Inconsistent return types", "both branches must give "
     "one type: convert with .to(dtype), or write 0.0 instead of 0"),
    (rf"\b({BUILTINS}) is not defined", "a kernel cannot call Python's {0}: "
     "look for it in triton.language"),
    (r"(\w+) is not defined", "is it misspelt? A name that is set only under an `if` or in a loop "
     "is not defined after it: set {0} before"),
    (r"make_shape_compatible|[cC]annot broadcast", "tiles are broadcast as in NumPy: "
     "x[:, None] makes a column, x[None, :] a row"),
    (r"Value argument cannot be block type", "the pointer is one address and the value a tile: "
     "add the offsets to the pointer, or reduce the value"),
    (r"(?:Mask|Other) argument cannot be block type", "the pointer is one address and the mask or "
     "`other` a tile: add the offsets to the pointer"),
    (r"Unsupported ptr type", "the first argument must be an address: a pointer that was passed to "
     "the kernel, plus offsets"),
    (r"ptr type matches value type", "the pointer and the value must have the same shape"),
    (r"`?other`? cannot be provided without `?mask", "`other` is the value of masked lanes: pass "
     "a mask too"),
    (r"Unsupported function referenced", "a kernel can call functions of tl, and functions "
     "decorated with @triton.jit"),
    (r"must be real number, not tensor", "Python's math module works on numbers: use "
     "tl.exp, tl.sqrt, tl.log"),
    (r"torch\.dtype|'dtype' object has no attribute 'scalar'", "a kernel uses Triton's dtypes: "
     "tl.float16, or x_ptr.dtype.element_ty"),
    (r"libdevice' has no attribute", "there is no function of triton.language.extra.libdevice by "
     "that name"),
    (r"language\.extra\.cuda\.<op>", "write from triton.language.extra import libdevice, which "
     "works on every GPU"),
    (r"module 'triton\.language[\w.]*' has no attribute", "there is no such function in "
     "triton.language; libdevice has more: from triton.language.extra import libdevice"),
    (r"'(?:int|float|constexpr)' object has no attribute '(\w+)'", "an int argument that is 1 is a "
     "constexpr, a plain number: write tl.cast(n, tl.float32) instead of n.to(tl.float32)"),
    (r"^\(triton\.language\.\w+|KeyError.*triton\.language", "functions of libdevice take float32 "
     "or float64: convert with x.to(tl.float32), and convert all arguments to one dtype"),
    (r"Expected dtype \[.*\] but got", "convert first, with x.to(tl.float32)"),
    (r"__pow__|operand type\(s\) for \*\*", "the compiler supports no `**`: write x * x"),
    (r"'tensor' object has no attribute '(\w+)'", "a tile has no method {0}: look for a "
     "function in triton.language"),
    (r"MatMult", "the compiler supports no `@`: write tl.dot(a, b)"),
    (r"\b(?:Not)?In\b.*(?:__name__|not \(currently\))", "the compiler supports no `in`: compare "
     "with == and combine with |"),
    (r"multiple comparison", "write (a <= x) & (x < b)"),
    (r"'(?:Tuple|List|Name|Attribute)' object has no attribute 'func'|Only `range`", "a loop must "
     "run over range, tl.range or tl.static_range"),
    (r"[Ff]or loop bounds", "the bounds of a loop must be ints: convert with .to(tl.int32)"),
    (r"unsupported tensor index", "a tile has no items: pick one with "
     "tl.sum(tl.where(offsets == i, x, 0)); the brackets may contain only None and :"),
    (r"multiple assignment", "write one assignment per line"),
    (r"list index out of range|values to unpack", "write as many names as there are values"),
    (r"starred|isinstance\(target, ast\.Name\)", "the compiler supports no *names: "
     "write each name"),
    (r"setting an array element", "NumPy works on arrays: use a number, or a function of tl"),
    (r"fp8e4nv not supported", "this GPU has no float8_e4m3: sm_89 and newer do"),
    (r"exceeds triton maximum tensor numel", "loop over smaller tiles, or use more programs"),
    (r"is called before it is compiled", "a function of a kernel cannot call itself"),
    (r"invalid operands of type pointer", "an address plus ints is an address; / gives a float, "
     "// an int"),
    (r"Block pointers have been removed", "use tl.make_tensor_descriptor, or pointers"),
    (r"Tensor descriptor last dim must be 1", "a tensor descriptor needs contiguous rows"),
    (r"add a `\.to\(tl\.int32\)`", "a descriptor loads and stores at offsets that are int32: "
     "convert that offset with .to(tl.int32)"),
    (r"num_ctas > 1", "leave num_ctas out"),
    (r"OptimizeThreadLocality", "keep the axis that is summed, as in carry += tl.sum(x, axis=1, "
     "keep_dims=True), with a carry of that shape"),
    (r"PassManager::run failed", "the compiler could not handle this: try other tiles, num_stages "
     "or num_warps, and no options of tl.range"),
    (r"Keyword argument (\w+) was specified but unrecognised", "this target has no option {0}"),
)
# fmt: on


def advice(message: str) -> str:
    """Return what to do about a message of the compiler, "" if the message is not known."""
    for pattern, sentence in ADVICE:
        if found := re.search(pattern, message):
            groups = found.groups()
            construct = CONSTRUCTS.get(groups[0], groups[0].lower()) if groups else ""
            variable = re.search(r"variable (\w+) has", message)
            name = variable[1] if variable else "it"
            return sentence.format(*groups, construct=construct, name=name)
    return ""
