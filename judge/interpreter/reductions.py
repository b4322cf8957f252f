"""Reductions and scans of Triton's interpreter, whole tiles at a time and in a GPU's order.

A reduction folds the second half of a tile onto the first, again and again, as the lanes of a warp
do: values are rounded as often as there, and a combine function that depends on the order of its
operands shows. Which of several NaN or ties wins depends on a layout that nobody can know here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interpreter
from triton.language import standard
from triton.runtime.interpreter import TensorHandle

from judge.interpreter.arithmetic import narrowed, numpy_dtype, widened
from judge.interpreter.control_flow import Ambiguous

Arrays = tuple[np.ndarray, ...]
Combine = Callable[[Arrays, Arrays], Arrays]


def install() -> None:
    interpreter.ReduceOps.apply_impl = _reduce
    interpreter.ScanOps.apply_impl = _scan


def _reduce(operation, inputs: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    axis = tl.core._unwrap_if_constexpr(operation.axis)
    arrays = tuple(operand.handle.data for operand in inputs)
    kept = [1] * arrays[0].ndim
    if axis is None:
        arrays = tuple(array.reshape(-1) for array in arrays)
    else:
        kept = list(arrays[0].shape)
        kept[axis] = 1
        arrays = tuple(np.moveaxis(array, axis, 0) for array in arrays)
    dtypes = [operand.dtype for operand in inputs]
    reduced = _reduced(operation.combine_fn, arrays, dtypes)
    if operation.keep_dims:
        reduced = tuple(array.reshape(kept) for array in reduced)
    return [_tensor(array, dtype) for array, dtype in zip(reduced, dtypes, strict=True)]


def _reduced(combine_fn, arrays: Arrays, dtypes: list[tl.dtype]) -> Arrays:
    """The arrays without their first axis."""
    name = dtypes[0].name
    ignoring_nan = {standard._elementwise_max: np.fmax, standard._elementwise_min: np.fmin}
    if extremum := ignoring_nan.get(combine_fn):
        return (narrowed(extremum.reduce(widened(arrays[0], name)), name),)
    if combine_fn is standard._sum_combine and arrays[0].dtype.kind in "iu" and dtypes[0].is_int():
        return (np.add.reduce(arrays[0], dtype=arrays[0].dtype),)
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


def _scan(operation, inputs: tuple[tl.tensor, ...]) -> list[tl.tensor]:
    axis = tl.core._unwrap_if_constexpr(operation.axis)
    arrays = tuple(np.moveaxis(operand.handle.data, axis, 0) for operand in inputs)
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
        _tensor(np.ascontiguousarray(np.moveaxis(array, 0, axis)), dtype)
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def _combine(combine_fn, dtypes: list[tl.dtype]) -> Combine:
    """A combine function for arrays: Triton's own ones in NumPy, and any other as it is written."""
    computed = {standard._sum_combine: np.add, standard._prod_combine: np.multiply}
    if compute := computed.get(combine_fn):
        name = dtypes[0].name
        return lambda left, right: (
            narrowed(compute(widened(left[0], name), widened(right[0], name)), name),
        )
    picked = {
        standard._argmax_combine_tie_break_left: (np.greater, True),
        standard._argmax_combine_tie_break_fast: (np.greater, False),
        standard._argmin_combine_tie_break_left: (np.less, True),
        standard._argmin_combine_tie_break_fast: (np.less, False),
    }
    if combine_fn in picked:
        return _pick(*picked[combine_fn], dtypes[0].name)
    return _called(combine_fn, dtypes)


def _pick(better: Callable, left_wins_ties: bool, name: str) -> Combine:
    def combine(left: Arrays, right: Arrays) -> Arrays:
        ours, theirs = widened(left[0], name), widened(right[0], name)
        take = better(ours, theirs)
        if left_wins_ties:
            take |= (ours == theirs) & (left[1] < right[1])
        return tuple(np.where(take, a, b) for a, b in zip(left, right, strict=True))

    return combine


def _called(combine_fn, dtypes: list[tl.dtype]) -> Combine:
    """Calls a combine function on whole arrays, or on each element if it branches on one."""

    def call(left: Arrays, right: Arrays) -> Arrays:
        operands = [
            _tensor(array, dtype)
            for array, dtype in zip((*left, *right), (*dtypes, *dtypes), strict=True)
        ]
        results = combine_fn(*operands)
        results = results if isinstance(results, (tuple, tl.tuple)) else (results,)
        return tuple(
            np.broadcast_to(_data(result, dtype), left[0].shape)
            for result, dtype in zip(results, dtypes, strict=True)
        )

    def combine(left: Arrays, right: Arrays) -> Arrays:
        try:
            return call(left, right)
        except Ambiguous:
            results = tuple(np.empty_like(array) for array in left)
            for index in np.ndindex(left[0].shape):
                scalars = call(
                    tuple(array[index] for array in left), tuple(array[index] for array in right)
                )
                for result, scalar in zip(results, scalars, strict=True):
                    result[index] = scalar
            return results

    return combine


def _tensor(data: np.ndarray, dtype: tl.dtype) -> tl.tensor:
    """The interpreter holds a scalar as an array of one element."""
    shape = np.shape(data)
    kind = tl.block_type(dtype, list(shape)) if shape else dtype
    return tl.tensor(TensorHandle(np.atleast_1d(data), dtype), kind)


def _data(result, dtype: tl.dtype) -> np.ndarray:
    semantic = interpreter.interpreter_semantic
    tensor = semantic.cast(semantic.to_tensor(result), dtype)
    data = tensor.handle.data.astype(numpy_dtype(dtype), copy=False)
    return data if tensor.type.is_block() else data.reshape(())
