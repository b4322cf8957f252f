"""What a wrong result looks like, and which mistakes make it so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.common import show_lines, show_place
from kernelgauge.words.fault import Place

# Beyond so many ulps another unit says more.
MANY_ULPS = 1e4
# A factor that differs from 1 by less than this would read as 1.
NEAR_1 = 1e-3

UNDEFINED = "inf - inf, inf / inf or 0 * inf"
EMPTY_SUM = (
    "every exp is 0 if more than the largest value is subtracted; start the maximum at -inf, and "
    "let masked lanes hold -inf"
)
SCALED_TOO_SOON = (
    "a value this large is multiplied by log2(e), and float32 holds at most 3.4e38: subtract the "
    "row's largest value first, then scale"
)
EXP_OVERFLOWS = "overflow: exp is infinite in float32 above 88, exp2 above 128"
KINDS_OF_ELEMENTS = ". right, x partly wrong, X wrong, ? NaN"


def _wrong_elements(result: str, wrong: int, total: int) -> str:
    return f"{result} is wrong in {wrong} of {total} element{'s' * (total != 1)}"


def _wrong_as_a_whole(result: str, drift: float, dtype: str) -> str:
    return (
        f"{result} is wrong as a whole: its elements are {abs(drift):.2g} ulps of {dtype} too "
        f"{_side(drift)} on average, but rounding errors would average out"
    )


def _worst_element(
    index: Sequence[int],
    got: complex,
    expected: complex,
    dtype: str,
    error: float | None = None,
    ulps: float = math.inf,
    allowed: float | None = None,
) -> str:
    place = f"worst at {_listed(index)}: " if index else ""
    ours, theirs = _distinct(got, expected)
    line = f"{place}got {ours}, expected {theirs}"
    if error is not None:
        line += f"; off by {error:.2g}"
    if ulps < MANY_ULPS:
        line += f" ({ulps:.2g} ulps of {dtype})"
    return line if allowed is None else f"{line}, allowed {allowed:.2g}"


def _distinct(got: complex, expected: complex) -> tuple[str, str]:
    """Format both numbers with enough digits to differ, at least four."""
    if isinstance(got, float) and isinstance(expected, float):
        for digits in range(4, 18):
            texts = f"{got:.{digits}g}", f"{expected:.{digits}g}"
            if texts[0] != texts[1]:
                return texts
    return str(got), str(expected)


def _stored_by(program: Sequence[int], line: str, callers: Sequence[str] = ()) -> str:
    stored = f"stored by: program {_listed(program, '()')} at {line}"
    return "\n".join([stored, *(f"  called from {caller}" for caller in callers)])


def _map(
    rows: Sequence[str], shape: Sequence[int], tile: Sequence[int], part: Sequence[int] = ()
) -> str:
    unit = f"tile of {tile[0]} x {tile[1]}"
    if tile[0] == tile[1] == 1:
        unit = "element"
    elif len(shape) == 1:
        unit = f"{tile[1]} elements"
    of = f"{_listed(part)} of " if part else ""
    head = (
        f"map of {of}the result ({' x '.join(map(str, shape))}), one character per {unit}: "
        f"{KINDS_OF_ELEMENTS}"
    )
    return "\n".join([head, *(f"    {row}" for row in rows)])


def _only_index(dim: int, dims: int, index: int, last: bool) -> str:
    return f"only {_axis(dim, dims)[0]} {index}" + " (the last)" * last


def _last_partial_tile(
    dim: int, dims: int, first: int, last: int, blocks: Sequence[int] = ()
) -> str:
    sizes = " to ".join(map(str, blocks))
    return f"{_axis(dim, dims)[1]} {first}..{last}: only the last, partial tile (blocks of {sizes})"


def _every_nth(dim: int, dims: int, indices: Sequence[int], step: int) -> str:
    number = {2: "second", 3: "third"}.get(step, f"{step}th")
    return f"{_axis(dim, dims)[1]} {', '.join(map(str, indices))}, ...: every {number}"


def _some_indices(dim: int, dims: int, indices: Sequence[int], count: int, length: int) -> str:
    more = ", ..." * (count > len(indices))
    return f"{count} of {length} {_axis(dim, dims)[1]}: {', '.join(map(str, indices))}{more}"


def _axis(dim: int, dims: int) -> tuple[str, str]:
    """Return what the indices of a dimension are called, one and many."""
    if dims == 1:
        return "element", "elements"
    names = {dims - 1: ("column", "columns"), dims - 2: ("row", "rows")}
    return names.get(dim, (f"dimension-{dim} index", f"dimension-{dim} indices"))


def _factor(value: complex, name: str = "") -> str:
    """Write a factor; name: as a formula, if it has one."""
    if not name:
        return f"{value:.4g}"
    return name if name == f"{value:g}" else f"{name} = {value:.4g}"


def _times(ratio: float) -> str:
    """Write a factor so that one near 1 does not read as 1."""
    if abs(ratio - 1) < NEAR_1:
        return f"1 {'-' if ratio < 1 else '+'} {abs(ratio - 1):.1g} times"
    return f"{ratio:.5g} times"


def _overflow(limits: Sequence[str], remedies: Sequence[str] = ()) -> str:
    return "; ".join([f"overflow: {', and '.join(limits)}", *remedies])


def _or_else(words: str) -> Callable[..., str]:
    """Return a function for a cause that others may stand beside."""
    return lambda others=(), **values: "; or ".join([words.format(**values), *others])


def _elements(words: str) -> Callable[..., str]:
    """Return a function that says what so many of the wrong elements are."""
    return lambda count: f"{count} of the wrong elements {'is' if count == 1 else 'are'} {words}"


def _count(words: str) -> Callable[..., str]:
    """Return a function for what counts in these tensors."""
    return lambda tensors: words.format(" and ".join(tensors))


def _inputs_are(words: str) -> Callable[..., str]:
    """Return a function for what inputs with one infinite value are: "inf" or "-inf"."""
    return lambda what, value: words.format(what=what, kind="infinite" if value == "inf" else value)


def _option(name: str, value: object) -> str:
    return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"


def _cast(tensors: Sequence[str], dtype: str) -> str:
    *most, last = tensors
    who = f"{', '.join(most)} and {last} are" if most else f"{last} is"
    return f"{who} cast to {dtype} on the way"


def _side(difference: float) -> str:
    return "large" if difference > 0 else "small"


def _part(tensor: str, ends: Sequence[tuple[int, int]]) -> str:
    """Write a part of an input as its indices along the first dimensions: x[3, 0..99]."""
    indices = (f"{first}..{last}" if first < last else f"{first}" for first, last in ends)
    return f"{tensor}[{', '.join(indices)}]" if ends else tensor


def _depends(result: str, index: Sequence[int], missed: Sequence[str], seen: Sequence[str]) -> str:
    who = f"{result} at {_listed(index)}" if index else result
    misses = f"does not change with {' or '.join(missed)}, and by the reference it must"
    sees = f"changes with {' and '.join(seen)}, and by the reference it must not"
    facts = [words for parts, words in ((missed, misses), (seen, sees)) if parts]
    return f"depends: {who} {'; it '.join(facts)}"


def _listed(numbers: Sequence[int], ends: str = "[]") -> str:
    return f"{ends[0]}{', '.join(map(str, numbers))}{ends[1]}"


# What is wrong, and where.
FACTS: Mapping[str, str | Callable[..., str]] = {
    "wrong-elements": _wrong_elements,
    "wrong-as-a-whole": _wrong_as_a_whole,
    "worst-element": _worst_element,
    "stored-by": _stored_by,
    "line": lambda file, line, source: show_place(Place(file, line, source=source)),
    "comes-from": "it comes from: {origin}",
    "overwritten": lambda program, element, line: (
        f"lost: program {_listed(program, '()')} stores {element} twice, and nothing loads it in "
        f"between: {line}"
    ),
    "depends": _depends,
    "part-of-input": _part,
    "with-config": "with the autotuner's {config}",
    "map": _map,
    "where-wrong": lambda regions: f"where: {'; '.join(regions)}",
    "patterns": lambda patterns: f"pattern: {'; '.join(patterns)}",
    "every-element": "every element",
    "nearly-every-element": "nearly every element",
    "scattered": "scattered, {share:.0%}",
    "only-index": _only_index,
    "last-partial-tile": _last_partial_tile,
    "all-after": lambda dim, dims, first, last: (
        f"{_axis(dim, dims)[1]} {first}..{last}: all after the first {first}"
    ),
    "index-range": lambda dim, dims, first, last: f"{_axis(dim, dims)[1]} {first}..{last}",
    "every-nth": _every_nth,
    "some-indices": _some_indices,
    "on-the-diagonal": lambda ahead: (
        f"only the diagonal column - row = {ahead}" if ahead else "only the diagonal"
    ),
    "above-the-diagonal": "only above the diagonal",
    "below-the-diagonal": "only below the diagonal",
}

# Clauses that hold for the wrong elements.
PATTERNS: Mapping[str, str | Callable[..., str]] = {
    "wrong-are-0": "all wrong elements are 0",
    "result-is-0": "the whole result is 0",
    "result-is-0-of-large-inputs": "the whole result is 0, and inputs reach {large:.4g}",
    "sign-of-0": "the wrong elements are -0, where 0 is expected, or the other way round",
    "equal-to-input": "the wrong elements are those of {name}",
    "wrong-sign": "the wrong elements have the wrong sign",
    "factor": _factor,
    "times-expected": "the wrong elements are {factor} times the expected ones",
    "nearly-expected": lambda ratio: f"the wrong elements are {_times(ratio)} the expected ones",
    "off-by-constant": lambda difference: (
        f"the wrong elements are all too {_side(difference)} by {abs(difference):.4g}"
    ),
    "too-small-by-input": "the wrong elements are too small by {name}",
    "too-large-by-input": "the wrong elements are too large by {name}",
    "square-of-expected": "the result is the square of the expected one",
    "square-root-of-expected": "the result is the square root of the expected one",
    "inverse-square-of-expected": "the result is the reciprocal of the square of the expected one",
    "reciprocal-of-expected": "the result is the reciprocal of the expected one",
    "exponential-of-expected": "the result is the exponential of the expected one",
    "logarithm-of-expected": "the result is the logarithm of the expected one",
    "log2-of-expected": "the result is the base-2 logarithm of the expected one",
    "absolute-value-of-expected": "the result is the absolute value of the expected one",
    "positive-part-of-expected": "the result is the positive part of the expected one",
    "conjugate-of-expected": "the result is the complex conjugate of the expected one",
    "power-of-expected": (
        "each row is the expected one to the power of {exponent}, up to a factor"
    ),
    "row-off-by-factor": "all wrong elements of a row are off by the same factor",
    "row-off-by-amount": "all wrong elements of a row are off by the same amount",
    "wrong-total": "the result adds up to {got:.0f}, expected {expected:.0f}",
    "parts-swapped": "real and imaginary parts are swapped",
    "later-of-equal": "{name} holds the same value at both indices, and a later one was chosen",
    "another-of-equal": "{name} holds the same value at both indices, and another one was chosen",
    "nan-at-index": "{name} holds NaN at the expected index",
    "index-past-the-end": (
        "the wrong indices are {length} or more, past the end of the rows of {name}"
    ),
    "index-0-of-negative-row": ("the index is 0 in rows of {name} whose values are all negative"),
    "transposed": "the result is the transpose of the expected one",
    "out-of-place": "the values are right, but in the wrong places",
    "slices-of-others": lambda dim, dims, count: (
        f"{count} {_axis(dim, dims)[1]} hold what belongs to others"
    ),
    "starts-over": "the result starts over every {block} elements",
    "off-by-block": (
        "the first {block} elements are right, and each later block of {block} is off by one number"
    ),
    "modulo-block": "the result is the expected one modulo {block}",
    "all-nan": "all wrong elements are NaN",
    "some-nan": _elements("NaN"),
    "some-infinite": _elements("infinite"),
    "nan-missing": _elements("not NaN where NaN is expected"),
    "inf-missing": _elements("finite where infinity is expected"),
    "where-inputs-are-below": "{what}, where no input is above {below:.3g}",
    "where-inputs-reach": "{what}, where inputs reach {large:.3g}",
    "where-inputs-are": _inputs_are("{what}, where inputs are {kind}"),
    "inputs-reach": "{what}, and inputs reach {large:.3g}",
    "inputs-are-not-nan": _inputs_are("{what}, and inputs are {kind}, not NaN"),
    "whole-times-expected": lambda ratio: (
        f"on the whole, the result is {_times(ratio)} the expected one"
    ),
    "narrow-numbers": "every value is exactly a {dtype} number",
    "row-factors": lambda low, high: (
        "each row is off by a factor of its own, from "
        f"{_times(low)} to {_times(high)} the expected one"
    ),
    "errors-follow-input": (
        "the errors are small and follow {name}: similar values, similar errors"
    ),
    "errors-follow-expected": (
        "the errors are small and follow the expected value: similar values, similar errors"
    ),
    "errors-of-cancellation": (
        "the errors are as large as what float32 loses of the square of {name}'s mean"
    ),
    "small-errors": (
        "the errors are small ({loss:.1g} of the size), of both signs, and have no pattern"
    ),
    "off-by-whole-numbers": ("the result should be whole numbers, and it is off by whole numbers"),
}

# What usually makes such a pattern, as a clause or a noun phrase.
CAUSES: Mapping[str, str | Callable[..., str]] = {
    "last-tile-wrong": (
        "the mask of the last tile is wrong, or the grid leaves that tile out, because the "
        "size is not a multiple of the block"
    ),
    "tiles-left-out": (
        "the grid or a loop ends too early, the mask of the last tile is wrong, or later tiles "
        "take what belongs to the first one"
    ),
    "unit-wrong": "an offset or a stride is in the wrong unit",
    "diagonal-off-by-one": "a comparison of row and column is off by one",
    "triangle-wrong": "a triangular mask is missing, or compares the wrong way round",
    "not-stored": "no program stores these elements, or a mask drops what it should keep",
    "square-overflows": (
        "overflow: the square of {large:.4g} is infinite in float16; compute in float32"
    ),
    "nothing-added": _or_else(
        "nothing is added to the result before it is stored, or what was stored is overwritten: a "
        "loop takes no turn, or a mask or a factor is 0 everywhere"
    ),
    "lost-beside-the-sum": (
        "a sum is accumulated in {dtype}, and becomes so large that single terms are lost"
    ),
    "empty-sum": EMPTY_SUM,
    "masked-with-a-number": (
        "scores are masked with {number:g}, and lower scores lose to it: use -inf"
    ),
    "product-with-0": (
        "a product with 0: x * 0 is -0 where x is negative, and NaN where x is NaN; select with "
        "tl.where, or by the mask of the load"
    ),
    "stored-as-loaded": "{name} is stored as it was loaded",
    "as-before-the-call": (
        "nothing new is stored to these elements: they hold what {name} held before the call"
    ),
    "subtraction-swapped": "the operands of a subtraction are swapped",
    "constant-wrong": "a constant is left out or applied twice",
    "factor-near-1-wrong": (
        "a factor near 1 is wrong (N instead of N - 1, a rounded constant, an eps added to a "
        "divisor), or a cast drops bits"
    ),
    "counted-twice": "something is counted twice",
    "index-made-with-strides": (
        "{stride:.0f} is the stride of {name} along dimension {dim}: the index is made with "
        "strides, as a place in memory, where it should count elements"
    ),
    "bases-mixed": "exp is mixed with exp2, or log with log2",
    "scale-left-out": "the scale {n} ** -0.5 is left out",
    "scale-applied-twice": "the scale {n} ** -0.5 is applied twice",
    "division-left-out": "a division by {n} is left out",
    "division-too-many": "one division by {n} too many",
    "divided-by-another": "a division by {wrong} instead of {right}",
    "divided-by-the-block": "a division by {wrong} (the block size) instead of {right}",
    "root-of-another": ("{right} and {wrong} are confused in a division under a square root"),
    "root-of-the-block": (
        "{right} and {wrong} (the block size) are confused in a division under a square root"
    ),
    "term-wrong": "a constant term is left out or added twice",
    "left-out": "{name} is left out",
    "added-twice": "{name} is added twice",
    "square-root-missing": "a square root is missing",
    "square-root-too-many": "one square root too many",
    "variance-for-rstd": "a variance is used instead of its inverse square root",
    "division-swapped": "the operands of a division are swapped",
    "logarithm-missing": "a logarithm is missing",
    "logarithm-too-many": "one logarithm too many",
    "sign-lost": "a sign is lost",
    "negative-cut-off": "negative values are cut off",
    "imaginary-sign-wrong": "the sign of the imaginary part is wrong",
    "exponent-wrong": "a wrong factor in the exponent: {cause}",
    "row-value-wrong": _or_else(
        "a value that the whole row shares is wrong: its sum, maximum, mean or variance"
    ),
    "row-sum-in-few-bits": "one of its sums is accumulated in {dtype} instead of float32",
    "counts-lost": "counts are lost: the adds are not atomic, or a mask drops elements",
    "counts-too-many": "elements are counted twice, or masked lanes are counted too",
    "part-offsets-swapped": "the offsets of the two parts are swapped",
    "ties-broken-wrongly": "ties are not broken in favour of the first index",
    "nan-not-compared": (
        "comparisons with NaN are false: NaN is skipped, or a later value replaces it"
    ),
    "masked-lane-wins": (
        "a masked lane wins the search: load with other=-inf, and let a real -inf win over it"
    ),
    "masked-lane-or-start-wins": (
        "a masked lane wins the search, or what it begins with: load with other=-inf, and let a "
        "real -inf win over both"
    ),
    "search-from-0": ("the search starts from 0, which no negative value exceeds: start from -inf"),
    "rows-and-columns-swapped": (
        "rows and columns are swapped, in the offsets of a load or store or in the strides"
    ),
    "stored-as-contiguous": lambda strides: (
        f"it is stored as if it were contiguous, and was made with the strides {tuple(strides)}: "
        "torch.empty_like keeps the order of its argument's strides"
    ),
    "offsets-wrong": "the offsets of a store or a load use the wrong stride or index",
    "holds-another": lambda dim, dims, count, index, other: (
        f"{_axis(dim, dims)[0]} {index} holds what {_axis(dim, dims)[0]} {other} should be, and so "
        f"do {count} {_axis(dim, dims)[1]} in all: the numbers are loaded, or stored, where "
        "another tile has its own"
    ),
    "dimensions-in-another-order": lambda order: (
        f"the result is stored with its dimensions in the order {', '.join(map(str, order))} "
        "instead of one after the other"
    ),
    "carry-missing": "the carry from block to block is missing",
    "carry-wrong": "what is carried from one block to the next is wrong",
    "block-start-missing": (
        "the index is counted within its block, and the block's start is not added"
    ),
    "cast-too-soon": "a cast to {dtype} before the last step",
    "row-in-few-bits": (
        "a value that the whole row shares has too few bits: a sum is accumulated in {dtype} "
        "instead of float32, or a term of it is wrong"
    ),
    "formula-off": _or_else(
        "the formula is off: a term or a constant is wrong, or it is an approximation"
    ),
    "rounded-again-and-again": (
        "a sum is rounded again and again: it is accumulated in {dtype} instead of float32"
    ),
    "cancellation": (
        "the mean of the squares minus the square of the mean, two large numbers that are "
        "nearly equal: subtract the mean from each element first"
    ),
    "difference-of-squares": (
        "cancellation: {source}, in line {line}, is the small difference of two large numbers, and "
        "float32 rounds both: subtract the mean from each element before squaring"
    ),
    "sum-in-16-bits": (
        "{source}, in line {line}, adds up in 16 bits: start with a float32 sum, and convert what "
        "is added with .to(tl.float32)"
    ),
    "result-dropped": (
        "the result of {source}, in line {line}, is not assigned to anything, and the call changes "
        "none of its arguments"
    ),
    "accumulator-doubled": (
        "{source}, in line {line}, adds the accumulator twice: a tl.dot that is given it returns "
        "the new sum, which is to be assigned and not added"
    ),
    "reduced-along-the-other-axis": (
        "{source}, in line {line}, reduces the axis along which its result is used afterwards: "
        "reduce along the other axis"
    ),
    "few-bits": (
        "an intermediate result has too few bits: a sum is accumulated in {dtype} instead of "
        "float32, a product is rounded to it, or it is a difference of large numbers"
    ),
    "handed-on-in-few-bits": (
        "kernels hand on intermediate results in {dtype}, which may be too few bits"
    ),
    "step-in-float32": "a step is computed in float32",
    "step-in-lower-precision": lambda steps: (
        f"a step is computed in lower precision: {', or '.join(steps)}"
    ),
    "step-in-half": "a cast to half precision on the way",
    "dot-in-tf32": "a tl.dot in tf32 (input_precision)",
    "terms-wrong": (
        "terms are missing, counted twice or not the right ones: this is not a rounding error"
    ),
}

# What makes NaN and infinity.
NOT_FINITE: Mapping[str, str | Callable[..., str]] = {
    "0-by-0": "0 / 0, which is NaN: {why}",
    "inf-minus-inf": "inf - inf, which is NaN",
    "maximum-is-minus-inf": (
        "inf - inf, which is NaN: where the largest value of a row or a tile is -inf, subtract 0 "
        "instead of it"
    ),
    "0-times-inf": "0 * inf is NaN: a factor of 0 leaves no number out, as tl.where does",
    "0-times-log-of-0": "0 * log(0) is 0 * -inf, which is NaN, although its limit is 0",
    "inf-by-inf": "inf / inf, which is NaN",
    "division-by-0": "a division by 0",
    "exp-of-inf": (
        "exp of inf: the difference before it is the wrong way round, or -inf is subtracted; a "
        "running sum is rescaled by exp(old maximum - new maximum)"
    ),
    "root-of-negative": (
        "the square root of a negative number: a mean of squares minus the square of the mean can "
        "be negative"
    ),
    "rsqrt-of-0": "the reciprocal square root of 0: eps belongs under the root",
    "log-of-0": "the logarithm of 0, which is -inf: {why}",
    "log-of-negative": "the logarithm of a negative number",
    "exp-overflows": f"{EXP_OVERFLOWS}; before exp, subtract the row's largest value",
    "exp-overflows-alone": EXP_OVERFLOWS,
    "exp-overflows-beyond-lse": (
        f"{EXP_OVERFLOWS}; a score minus lse is at most 0 if lse counts this score, so it is one "
        "that lse leaves out, such as that of a key past the end, or one in another scale or base"
    ),
    "exp-overflows-though-shifted": (
        f"{EXP_OVERFLOWS}; what is subtracted before is not the largest value"
    ),
    "float16-overflows": "overflow: float16 holds at most 65504; compute in float32",
    "dtype-overflows": "overflow: this is more than the dtype of the operands holds",
    "nothing-left": _or_else(f"a mask or a loop leaves nothing of a row or tile, or {EMPTY_SUM}"),
    "no-guard": "the divisor needs a guard, or a mask leaves nothing of a row or tile",
    "masked-lane-loaded": "a masked lane that was loaded without `other=` reaches the result",
    "unset-element-loaded": (
        "NaN was loaded from memory that nothing was stored to: {element}, where "
        "torch.empty leaves what was there before"
    ),
    "unset-memory-loaded": "NaN was loaded from memory that nothing was stored to",
    "nan-of-an-input": (
        "NaN of an input reaches what it should not: 0 * NaN is NaN, so leave it out by "
        "tl.where or by the mask of the load"
    ),
    "0-by-0-of-empty-sum": _or_else(f"0 / 0: {EMPTY_SUM}"),
    "log-of-empty-sum": f"a logarithm of 0, or a division by it: {EMPTY_SUM}",
    "scaled-too-soon": SCALED_TOO_SOON,
    "undefined": f"{UNDEFINED}, each of which is NaN",
    "cast-to-float16": "a cast to float16, which is infinite above 65504",
    "anything-loaded-or-undefined": (
        "a masked lane that was loaded without `other=` and reached the result, memory that "
        f"nothing was stored to, or {UNDEFINED}"
    ),
    "unset-or-undefined": (
        f"memory that nothing was stored to, or {UNDEFINED}: a value overflows its dtype, or a "
        "mask leaves nothing of a row or tile"
    ),
    "division-by-0-or-maximum": ("a division by zero, or a running maximum that was never updated"),
    "undefined-avoided": _or_else(
        "inf - inf, inf / inf, 0 * inf or 0 / 0 is avoided, although its NaN is expected here"
    ),
    "nan-of-numbers-hidden": (
        "the formula gives NaN for these finite numbers, since they lie outside the domain of a "
        "function or make 0 / 0, and a clamp or a choice such as tl.where hides it"
    ),
    "nan-replaced": "{source}, in line {line}, gives a number where NaN belongs",
    "inf-dropped": "an infinity is replaced by a number, or it is clamped",
    "nan-dropped": (
        "a maximum, minimum or comparison drops NaN: tl.maximum keeps it only if asked to"
    ),
    "overflow": _overflow,
    "limit-of-float16": "float16 holds at most 65504",
    "limit-of-squares": "float32 holds at most 3.4e38, which a square exceeds above 1.8e19",
    "limit-of-casts": "a cast to float16 is infinite above 65504",
    "limit-of-products": "a product in float16 is infinite above 65504",
    "limit-of-exp-in-float16": "exp exceeds that above 11",
    "limit-of-exp": "exp is infinite in float32 above 88",
    "compute-in-float32": "compute in float32",
    "subtract-the-largest": "before exp, subtract the row's largest value",
}

# Mistakes that any puzzle may have, and how the reference is made to make them.
MISTAKES: Mapping[str, str | Callable[..., str]] = {
    "swapped": "{first} and {second} are swapped",
    "not-used": "{name} is not used",
    "in-reverse": "{name} is used in reverse order",
    "last-left-out": "the last of {name} is left out",
    "first-left-out": "the first of {name} is left out",
    # Fewer bits may leave the same number.
    "truncated": "upper bits are lost, as where {name} is truncated to 32 bits",
    "off-by-one": "{name} is off by one",
    "off-by-one-or-compared": "{name}, or what it is compared with, is off by one",
    "sign-of-option-lost": "the sign of {name} is lost",
    "given-option": _option,
    "taken-for-set": "the result is that of {name} = {other}, but {name} is {value} here",
    "given-number": "{name} set to {value}",
    "sign-flipped": "the sign of {name} is flipped",
    "given-negated": "-{name} instead of {name}",
    "read-for-another": "{read} is read where {meant} is meant",
    "read-as-contiguous": "{name} is read as if it were contiguous",
    "read-with-strides-of": "{name} is read with the strides of {other}",
    "read-with-stride-1": "{name} is read with a stride of 1 along dimension {dim}",
    "read-with-strides-swapped": (
        "{name} is read with the strides of dimensions {first} and {second} swapped"
    ),
    "dimension-left-out": lambda tensors, dim: (
        f"an offset into {' and '.join(tensors)} leaves out dimension {dim}, or its stride"
    ),
    "given-index-0": lambda tensors, dim: (
        f"index 0 of {' and '.join(tensors)} everywhere along dimension {dim}"
    ),
    "index-halved": lambda tensors, dim, group: (
        f"the index into {' and '.join(tensors)} along dimension {dim} is half of what it must be"
    ),
    "index-within-the-block": lambda tensors, dim, group: (
        f"each block of {group} along dimension {dim} gets what belongs to the first block of "
        f"{' and '.join(tensors)}"
    ),
    "index-of-the-first": lambda tensors, dim, group: (
        f"each {group} neighbours along dimension {dim} of {' and '.join(tensors)} get what "
        "belongs to the first of them"
    ),
    "infinities-are-0": _count("infinities in {} count as 0"),
    "infinities-are-finite": _count("infinities in {} count as the largest finite number"),
    "subnormals-are-0": _count("subnormal numbers in {} count as 0"),
    "masked-lanes-count": "masked lanes of {name} count as {value:g}",
    "given-padding": "rows of {length} padded with {value:g} to {whole}",
    "cast-on-the-way": _cast,
    "whole-numbers-rounded": (
        "{name} passes through {dtype}, which holds whole numbers exactly only up to {most}"
    ),
    "summed-once-more": (
        "a sum is added up once more, over {block} elements of a tile that all have it"
    ),
    "ends-too-early": "a loop, a mask or the grid ends too early",
    "accumulator-overwritten": ("each step overwrites the accumulator instead of adding to it"),
    "advanced-without-stride": lambda tensors: (
        f"the pointers into {' and '.join(tensors)} advance by the size of a block, which is not "
        "multiplied by their stride"
    ),
    "given-steps": "pointers that move by {block} elements from step to step",
    "given-first": "only the first {count} of the {length} along dimension {dim} of {name}",
    "given-last": "only the last {count} of the {length} along dimension {dim} of {name}",
    "sum-in-few-bits": "a sum is accumulated in {dtype} instead of float32",
    "given-rounding-after": "a sum rounded to {dtype} after every {block} of {length}",
    "given-rounding-around": "a sum rounded to {dtype} before and after every {block} of {length}",
}


def _is_right(others: int, of: int, stay: int) -> str:
    """Return where the result is right with an edit."""
    if not of:
        return f"the result is right, and {stay} other results stay right"
    where = f"{others} of {of} other wrong cases"
    if others == of:
        few = {1: "the other wrong case", 2: "both other wrong cases"}
        where = few.get(of, f"all {of} other wrong cases")
    return f"the result is right, here and in {where}"


# What a run without it shows to be the cause.
SHOWN: Mapping[str, str | Callable[..., str]] = {
    "rounded-on-the-way": lambda source, line, bits, moved, allowed: (
        f"{source}, in line {line}, rounds to {'float16' if bits == 11 else 'bfloat16'}, and too "
        f"much is lost: with other roundings in that line alone the element changes by up to "
        f"{moved:.2g}, and {allowed:.2g} is allowed. Keep these numbers in float32"
    ),
    "repaired": lambda line, source, instead, **where: (
        f"line {line}, {source}: with {instead} in its place {_is_right(**where)}"
    ),
    "repaired-by-order": lambda line, source, before, other, **where: (
        f"line {line}, {source}: with it before line {before}, {other}, {_is_right(**where)}"
    ),
    "repaired-steps": lambda lines, number, loop, step, **where: (
        f"the loop of line {loop} is over tiles of {step}, but by {show_lines(lines)} it goes on "
        f"by {number}: with {step} there {_is_right(**where)}"
    ),
    "repaired-in-loop": lambda line, source, loop, **where: (
        f"line {line}, {source}: with it in the loop of line {loop} {_is_right(**where)}"
    ),
    "wrong-with-a-call-between": (
        "right alone, wrong where another forward pass runs before this call's backward pass"
    ),
    "keep-on-ctx": "keep what the backward pass needs on ctx, where each call has its own",
    "wrong-after-other-sizes": (
        "right in its first call, wrong after a call with other sizes, whose arguments were "
        "{arguments}"
    ),
    "wrong-after-a-call": "right in its first call, wrong in a later one",
    "wrong-after-other-contents": (
        "right in its first call, wrong after a call with other numbers in tensors of the same "
        "sizes"
    ),
    "keep-nothing-between-calls": (
        "let a call use nothing that another call left, or only where all it depends on is the same"
    ),
    "launcher-reads-inputs": (
        "right only where the launcher itself can read the numbers in the inputs: kernels must "
        "read them"
    ),
    "tuned-on-the-tensors": (
        "right where the kernel runs once, wrong where the autotuner has run it before: it times "
        "each config on the tensors themselves, and what the kernel changes in them must be put "
        "back"
    ),
    "zeroed-before-it-is-read": lambda names: (
        f"reset_to_zero sets {' and '.join(names)} to 0 in the first call of a size, before the "
        "kernel loads what was there: restore_value puts it back after tuning"
    ),
    "masked-lanes-reach-the-result": lambda lines: (
        f"masked lanes of the load at {', '.join(lines)} reach the result, and without other= "
        "they hold anything: say other="
    ),
    "order-matters": (
        "right when the programs run one after the other in order, wrong in another order: a GPU "
        "runs them in any order and at once"
    ),
    "option-at-fault": "the same call is right with {name} = {default}, and wrong with {value}",
}

WORDS: Mapping[str, str | Callable[..., str]] = {
    **FACTS,
    **PATTERNS,
    **CAUSES,
    **NOT_FINITE,
    **MISTAKES,
    **SHOWN,
}
