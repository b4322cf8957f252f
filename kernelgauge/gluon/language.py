"""Gluon's language as it runs here: what its functions do to the program that calls them.

Functions that Triton's language has, too, are its own, without their layouts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import triton.experimental.gluon.language as gl
import triton.language as tl
from triton.experimental.gluon.language.nvidia import ampere, hopper
from triton.runtime.interpreter import TensorHandle
from triton.runtime.interpreter import interpreter_builder as builder
from triton.runtime.interpreter import interpreter_semantic as semantic

from kernelgauge.gluon.block import BLOCK, PARTITION, Barrier, Memory
from kernelgauge.gluon.clocks import Operation
from kernelgauge.gluon.partitions import Partition
from kernelgauge.interpreter.arithmetic import make_tensor, numpy_dtype
from kernelgauge.memory.call_sites import CallSite, user_frame


def value(argument: Any) -> Any:
    """Return an argument as Python's own: of a constexpr its value, of a scalar its number."""
    if isinstance(argument, tl.constexpr):
        return argument.value
    if isinstance(argument, tl.tensor):
        return argument.handle.data.item()
    return argument


def values(arguments: Sequence[Any]) -> list[Any]:
    """Return `value` of each."""
    return [value(argument) for argument in arguments]


def here(waits: bool = True) -> Partition:
    """Return the partition that runs; first others may run."""
    partition = PARTITION.get()
    if waits:
        BLOCK.get().turns.switch(partition)
    return partition


# Shared memory


@dataclass(frozen=True)
class BufferType:
    """The type of a `Buffer`."""

    element_ty: tl.dtype
    shape: list[int]
    layout: Any


class Buffer:
    """A part of shared memory, or all of an allocation: Gluon's shared_memory_descriptor.

    memory: the allocation
    ids: where the elements of this part are in it
    """

    def __init__(self, memory: Memory, ids: np.ndarray, layout: Any):
        self.memory, self.ids, self.layout = memory, ids, layout

    @property
    def dtype(self) -> tl.dtype:
        """Of the elements."""
        return self.memory.dtype

    @property
    def shape(self) -> list[int]:
        """Of this part."""
        return list(self.ids.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.ids.ndim

    @property
    def numel(self) -> int:
        """The number of elements."""
        return self.ids.size

    @property
    def nbytes(self) -> int:
        """How many bytes this part holds."""
        return self.ids.size * self.memory.data.itemsize

    @property
    def type(self) -> BufferType:
        """Its shape, layout and dtype."""
        return BufferType(self.dtype, self.shape, self.layout)

    def index(self, index: Any) -> Buffer:
        """Return one slice along the first dimension. Raises IndexError."""
        number = value(index)
        if not 0 <= number < self.ids.shape[0]:
            name = BLOCK.get().name(self)
            raise IndexError(f"index {number} of {name}, whose shape is {self.shape}")
        return Buffer(self.memory, self.ids[number], self.layout)

    def slice(self, start: Any, length: Any, dim: Any = 0) -> Buffer:
        """Return some slices along a dimension. Raises IndexError."""
        start, length, dim = values([start, length, dim])
        if not 0 <= start <= start + length <= self.ids.shape[dim]:
            name = BLOCK.get().name(self)
            raise IndexError(f"slice({start}, {length}) of {name}, whose shape is {self.shape}")
        ids = np.take(self.ids, range(start, start + length), axis=dim)
        return Buffer(self.memory, ids, self.layout)

    def permute(self, order: Sequence[Any]) -> Buffer:
        """Return it with its dimensions in another order."""
        return Buffer(self.memory, self.ids.transpose(values(order)), self.layout)

    def reshape(self, shape: Sequence[Any]) -> Buffer:
        """Return it in another shape."""
        return Buffer(self.memory, self.ids.reshape(values(shape)), self.layout)

    def load(self, layout: Any) -> tl.tensor:
        """Load it into registers."""
        BLOCK.get().read(self, here())
        return self.tensor()

    def store(self, tile: Any) -> None:
        """Store a tile of its shape. Raises ValueError for another one."""
        data = _held(tile, self.dtype)
        if list(data.shape) != self.shape:
            raise ValueError(f"a tile of shape {list(data.shape)} into a buffer of {self.shape}")
        BLOCK.get().write(self, here())
        self.memory.data[self.ids] = data

    def tensor(self) -> tl.tensor:
        """Return what it holds now."""
        return make_tensor(self.memory.data[self.ids], self.dtype)

    def _keep_alive(self) -> None:
        """Do nothing: memory is not reused within a program."""


def _held(tile: Any, dtype: tl.dtype) -> np.ndarray:
    if tile.dtype != dtype:
        raise ValueError(f"a tile of {tile.dtype} into a buffer of {dtype}")
    return tile.handle.data


def allocate_shared_memory(element_ty: Any, shape: Any, layout: Any, value: Any = None) -> Buffer:
    """Allocate shared memory, and store a tile to it if one is given."""
    frame = user_frame(BLOCK.get().code)
    site = CallSite(frame.f_code.co_filename, frame.f_lineno, "") if frame else None
    BLOCK.get().enter()
    sizes = values(_plain(shape))
    memory = Memory(_plain(element_ty), sizes, site.line_text if site else "")
    buffer = Buffer(memory, np.arange(math.prod(sizes)).reshape(sizes), _plain(layout))
    if value is not None:
        buffer.store(value)
    return buffer


def _plain(argument: Any) -> Any:
    return argument.value if isinstance(argument, tl.constexpr) else argument


def fence_async_shared(cluster: Any = False) -> None:
    """Let asynchronous operations see what was stored to shared memory so far."""
    partition = here()
    partition.fenced.join(partition.seen)
    BLOCK.get().tell("fence_async_shared", partition)


# Barriers


def allocate_mbarrier(batch: Any = None, two_ctas: Any = False) -> Buffer:
    """Allocate one barrier, or so many."""
    shape = [1] if value(batch) is None else [value(batch), 1]
    return allocate_shared_memory(tl.int64, shape, hopper.mbarrier.MBarrierLayout())


def init(mbarrier: Buffer, count: Any) -> None:
    """Initialise a barrier whose phases end with so many arrivals."""
    here()
    mbarrier.memory.barriers[int(mbarrier.ids.ravel()[0])] = Barrier(value(count))


def invalidate(mbarrier: Buffer) -> None:
    """Give the memory of a barrier up."""
    here()
    BLOCK.get().barrier(mbarrier)
    del mbarrier.memory.barriers[int(mbarrier.ids.ravel()[0])]


def expect(
    mbarrier: Buffer, bytes: Any = None, pred: Any = True, bytes_per_cta: Any = None
) -> None:
    """Arrive once, and have the phase wait for so many bytes of copies, too."""
    partition, size = here(), value(bytes if bytes_per_cta is None else bytes_per_cta)
    if value(pred):
        barrier = BLOCK.get().barrier(mbarrier)
        barrier.bytes += size
        barrier.expected += size
        BLOCK.get().arrive(mbarrier, partition, 1, size)


def arrive(mbarrier: Buffer, *, count: Any = 1, pred: Any = True) -> None:
    """Arrive so many times."""
    partition = here()
    if value(pred):
        BLOCK.get().arrive(mbarrier, partition, value(count))


def wait(mbarrier: Buffer, phase: Any, pred: Any = True, deps: Any = ()) -> None:
    """Wait until the phase of this parity is complete."""
    if value(pred):
        BLOCK.get().wait(mbarrier, value(phase) & 1, PARTITION.get())


# TMA


class Descriptor:
    """A tensor descriptor: a tensor in global memory that is copied box by box."""

    def __init__(self, base: tl.tensor, shape: Any, strides: Any, block_shape: Any, layout: Any):
        self.base, self.layout = base, _plain(layout)
        self.shape, self.strides = values(shape), values(strides)
        self.block_shape = values(_plain(block_shape))
        self.dtype = base.dtype.element_ty
        self.block_type = tl.block_type(self.dtype, self.block_shape)

    @property
    def nbytes_per_cta(self) -> int:
        """The bytes of a box."""
        return math.prod(self.block_shape) * self.dtype.primitive_bitwidth // 8

    def box(self, coord: Sequence[Any]) -> tuple[tl.tensor, tl.tensor]:
        """Return the pointers of the box at these coordinates, and which are in the tensor."""
        size, rank = self.dtype.primitive_bitwidth // 8, len(self.block_shape)
        offset, inside = np.zeros([1] * rank, np.int64), np.ones([1] * rank, bool)
        for dim, start in enumerate(values(coord)):
            along = [-1 if dim == other else 1 for other in range(rank)]
            index = (start + np.arange(self.block_shape[dim])).reshape(along)
            offset = offset + index * self.strides[dim] * size
            inside = inside & (index >= 0) & (index < self.shape[dim])
        pointers = self.base.handle.data + offset.astype(np.uint64)
        return make_tensor(pointers, self.base.dtype), make_tensor(inside, tl.int1)

    def check(self, buffer: Buffer) -> None:
        """Raise ValueError if a buffer is not as the boxes are."""
        if (buffer.shape, buffer.dtype) != (self.block_shape, self.dtype):
            raise ValueError(
                f"a box of {self.dtype}, {self.block_shape}, and a buffer of {buffer.dtype}, "
                f"{buffer.shape}"
            )
        if buffer.layout != self.layout:
            raise ValueError(f"the descriptor has {self.layout}, the buffer {buffer.layout}")


def make_tensor_descriptor(
    base: tl.tensor,
    shape: Any,
    strides: Any,
    block_shape: Any,
    layout: Any,
    padding_option: Any = "",
) -> Descriptor:
    """Return a descriptor that the kernel makes."""
    return Descriptor(base, shape, strides, block_shape, layout)


def tma_load(
    tensor_desc: Descriptor,
    coord: Any,
    barrier: Buffer,
    result: Buffer,
    pred: Any = True,
    multicast: Any = False,
) -> None:
    """Copy a box to shared memory; its bytes arrive at the barrier. Outside the tensor are 0."""
    partition, block = here(), BLOCK.get()
    if not value(pred):
        return
    tensor_desc.check(result)
    state = block.barrier(barrier)
    state.issued += result.nbytes
    data = _load(*tensor_desc.box(coord), tensor_desc.dtype)
    phase = state.phase

    def finish() -> None:
        result.memory.data[result.ids] = data
        block.land(barrier, copy, phase, result.nbytes)

    copy = block.operation("the copy", partition, finish=finish, fetches=True)
    copy.late = lambda: (
        None if state.phase == phase else block.late(barrier, phase, result.nbytes, copy.place)
    )
    block.write(result, copy)
    block.turns.issue(copy)


def _load(pointers: tl.tensor, mask: tl.tensor, dtype: tl.dtype) -> np.ndarray:
    zeros = make_tensor(np.zeros(pointers.handle.data.shape, numpy_dtype(dtype)), dtype)
    mask = make_tensor(np.broadcast_to(mask.handle.data, pointers.handle.data.shape), tl.int1)
    loaded = builder.create_masked_load(
        pointers.handle, mask.handle, zeros.handle, None, None, False
    )
    return loaded.data


def tma_store(tensor_desc: Descriptor, coord: Any, src: Buffer) -> None:
    """Copy shared memory to a box; what lies outside the tensor is left out."""
    _leave(tensor_desc, coord, src, tl.store)


def tma_add(tensor_desc: Descriptor, coord: Any, src: Buffer) -> None:
    """Add shared memory to a box, atomically; what lies outside the tensor is left out."""
    _leave(tensor_desc, coord, src, tl.atomic_add)


def _leave(tensor_desc: Descriptor, coord: Any, src: Buffer, write: Callable) -> None:
    partition, block = here(), BLOCK.get()
    block.works(partition)
    tensor_desc.check(src)
    copy = block.operation("the copy", partition)
    block.read(src, copy)
    pointers, inside = tensor_desc.box(coord)
    mask = make_tensor(np.broadcast_to(inside.handle.data, pointers.handle.data.shape), tl.int1)
    # What it reads may not change before store_wait, so it may as well be read now.
    write(pointers, src.tensor(), mask=mask)
    block.turns.issue(copy)
    partition.stores.append(copy)


def store_wait(pendings: Any = 0) -> None:
    """Wait until at most so many copies to global memory read shared memory."""
    partition, left = here(), value(pendings)
    BLOCK.get().tell("store_wait", partition, amount=left)
    _wait_for(partition, partition.stores, left)


def _wait_for(partition: Partition, operations: list[Operation], left: int) -> None:
    """Complete all but the last operations of a queue, and take them out of it."""
    done = operations[: max(len(operations) - left, 0)]
    del operations[: len(done)]
    for operation in done:
        operation.complete()
        partition.follow(operation)


# cp.async


def async_copy(
    smem: Buffer,
    pointer: tl.tensor,
    mask: Any = None,
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> None:
    """Copy a tile of pointers to shared memory. Elements that are masked off become 0."""
    partition, block = here(), BLOCK.get()
    if smem.shape != values(pointer.shape):
        raise ValueError(f"pointers of {values(pointer.shape)}, and a buffer of {smem.shape}")
    inside = semantic.to_tensor(True if mask is None else mask)
    data = _load(pointer, inside, smem.dtype)

    def finish() -> None:
        smem.memory.data[smem.ids] = data

    copy = block.operation("the copy", partition, finish=finish, fetches=True)
    block.write(smem, copy)
    block.turns.issue(copy)
    partition.copies[-1].append(copy)


def commit_group() -> None:
    """End a group of copies."""
    here().copies.append([])


def wait_group(num_outstanding: Any = 0) -> None:
    """Wait until at most so many groups of copies are under way."""
    partition, left = here(), value(num_outstanding)
    BLOCK.get().tell("wait_group", partition, amount=left)
    *groups, _ = partition.copies
    partition.waited, partition.groups = (left, BLOCK.get().line), groups
    done = groups[: max(len(groups) - left, 0)]
    del partition.copies[: len(done)]
    for group in done:
        _wait_for(partition, group, 0)


def copies_arrive(mbarrier: Buffer, increment_count: Any = True) -> None:
    """Let all copies so far arrive at a barrier when they are done."""
    partition, block = here(), BLOCK.get()
    copies = [copy for group in partition.copies for copy in group]
    barrier = block.barrier(mbarrier)
    arrivals = 1 if value(increment_count) else 32 * partition.warps
    if value(increment_count):
        barrier.missing += 1

    def finish() -> None:
        for copy in copies:
            copy.complete()
            operation.follow(copy)
        block.arrive(mbarrier, operation, arrivals)

    operation = block.operation("the arrival", partition, finish=finish)
    block.turns.issue(operation)


# Tensor cores


class warpgroup_mma_accumulator:  # noqa: N801
    """A product under way: only another warpgroup_mma, or a wait for it, may take it."""

    def __init__(self, future: tl.tensor):
        self.future = future
        self.handle, self.type, self.dtype = future.handle, future.type, future.dtype
        self.shape = future.shape


def warpgroup_mma_init(value: tl.tensor) -> tl.tensor:
    """Return the accumulator of a sum that starts with this tile."""
    return value


class Sum(TensorHandle):
    """The elements of a product's result, which nobody may use before the product is waited for.

    coming: what they will be; product: the operation
    """

    def __init__(self, coming: np.ndarray, dtype: tl.dtype, product: Operation):
        self.product = product
        super().__init__(coming, dtype)

    @property
    def data(self) -> np.ndarray:
        """The elements. Raises Wrong if nothing has waited for the product."""
        BLOCK.get().use(self.product, PARTITION.get())
        return self.coming

    @data.setter
    def data(self, coming: np.ndarray) -> None:
        self.coming = coming


def warpgroup_mma(
    a: Any,
    b: Buffer,
    acc: Any,
    *,
    use_acc: Any = True,
    precision: Any = None,
    max_num_imprecise_acc: Any = None,
    is_async: Any = False,
) -> Any:
    """Return acc + a @ b, of which a may be a tile; asynchronously, it has to be waited for."""
    partition, block = here(), BLOCK.get()
    block.works(partition)
    last = partition.products[-1] if partition.products else None
    product = block.operation("the product", partition, after=last)
    for operand in (a, b):
        if isinstance(operand, Buffer):
            block.read(operand, product)
    left, right = (it.tensor() if isinstance(it, Buffer) else it for it in (a, b))
    before = acc.handle.coming if isinstance(acc.handle, Sum) else acc.handle.data
    if not value(use_acc):
        before = np.zeros_like(before)
    total = semantic.dot(left, right, make_tensor(before, acc.dtype), None, None, acc.dtype)
    future = tl.tensor(Sum(total.handle.data, acc.dtype, product), acc.type)
    block.turns.issue(product)
    partition.products.append(product)
    if value(is_async):
        return warpgroup_mma_accumulator(future)
    _wait_for(partition, partition.products, 0)
    return future


def warpgroup_mma_wait(num_outstanding: Any = 0, deps: Any = None) -> Any:
    """Wait until at most so many products are under way. Return the tiles of `deps`."""
    if deps is None:
        raise ValueError("warpgroup_mma_wait deps must be given")
    partition, left = here(), value(num_outstanding)
    BLOCK.get().tell("warpgroup_mma_wait", partition, amount=left)
    _wait_for(partition, partition.products, left)
    tiles = tuple(it.future if isinstance(it, warpgroup_mma_accumulator) else it for it in deps)
    return tiles[0] if len(tiles) == 1 else tiles


def mma_v2(a: Any, b: Any, acc: Any, input_precision: Any = None) -> tl.tensor:
    """Return acc + a @ b of tiles."""
    return semantic.dot(a, b, acc, _plain(input_precision), None, acc.dtype)


# Partitions


def warp_specialize(
    functions_and_args: Sequence[tuple[Callable, Sequence[Any]]],
    worker_num_warps: Sequence[Any],
    worker_num_regs: Sequence[Any] | None = None,
) -> Any:
    """Run functions side by side, each in warps of its own. Return what the first one returns."""
    block, main = BLOCK.get(), here()
    warps = [main.warps, *values(worker_num_warps)]
    if len(warps) != len(functions_and_args):
        raise ValueError(f"{len(functions_and_args)} functions, but {len(warps) - 1} warp counts")
    names = [function.__name__ for function, _ in functions_and_args]
    partitions, bodies = [], []
    for number, (function, args) in enumerate(functions_and_args):
        name = names[number] + (f" ({number})" if names.count(names[number]) > 1 else "")
        partition = Partition(name, warps=warps[number])
        partition.follow(main)
        partitions.append(partition)

        def body(
            partition: Partition = partition, function: Any = function, args: Any = args
        ) -> Any:
            PARTITION.set(partition)
            with np.errstate(all="ignore"):
                return function(*(it.value if isinstance(it, tl.constexpr) else it for it in args))

        bodies.append((partition, body))
    main.step()
    result = block.turns.run(bodies)
    for partition in partitions:
        main.follow(partition)
    return result


def num_warps() -> int:
    """Return of how many warps the partition is that calls."""
    return PARTITION.get().warps


def num_ctas() -> int:
    """Return 1: clusters are not supported here."""
    return 1


def thread_barrier(**options: Any) -> None:
    """Synchronise the threads of a partition, which are one here."""
    here()


def convert_layout(value: Any, layout: Any, assert_trivial: Any = False) -> Any:
    """Return the same values: layouts are transparent here."""
    return value


def full(shape: Any, value: Any, dtype: Any, layout: Any = None) -> tl.tensor:
    """Return a tile of one value."""
    return tl.full(_plain(shape), value, _plain(dtype))


def zeros(shape: Any, dtype: Any, layout: Any = None) -> tl.tensor:
    """Return a tile of zeros."""
    return full(shape, 0, dtype)


def full_like(
    input: Any, value: Any, shape: Any = None, dtype: Any = None, layout: Any = None
) -> tl.tensor:
    """Return a tile of one value, by default as large as another one and of its dtype."""
    return full(input.shape if shape is None else shape, value, dtype or input.dtype)


def zeros_like(input: Any, shape: Any = None, dtype: Any = None, layout: Any = None) -> tl.tensor:
    """Return a tile of zeros, by default as large as another one and of its dtype."""
    return full_like(input, 0, shape, dtype)


def to_tensor(value: Any) -> tl.tensor:
    """Return a number as a scalar."""
    return semantic.to_tensor(_plain(value))


def arange(start: Any, end: Any, layout: Any = None) -> tl.tensor:
    """Return the integers from start to end."""
    return tl.arange(start, end)


def store(*args: Any, **options: Any) -> None:
    """Store a tile to global memory."""
    BLOCK.get().works(PARTITION.get())
    tl.store(*args, **options)


def _named(*functions: Callable) -> dict[str, Callable]:
    return {it.__name__: it for it in functions}


_LANGUAGE = _named(
    allocate_shared_memory, arange, convert_layout, full, full_like, num_ctas, num_warps,
    store, thread_barrier, to_tensor, warp_specialize, zeros, zeros_like,
)  # fmt: skip
_LANGUAGE |= {"set_auto_layout": convert_layout, "barrier": thread_barrier, "dot_fma": mma_v2}
_BARRIERS = _named(allocate_mbarrier, init, invalidate, expect, arrive, wait)
_TMA: dict[str, Callable] = {
    "async_copy_global_to_shared": tma_load,
    "async_copy_shared_to_global": tma_store,
    "async_atomic_add": tma_add,
    **_named(store_wait, make_tensor_descriptor),
}
_COPIES: dict[str, Callable] = {
    "async_copy_global_to_shared": async_copy,
    "mbarrier_arrive": copies_arrive,
    **_named(commit_group, wait_group),
}
_HOPPER = _named(
    fence_async_shared, mma_v2, warpgroup_mma, warpgroup_mma_init, warpgroup_mma_wait
)  # fmt: skip

# What Gluon has from Triton 3.8 on. A kernel that asks whether it is there finds it here.
_LATER = {"async_atomic_add"}

# What stands in each of Gluon's modules here, under the names there.
_OWN: list[tuple[ModuleType, dict[str, Callable]]] = [
    (gl, _LANGUAGE),
    (ampere.mbarrier, _BARRIERS),
    (hopper.mbarrier, _BARRIERS),
    (hopper.tma, _TMA),
    (ampere.async_copy, _COPIES),
    (hopper, _HOPPER),
    (ampere, _named(mma_v2)),
]


def _of_triton(name: str) -> Callable:
    """Return the function of Triton's language, which a launch patches."""

    def call(*args: Any, **options: Any) -> Any:
        options.pop("layout", None)
        return getattr(tl, name)(*args, **options)

    call.__name__ = name
    return call


def install() -> None:
    """Replace the functions of Gluon's language in this process."""
    for name, member in inspect.getmembers(gl):
        plain = name.startswith("_") or inspect.ismodule(member) or name in _LANGUAGE
        if not plain and name == "static_range":
            gl.static_range = _of_triton(name)
        elif not plain and not inspect.isclass(member) and callable(getattr(tl, name, None)):
            setattr(gl, name, _of_triton(name))
    for module, functions in _OWN:
        for name, function in functions.items():
            if hasattr(module, name) or name in _LATER:
                setattr(module, name, function)
    # A tile has no layout here: whatever a kernel makes of one is as good as any other.
    tl.block_type.layout = gl.AutoLayout()
