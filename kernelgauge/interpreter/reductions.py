"""Reductions and scans, whole tiles at a time and in a GPU's order.

A reduction folds the second half of a tile onto the first, again and again, as the lanes of a warp
do: values are rounded as often as there, and a combine function that depends on the order of its
operands gives itself away. Which of several NaN or ties wins depends on a layout that is not known
here. The combine functions of `standard` and the attributes of operations are private names of
Triton.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import standard
from triton.runtime.interpreter import interpreter_semantic as semantic

from kernelgauge.interpreter.arithmetic import make_tensor, narrow, numpy_dtype, rounded, widen
from kernelgauge.interpreter.control_flow import AmbiguousCondition

Arrays = tuple[np.ndarray, ...]
Combine = Callable[[Arrays, Arrays], Arrays]

_IGNORES_NAN = {standard._elementwise_max: np.fmax, standard._elementwise_min: np.fmin}
_COMPUTED = {standard._sum_combine: np.add, standard._prod_combine: np.multiply}
# The comparison that the winner of two passes, and whether the first one wins a tie.
_SELECTED = {
    standard._argmax_combine_tie_break_left: (np.greater, True),
    standard._argmax_combine_tie_break_fast: (np.greater, False),
    standard._argmin_combine_tie_break_left: (np.less, True),
    standard._argmin_combine_tie_break_fast: (np.less, False),
}


def reduce(operation: Any, inputs: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    """Replace ReduceOps.apply_impl."""
    axis = tl.core._unwrap_if_constexpr(operation.axis)
    arrays = tuple(operand.handle.data for operand in inputs)
    kept = [1] * arrays[0].ndim
    if axis is None:
        arrays = tuple(array.reshape(-1) for array in arrays)
    else:
        kept = list(arrays[0].shape)
        kept[axis] = 1
        arrays = tuple(_with_axis_first(array, axis) for array in arrays)
    dtypes = [operand.dtype for operand in inputs]
    reduced = _reduce_first_axis(operation.combine_fn, arrays, dtypes)
    if operation.keep_dims:
        reduced = tuple(array.reshape(kept) for array in reduced)
    return [make_tensor(array, dtype) for array, dtype in zip(reduced, dtypes, strict=True)]


def _reduce_first_axis(combine_fn: Callable, arrays: Arrays, dtypes: list[tl.dtype]) -> Arrays:
    first, name = arrays[0], dtypes[0].name
    if extremum := _IGNORES_NAN.get(combine_fn):
        return (narrow(extremum.reduce(widen(first, name)), name),)
    if combine_fn is standard._sum_combine and first.dtype.kind in "iu" and dtypes[0].is_int():
        return (np.add.reduce(first, dtype=first.dtype),)
    if compute := _COMPUTED.get(combine_fn):
        rounded.add(name)
        return (_folded(first, compute, name),)
    combine = _combine(combine_fn, dtypes)
    while (count := len(arrays[0])) > 1:
        half = count // 2
        rest = tuple(array[2 * half :] for array in arrays)
        arrays = combine(
            tuple(array[:half] for array in arrays),
            tuple(array[half : 2 * half] for array in arrays),
        )
        if count % 2:
            arrays = tuple(map(np.concatenate, zip(arrays, rest, strict=True)))
    return tuple(array[0] for array in arrays)


def _folded(values: np.ndarray, compute: Callable, name: str) -> np.ndarray:
    """Fold the second half of numbers of one format onto the first until one is left."""
    while (count := len(values)) > 1:
        half = count // 2
        folded = _computed(compute, values[:half], values[half : 2 * half], name)
        values = np.concatenate((folded, values[2 * half :])) if count % 2 else folded
    return values[0]


def _computed(compute: Callable, left: np.ndarray, right: np.ndarray, name: str) -> np.ndarray:
    return narrow(compute(widen(left, name), widen(right, name)), name)


def _with_axis_first(array: np.ndarray, axis: int) -> np.ndarray:
    return array if axis == 0 else array.transpose(_axes(array.ndim, axis % array.ndim))


@functools.lru_cache(maxsize=64)
def _axes(count: int, first: int) -> tuple[int, ...]:
    return (first, *(axis for axis in range(count) if axis != first))


def scan(operation: Any, inputs: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    """Replace ScanOps.apply_impl."""
    axis = tl.core._unwrap_if_constexpr(operation.axis)
    arrays = tuple(_with_axis_first(operand.handle.data, axis) for operand in inputs)
    if operation.reverse:
        arrays = tuple(array[::-1] for array in arrays)
    dtypes = [operand.dtype for operand in inputs]
    combine = _combine(operation.combine_fn, dtypes)
    step = 1
    while step < len(arrays[0]):
        # Tiles keep their size, a power of two; what wraps around is not used.
        earlier = tuple(np.roll(array, step, axis=0) for array in arrays)
        combined = combine(earlier, arrays)
        arrays = tuple(
            np.concatenate((array[:step], new[step:]))
            for array, new in zip(arrays, combined, strict=True)
        )
        step *= 2
    if operation.reverse:
        arrays = tuple(array[::-1] for array in arrays)
    return [
        make_tensor(np.ascontiguousarray(np.moveaxis(array, 0, axis)), dtype)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def _combine(combine_fn: Callable, dtypes: list[tl.dtype]) -> Combine:
    """Return a combine function of arrays: Triton's own in NumPy, any other as it is written."""
    name = dtypes[0].name
    if compute := _COMPUTED.get(combine_fn):
        rounded.add(name)
        return lambda left, right: (_computed(compute, left[0], right[0], name),)
    if combine_fn in _SELECTED:
        return _select(*_SELECTED[combine_fn], name)
    return _as_written(combine_fn, dtypes)


def _select(better: Callable, left_wins_ties: bool, name: str) -> Combine:
    def combine(left: Arrays, right: Arrays) -> Arrays:
        ours, theirs = widen(left[0], name), widen(right[0], name)
        take = better(ours, theirs)
        if left_wins_ties:
            take |= (ours == theirs) & (left[1] < right[1])
        return tuple(np.where(take, a, b) for a, b in zip(left, right, strict=True))

    return combine


def _as_written(combine_fn: Callable, dtypes: list[tl.dtype]) -> Combine:
    """Call a combine function on whole arrays, or on each element if it branches on one."""

    def call(left: Arrays, right: Arrays) -> Arrays:
        operands = zip((*left, *right), (*dtypes, *dtypes), strict=True)
        results = combine_fn(*(make_tensor(array, dtype) for array, dtype in operands))
        results = results if isinstance(results, (tuple, tl.tuple)) else (results,)
        return tuple(
            np.broadcast_to(_data(result, dtype), left[0].shape)
            for result, dtype in zip(results, dtypes, strict=True)
        )

    def combine(left: Arrays, right: Arrays) -> Arrays:
        try:
            return call(left, right)
        except AmbiguousCondition:
            results = tuple(np.empty_like(array) for array in left)
            for index in np.ndindex(left[0].shape):
                scalars = call(
                    tuple(array[index] for array in left), tuple(array[index] for array in right)
                )
                for result, scalar in zip(results, scalars, strict=True):
                    result[index] = scalar
            return results

    return combine


def _data(result: Any, dtype: tl.dtype) -> np.ndarray:
    tensor = semantic.cast(semantic.to_tensor(result), dtype)
    data = tensor.handle.data.astype(numpy_dtype(dtype), copy=False)
    return data if tensor.type.is_block() else data.reshape(())
