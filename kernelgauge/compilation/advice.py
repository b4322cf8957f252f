"""What to do about each thing that the compiler rejects: a table of its messages and our advice.

The interpreter, which runs a kernel as Python, accepts most of this. The messages are those of
Triton 3.6 to 3.9.
"""

from __future__ import annotations

import re

from kernelgauge.words.fault import Note

BUILTINS = (
    "abs|all|any|dict|enumerate|filter|map|open|pow|reversed|round|set|sorted|str|sum|type|zip"
)

# (a pattern in the compiler's message, the id of what to do), whose words have the named groups of
# the pattern as values. The first pattern that matches counts.
ADVICE = (
    (r"AST node type: Break", "advice-no-break"),
    (r"AST node type: Continue", "advice-no-continue"),
    (
        r"`return` statements inside|has_terminator|region #1 to have 0 or 1 blocks",
        "advice-no-return-in-loop",
    ),
    (
        r"AST node type: (?:Dict|Set|ListComp|SetComp|DictComp)|tuple comprehensions",
        "advice-no-containers",
    ),
    (r"no attribute '?(?:append|extend|insert|pop)\b", "advice-no-containers"),
    (r"'(?:append|extend|insert|pop)' is not in list", "advice-no-containers"),
    (r"__setitem__", "advice-no-item-assignment"),
    (r"AST node type: FunctionDef|^StopIteration|nested function", "advice-no-nested-function"),
    (r"AST node type: (?P<node>\w+)", "advice-no-such-construct"),
    (r"f-string", "advice-constexprs-in-f-string"),
    (r"block offset start must be 16-byte aligned", "advice-elements-not-tiles"),
    (r"cp\.async does not support transfers smaller", "advice-whole-pieces"),
    (r"invalid layout: .*warpsPerCTA = \[(?P<warps>[\d, ]+)\]", "advice-warps-of-layout"),
    (r"num_warps must be a power of 2", "advice-warps-power-of-two"),
    (r"must be a power of 2", "advice-power-of-two"),
    (
        r"arguments must be of type tl.constexpr|must have type `constexpr",
        "advice-size-is-constexpr",
    ),
    (r"used as tl.static_range .* is not a constexpr", "advice-unroll-known-bounds"),
    (
        r"Input shapes should have M >= (?P<m>\d+), N >= (?P<n>\d+) and K >= (?P<k>\d+)",
        "advice-dot-least-sizes",
    ),
    (r"Both operands must be same dtype", "advice-dot-one-dtype"),
    (r"equal reduction dimensions", "advice-dot-inner-sizes"),
    (r"equal ranks|must be either 2D or 3D|operands must be block tensors", "advice-dot-two-tiles"),
    (r"Unsupported (?:lhs|rhs) dtype|only int8 supported", "advice-dot-dtypes"),
    (r"acc\.type", "advice-dot-accumulator"),
    (
        r"'arith\.\w+' op operand #\d must be signless-fixed-width-integer.* got '.*xf32>'",
        "advice-dot-int8-accumulator",
    ),
    (r"cannot cast int\d+.* to fp8", "advice-float8-zero"),
    (r"'llvm\.f\w+' op operand #\d .* but got 'i8'", "advice-float8-arithmetic"),
    (r"Cannot access global variable (?P<name>\w+)", "advice-global-constexpr"),
    (
        r"Boolean value of Tensor|must be 1-bit signless integer, but got 'tensor",
        "advice-one-condition",
    ),
    (
        r"(?:variable (?P<name>\w+) has )?initial type (?P<before>.+?) but is re-assigned to "
        r"(?P<after>.+?) in",
        "advice-type-kept-in-loop",
    ),
    (r"[cC]annot reassign constexpr|carried variable \w+ changed type", "advice-constexpr-in-loop"),
    (
        r"Mismatched type for|inconsistent types|Inconsistent return types",
        "advice-branches-one-type",
    ),
    (rf"\b(?P<function>{BUILTINS}) is not defined", "advice-no-python-function"),
    (r"\bbreakpoint is not defined", "advice-no-breakpoint"),
    (r"(?P<name>\w+) is not defined", "advice-name-not-defined"),
    (r"is not string$", "advice-print-with-a-name"),
    (r"m(?:ax|in) requires at least 2 values", "advice-maximum-of-a-tile"),
    (r"invalid axis .* <= axis < (?P<axes>\d+)", "advice-no-such-axis"),
    (r"make_shape_compatible|[cC]annot broadcast", "advice-broadcasting"),
    (r"Value argument cannot be block type", "advice-store-tile-to-one-address"),
    (r"(?:Mask|Other) argument cannot be block type", "advice-mask-of-one-address"),
    (r"Unsupported ptr type", "advice-address-first"),
    (r"ptr type matches value type", "advice-shapes-of-store"),
    (r"`?other`? cannot be provided without `?mask", "advice-other-needs-mask"),
    (r"Unsupported function referenced", "advice-only-jit-functions"),
    (r"must be real number, not tensor", "advice-no-math-module"),
    (r"torch\.dtype|'dtype' object has no attribute 'scalar'", "advice-triton-dtypes"),
    (r"libdevice' has no attribute", "advice-no-such-libdevice-function"),
    (r"language\.extra\.cuda\.<op>", "advice-import-libdevice"),
    (r"module 'triton\.language[\w.]*' has no attribute", "advice-no-such-triton-function"),
    (r"'(?:int|float|constexpr)' object has no attribute '\w+'", "advice-int-that-is-one"),
    (r"^\(triton\.language\.\w+|KeyError.*triton\.language", "advice-libdevice-dtypes"),
    (r"Expected dtype \[.*\] but got", "advice-convert-to-float32"),
    (r"__pow__|operand type\(s\) for \*\*", "advice-no-power"),
    (r"'tensor' object has no attribute '(?P<name>\w+)'", "advice-no-such-method"),
    (r"MatMult", "advice-no-matmul-operator"),
    (r"\b(?:Not)?In\b.*(?:__name__|not \(currently\))", "advice-no-in"),
    (r"multiple comparison", "advice-no-chained-comparison"),
    (
        r"'(?:Tuple|List|Name|Attribute)' object has no attribute 'func'|Only `range`",
        "advice-loop-over-range",
    ),
    (r"[Ff]or loop bounds", "advice-int-loop-bounds"),
    (r"unsupported tensor index", "advice-no-indexing"),
    (r"multiple assignment", "advice-one-assignment-per-line"),
    (r"list index out of range|values to unpack", "advice-names-for-values"),
    (r"starred|isinstance\(target, ast\.Name\)", "advice-no-starred"),
    (r"setting an array element", "advice-no-numpy"),
    (r"fp8e4nv not supported", "advice-no-float8-e4m3"),
    (r"exceeds triton maximum tensor numel", "advice-tile-too-large"),
    (r"^kata:\S+?\.\w+?__\S*$", "advice-no-recursion"),
    (r"invalid operands of type pointer", "advice-pointer-arithmetic"),
    (r"Block pointers have been removed", "advice-no-block-pointers"),
    (r"Tensor descriptor last dim must be 1", "advice-contiguous-descriptor"),
    (r"add a `\.to\(tl\.int32\)`", "advice-int32-descriptor-offset"),
    (r"num_ctas > 1", "advice-no-num-ctas"),
    (r"OptimizeThreadLocality", "advice-keep-summed-axis"),
    (r"PassManager::run failed", "advice-compiler-pass-failed"),
    (r"Keyword argument (?P<option>\w+) was specified but unrecognised", "advice-no-such-option"),
)


def advice(message: str) -> Note | None:
    """Return what to do about a message of the compiler, None if the message is not known."""
    for pattern, id in ADVICE:
        if found := re.search(pattern, message):
            return Note(id, found.groupdict())
    return None
