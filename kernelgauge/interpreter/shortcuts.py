"""The short way through what Triton decides anew for each operation on two operands.

An operation on a tile takes NumPy a few microseconds, and Triton's rules of types and shapes take
ten times that. Most operands need none of them: their types are the same, or one is a plain number
that takes the other's, and their shapes are the same. Whatever else comes goes Triton's own way.

All names replaced here are private names of Triton.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from kernelgauge.interpreter.memoization import tile_types

# Operands of one of these types are computed in it, whatever the operation but a division.
_FLOATS = {"fp16", "bf16", "fp32", "fp64"}
_INTEGERS = {"int32", "int64"}
_COMPUTED_AS_THEY_ARE = _FLOATS | _INTEGERS | {"int1"}
# By source and target, the builder's method and what it takes besides.
_NONE: tuple[Any, ...] = (None,)
_CASTS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("fp16", "fp32"): ("create_fp_ext",),
    ("bf16", "fp32"): ("create_fp_ext",),
    ("fp32", "fp64"): ("create_fp_ext",),
    ("fp32", "fp16"): ("create_fp_trunc",),
    ("fp32", "bf16"): ("create_fp_trunc",),
    ("fp64", "fp32"): ("create_fp_trunc",),
    ("int32", "int64"): ("create_int_cast", True),
    ("int64", "int32"): ("create_int_cast", True),
    ("int1", "int32"): ("create_int_cast", False),
    ("int32", "fp32"): ("create_si_to_fp",),
}
# A division of these goes by way of float32.
_DIVIDED_WIDER = {"fp16", "bf16"}


def operands(stock: Callable) -> Callable:
    """Wrap binary_op_type_checking_impl: operands that need no conversion are only broadcast."""

    @functools.wraps(stock)
    def convert(
        self: Any,
        lhs: Any,
        rhs: Any,
        allow_lhs_ptr: bool = False,
        allow_rhs_ptr: bool = False,
        arithmetic_check: bool = True,
        div_or_mod: bool = False,
    ) -> Any:
        pair = _of_one_type(self, lhs, rhs, allow_lhs_ptr, div_or_mod) if arithmetic_check else None
        if pair is None:
            return stock(self, lhs, rhs, allow_lhs_ptr, allow_rhs_ptr, arithmetic_check, div_or_mod)
        return self.broadcast_impl_value(*pair)

    return convert


def elementwise(stock: Callable) -> Callable:
    """Wrap an operation on two operands: where Triton's own would call one method, it is called."""
    name = stock.__name__
    float_method, integer_method = _METHODS[name]
    methods = dict.fromkeys(_FLOATS, float_method) | dict.fromkeys(_INTEGERS, integer_method)
    if float_method is None:
        methods["int1"] = integer_method
    may_overflow, takes_pointers = name in ("add", "sub", "mul"), name == "add"
    compares = name not in ("add", "sub", "mul", "and_", "or_")

    @functools.wraps(stock)
    def operate(self: Any, left: Any, right: Any, *rest: Any, **options: Any) -> Any:
        if (
            type(left) is not tl.tensor
            or type(right) is not tl.tensor
            or left.type is not right.type
        ):
            pair = _of_one_type(self, left, right, takes_pointers, False)
            if pair is None:
                return stock(self, left, right, *rest, **options)
            left, right = self.broadcast_impl_value(*pair)
        held = left.dtype.name
        method = methods.get(held)
        if method is None and takes_pointers and type(left.dtype) is tl.pointer_type:
            method = "create_addptr" if right.dtype.name in _INTEGERS else None
        elif may_overflow and held in _INTEGERS and self.builder.options.sanitize_overflow:
            method = None
        if method is None:
            return stock(self, left, right, *rest, **options)
        kind = left.type.with_element_ty(tl.int1) if compares else left.type
        return tl.tensor(getattr(self.builder, method)(left.handle, right.handle), kind)

    return operate


# Of the methods of Triton's semantic, the builder's for floats and for signed integers.
_METHODS = {
    "add": ("create_fadd", "create_add"),
    "sub": ("create_fsub", "create_sub"),
    "mul": ("create_fmul", "create_mul"),
    "and_": (None, "create_and"),
    "or_": (None, "create_or"),
    "less_than": ("create_fcmpOLT", "create_icmpSLT"),
    "less_equal": ("create_fcmpOLE", "create_icmpSLE"),
    "greater_than": ("create_fcmpOGT", "create_icmpSGT"),
    "greater_equal": ("create_fcmpOGE", "create_icmpSGE"),
    "equal": ("create_fcmpOEQ", "create_icmpEQ"),
    "not_equal": ("create_fcmpUNE", "create_icmpNE"),
}
ELEMENTWISE = tuple(_METHODS)


def _of_one_type(
    semantic: Any, left: Any, right: Any, allow_pointer: bool, division: bool
) -> tuple | None:
    """Return both operands as tensors of the type to compute in, None if Triton must decide."""
    if type(left) is not tl.tensor:
        if type(right) is not tl.tensor:
            return None
        number = _as_constant(semantic, left, right.dtype.name, division)
        return None if number is None else (number, right)
    name = left.dtype.name
    if type(right) is not tl.tensor:
        number = _as_constant(semantic, right, name, division)
        return None if number is None else (left, number)
    other = right.dtype.name
    if name == other and name in _COMPUTED_AS_THEY_ARE:
        return None if division and name in _DIVIDED_WIDER else (left, right)
    if allow_pointer and other in _INTEGERS and type(left.dtype) is tl.pointer_type:
        return left, right
    if name in _INTEGERS and other in _INTEGERS:
        return semantic.cast(left, tl.int64), semantic.cast(right, tl.int64)
    return None


def _as_constant(semantic: Any, number: Any, name: str, division: bool) -> tl.tensor | None:
    """Return a Python number as a tensor of this type, None if it has no place there."""
    if type(number) is int and name == "int32":
        fits = -(2**31) <= number < 2**31
    elif type(number) is int and name == "int64":
        fits = -(2**63) <= number < 2**63
    else:
        fits = type(number) in (int, float) and name in _FLOATS
    if not fits or (division and name in _DIVIDED_WIDER):
        return None
    key = (name, number)
    if key not in constants:
        if len(constants) >= MAX_CONSTANTS:
            constants.clear()
        constant = semantic.scalar_constant(number, dtype=_TYPES[name])
        constant.tiles = {}
        constants[key] = constant
    return constants[key]


# The plain numbers of kernels as tensors, by type and value, each with the tiles that are made of
# it, by their shape: nobody changes the operand of an operation.
constants: dict[tuple[str, float], tl.tensor] = {}
MAX_CONSTANTS = 1024

_TYPES = {
    dtype.name: dtype
    for dtype in (tl.float16, tl.bfloat16, tl.float32, tl.float64, tl.int32, tl.int64)
}


def cast(stock: Callable) -> Callable:
    """Wrap cast: the common conversions are one call of the builder."""

    @functools.wraps(stock)
    def convert(self: Any, input: Any, dst_ty: Any, fp_downcast_rounding: Any = None) -> Any:
        source, target = input.dtype, dst_ty.scalar
        if source is target and fp_downcast_rounding is None:
            return input
        method, *options = _CASTS.get((source.name, target.name), _NONE)
        if method is None or fp_downcast_rounding is not None:
            return stock(self, input, dst_ty, fp_downcast_rounding)
        if type(input.type) is tl.block_type:
            target = tile_type(target, input.type.shape)
        return tl.tensor(getattr(self.builder, method)(input.handle, target, *options), target)

    return convert


def broadcast(stock: Callable) -> Callable:
    """Wrap broadcast_impl_value: tiles of as many axes, and a tile and a scalar, are simple."""

    @functools.wraps(stock)
    def align(self: Any, left: Any, right: Any) -> Any:
        one = type(left.type) is tl.block_type
        other = type(right.type) is tl.block_type
        if one and other:
            # `share_shapes` lets types of one shape have the same object.
            if left.type.shape is right.type.shape:
                return left, right
            shape = _common(left.type.shape, right.type.shape)
            if shape is None:
                return stock(self, left, right)
            return _stretched(self, left, shape), _stretched(self, right, shape)
        if one:
            return left, _spread(self, right, left.type.shape)
        if other:
            return _spread(self, left, right.type.shape), right
        return left, right

    return align


@functools.lru_cache(maxsize=4096)
def _common(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that tiles of two shapes have together, None if Triton must decide."""
    pairs = list(zip(one, other, strict=False))
    if len(one) != len(other) or any(a != b and 1 not in (a, b) for a, b in pairs):
        return None
    return tuple(map(max, pairs))


def _stretched(semantic: Any, tile: tl.tensor, shape: tuple[int, ...]) -> tl.tensor:
    if tile.type.shape == shape:
        return tile
    kind = tile_type(tile.dtype, shape)
    return tl.tensor(semantic.builder.create_broadcast(tile.handle, shape), kind)


def _spread(semantic: Any, scalar: tl.tensor, shape: Any) -> tl.tensor:
    tiles = getattr(scalar, "tiles", None)
    tile = tiles.get(id(shape)) if tiles else None
    if tile is not None and tile.type.shape is shape:
        return tile
    kind = tile_type(scalar.dtype, shape)
    tile = tl.tensor(semantic.builder.create_splat(kind, scalar.handle), kind)
    if tiles is not None:
        tiles[id(shape)] = tile
    return tile


def tile_type(element_type: tl.dtype, shape: Sequence[int]) -> tl.block_type:
    """Return the type of tiles of this shape; of numbers, always the same object."""
    kind = tile_types.get((element_type.name, *shape))
    return tl.block_type(element_type, list(shape)) if kind is None else kind


def with_element_type(self: tl.block_type, element_type: tl.dtype) -> tl.block_type:
    """Return the type of tiles of the same shape with other elements."""
    return tile_type(element_type, self.shape)


def block_type(builder: Any, element_type: Any, shape: Any) -> Any:
    """Return what the compiler's builder calls the type of a tile: here, the same type."""
    return tile_type(element_type, shape)


def splat(builder: Any, type_of_tile: Any, scalar: Any) -> Any:
    """Return a tile whose elements are one element in memory."""
    shape = type_of_tile.shape
    value = np.ascontiguousarray(scalar.data)
    elements = np.ndarray(shape, value.dtype, value, strides=(0,) * len(shape))
    return TensorHandle(elements, scalar.dtype.scalar)


def stretch(builder: Any, tile: Any, shape: Sequence[int]) -> Any:
    """Return a tile along whose axes of one element that one is repeated, in the same memory."""
    data = tile.data
    if data.ndim != len(shape) or not data.flags.c_contiguous:
        return TensorHandle(np.broadcast_to(data, shape), tile.dtype.scalar)
    strides = [
        0 if size == 1 else stride for size, stride in zip(data.shape, data.strides, strict=True)
    ]
    return TensorHandle(np.ndarray(shape, data.dtype, data, 0, strides), tile.dtype.scalar)


def add_axis(builder: Any, tile: Any, axis: int) -> Any:
    """Return a tile with one more axis of one element, in the same memory."""
    data = tile.data
    at = axis if axis >= 0 else axis + data.ndim + 1
    return TensorHandle(data[(slice(None),) * at + (None,)], tile.dtype.scalar)


def contiguous(stock: Callable) -> Callable:
    """Wrap an atomic: Triton's reads the memory of its operands, whatever their strides are."""

    def call(builder: Any, *operands: Any) -> Any:
        return stock(builder, *map(_contiguous, operands))

    return call


def _contiguous(operand: Any) -> Any:
    if not isinstance(operand, TensorHandle) or operand.data.flags.c_contiguous:
        return operand
    return TensorHandle(np.ascontiguousarray(operand.data), operand.dtype)


@functools.lru_cache(maxsize=256)
def _range(start: int, stop: int) -> np.ndarray:
    numbers = np.arange(start, stop, dtype=np.int32)
    numbers.flags.writeable = False
    return numbers


def make_range(builder: Any, type_of_tile: Any, start: Any, stop: Any) -> Any:
    """Return the numbers from start to stop, made once for all programs."""
    return TensorHandle(_range(start, stop), tl.int32)


def unwrap(stock: Callable) -> Callable:
    """Wrap _unwrap_if_constexpr, which is asked of every argument: most are no constexpr."""

    @functools.wraps(stock)
    def value(argument: Any) -> Any:
        kind = type(argument)
        if kind in _PLAIN:
            return argument
        return argument.value if kind is tl.constexpr else stock(argument)

    return value


_PLAIN = {tl.tensor, int, float, bool, str, type(None)}
