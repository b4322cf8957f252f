"""What to do about each thing that the compiler rejects: a table of its messages and our words.

Most of what stands here the interpreter accepts, since it runs a kernel as Python. The messages are
those of Triton 3.6 to 3.9.
"""

from __future__ import annotations

import re

# Names of Python's syntax tree, as the learner calls them.
CONSTRUCTS = {
    "Try": "try",
    "With": "with",
    "AsyncWith": "with",
    "Lambda": "lambda",
    "Yield": "yield",
    "YieldFrom": "yield",
    "GeneratorExp": "a generator",
    "Raise": "raise",
    "Delete": "del",
    "Import": "import",
    "ImportFrom": "import",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "ClassDef": "class",
    "NamedExpr": ":=",
    "Match": "match",
    "Await": "await",
}
BUILTINS = (
    "abs|all|any|dict|enumerate|filter|map|open|pow|reversed|round|set|sorted|str|sum|type|zip"
)

CONTAINERS = (
    "the compiler knows no list, dict or set: keep each tile in a variable of its own, "
    "or in a tuple, which is read but not changed"
)
ONE_CONDITION = (
    "a condition is one value, not a tile: choose per element with tl.where(condition, x, y), "
    "or reduce the condition to one value, as tl.max does"
)
NO_RETURN = (
    "a kernel cannot return inside a loop: put the rest of the body under an `if`, or mask it"
)
SIZE_KNOWN = (
    "the size of a tile must be known when the kernel is compiled: "
    "annotate the parameter `: tl.constexpr`"
)
BROADCAST = (
    "tiles combine by NumPy's rules of broadcasting: x[:, None] makes a column, x[None, :] a row"
)

# (what the compiler says, what to do); {0} is the first group. The first that is found counts.
# fmt: off
ADVICE = (
    (r"AST node type: Break", "the compiler knows no `break`: put the exit into the loop's bounds, "
     "or into the condition of a `while`"),
    (r"AST node type: Continue", "the compiler knows no `continue`: put the rest of the body under "
     "an `if`, or mask it"),
    (r"`return` statements inside|has_terminator|region #1 to have 0 or 1 blocks", NO_RETURN),
    (r"AST node type: (?:Dict|Set|ListComp|SetComp|DictComp)|tuple comprehensions", CONTAINERS),
    (r"no attribute '?(?:append|extend|insert|pop)\b|'(?:append|extend|insert|pop)' is not in list",
     CONTAINERS),
    (r"__setitem__", "an item cannot be assigned: a tile changes as a whole, with "
     "tl.where(offsets == i, new, x), and a list is read only"),
    (r"AST node type: FunctionDef|^StopIteration|nested function", "a kernel cannot define "
     "a function: write it at the top of the file, with @triton.jit"),
    (r"AST node type: (\w+)", "the compiler knows no `{construct}`: it takes assignments, `if`, "
     "`for` over ranges, `while`, and calls"),
    (r"f-string", "an f-string can hold constexprs only: print a value with "
     "tl.device_print(\"name\", value)"),
    (r"num_warps must be a power of 2", "num_warps is 1, 2, 4, 8, 16 or 32"),
    (r"must be a power of 2", "every side of a tile is a power of two: "
     "round up with triton.next_power_of_2(n) in the launcher, and mask the rest"),
    (r"arguments must be of type tl.constexpr|must have type `constexpr", SIZE_KNOWN),
    (r"used as tl.static_range .* is not a constexpr", "tl.static_range is unrolled by the "
     "compiler, which must know its bounds: use range, or annotate the bound `: tl.constexpr`"),
    (r"Input shapes should have M >=", "tl.dot multiplies an M x K tile by a K x N tile, and these "
     "dtypes on this GPU need that many at least: pad with masked lanes, other=0.0, or multiply "
     "and add up with tl.sum"),
    (r"Both operands must be same dtype", "tl.dot multiplies tiles of one dtype: "
     "convert one, as in b.to(a.dtype)"),
    (r"equal reduction dimensions", "a has as many columns as b has rows: "
     "tl.dot(a, tl.trans(b)) if b is stored the other way round"),
    (r"equal ranks|must be either 2D or 3D|operands must be block tensors", "tl.dot takes two 2-D "
     "tiles: for a vector, tl.sum(a * x[None, :], axis=1)"),
    (r"Unsupported (?:lhs|rhs) dtype|only int8 supported", "tl.dot multiplies int8, fp8, fp16, "
     "bf16, fp32 and fp64: convert first"),
    (r"acc\.type", "the accumulator of tl.dot has the shape and dtype of the product: "
     "tl.zeros((BLOCK_M, BLOCK_N), tl.float32)"),
    (r"Cannot access global variable (\w+)", "a kernel sees a global only if it is a constexpr: "
     "write {0} = tl.constexpr(...), or pass it as an argument"),
    (r"Boolean value of Tensor|must be 1-bit signless integer, but got 'tensor", ONE_CONDITION),
    (r"initial type (\S+) but is re-assigned to (\S+) in", "a variable keeps its type through a "
     "loop: start {name} with the type it ends with, as in tl.zeros(shape, dtype) or 0.0, or "
     "convert in the loop with .to(dtype)"),
    (r"[cC]annot reassign constexpr|carried variable \w+ changed type", "a constexpr cannot change "
     "in a loop: copy it to a variable first, x = tl.full((), VALUE, tl.int32)"),
    (r"Mismatched type for|inconsistent types|Inconsistent return types", "both ways must give one "
     "type: convert with .to(dtype), or write 0.0 for 0"),
    (rf"\b({BUILTINS}) is not defined", "a kernel cannot call Python's {0}: "
     "look for it in triton.language"),
    (r"(\w+) is not defined", "is it misspelt? A name that is set only under an `if` or in a loop "
     "is not known after it: set {0} before"),
    (r"make_shape_compatible|[cC]annot broadcast", BROADCAST),
    (r"Value argument cannot be block type", "the pointer is one address and the value a tile: "
     "add the offsets to the pointer, or reduce the value"),
    (r"(?:Mask|Other) argument cannot be block type", "the pointer is one address and the mask or "
     "`other` a tile: add the offsets to the pointer"),
    (r"Unsupported ptr type", "the first argument is an address: a pointer that the kernel was "
     "given, plus offsets"),
    (r"ptr type matches value type", "the pointer and the value must have one shape"),
    (r"`?other`? cannot be provided without `?mask", "`other` is what masked lanes read: give a "
     "mask with it"),
    (r"Unsupported function referenced", "a kernel can call functions of tl, and functions that "
     "are decorated with @triton.jit"),
    (r"must be real number, not tensor", "Python's math takes numbers: use "
     "tl.exp, tl.sqrt, tl.log"),
    (r"torch\.dtype|'dtype' object has no attribute 'scalar'", "a dtype in a kernel is Triton's: "
     "tl.float16, or x_ptr.dtype.element_ty"),
    (r"libdevice' has no attribute", "that is no function of triton.language.extra.libdevice"),
    (r"language\.extra\.cuda\.<op>", "from triton.language.extra import libdevice: "
     "that one is for every GPU"),
    (r"module 'triton\.language[\w.]*' has no attribute", "that is no function of triton.language; "
     "libdevice has more: from triton.language.extra import libdevice"),
    (r"'(?:int|float|constexpr)' object has no attribute '(\w+)'", "an int argument that is 1 is a "
     "constexpr, a plain number: in place of n.to(tl.float32) write tl.cast(n, tl.float32)"),
    (r"^\(triton\.language\.\w+|KeyError.*triton\.language", "functions of libdevice take float32 "
     "or float64: convert with x.to(tl.float32), and all arguments to one dtype"),
    (r"Expected dtype \[.*\] but got", "convert first, with x.to(tl.float32)"),
    (r"__pow__|operand type\(s\) for \*\*", "the compiler knows no `**`: write x * x"),
    (r"'tensor' object has no attribute '(\w+)'", "a tile has no method {0}: look for a "
     "function in triton.language"),
    (r"MatMult", "the compiler knows no `@`: write tl.dot(a, b)"),
    (r"\b(?:Not)?In\b.*(?:__name__|not \(currently\))", "the compiler knows no `in`: compare with "
     "== and join with |"),
    (r"multiple comparison", "write (a <= x) & (x < b)"),
    (r"'(?:Tuple|List|Name|Attribute)' object has no attribute 'func'|Only `range`", "a loop goes "
     "over range, tl.range or tl.static_range"),
    (r"[Ff]or loop bounds", "the bounds of a loop are ints: convert with .to(tl.int32)"),
    (r"unsupported tensor index", "a tile has no items: pick one with "
     "tl.sum(tl.where(offsets == i, x, 0)); only None and : may stand in the brackets"),
    (r"multiple assignment", "write one assignment a line"),
    (r"list index out of range|values to unpack", "as many names as values"),
    (r"starred|isinstance\(target, ast\.Name\)", "the compiler knows no *names: write each name"),
    (r"setting an array element", "NumPy works on arrays: write a number, or a function of tl"),
    (r"fp8e4nv not supported", "this GPU knows no float8_e4m3: sm_89 and newer do"),
    (r"exceeds triton maximum tensor numel", "go over smaller tiles in a loop, or "
     "in more programs"),
    (r"is called before it is compiled", "a function of a kernel cannot call itself"),
    (r"invalid operands of type pointer", "an address plus ints is an address; / gives a float, "
     "// an int"),
    (r"Block pointers have been removed", "use tl.make_tensor_descriptor, or pointers"),
    (r"Tensor descriptor last dim must be 1", "a descriptor addresses rows that are contiguous"),
    (r"add a `\.to\(tl\.int32\)`", "where a descriptor loads or stores is counted in int32: "
     "cast that number with .to(tl.int32)"),
    (r"num_ctas > 1", "leave num_ctas out"),
    (r"PassManager::run failed", "the compiler could not handle this: try other tiles, num_stages "
     "or num_warps, and no options of tl.range"),
    (r"Keyword argument (\w+) was specified but unrecognised", "this target has no option {0}"),
)
# fmt: on


def advice(message: str) -> str:
    """What to do, or nothing if the message is not known."""
    for pattern, sentence in ADVICE:
        if found := re.search(pattern, message):
            construct = CONSTRUCTS.get(found[1], found[1]) if found.groups() else ""
            name = re.search(r"variable (\w+) has", message)
            return sentence.format(
                *found.groups(), construct=construct, name=name[1] if name else "it"
            )
    return ""
