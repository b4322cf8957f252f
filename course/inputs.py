"""What the tests give to a puzzle: named cases, dtypes, and inputs seeded per case.

Inputs are made on the device that the run grades on. The same case gets the same numbers on every
run, in every order of tests and on every xdist worker; two cases never share a stream.
"""

from __future__ import annotations

import inspect
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest
import torch

from kernelgauge.core import gpus
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured

# The dtypes of most specs: all of their inputs have one of these.
FLOATS = ("float32", "float16", "bfloat16")
HALVES = ("float16", "bfloat16")
# What indices may be, and what is copied.
INDICES = ("int64", "int32")
REAL = (*FLOATS, "float64", "bool", "uint8", "uint16", "int8", "int16", "int32", "int64")

# Whether inputs are only as large as drawn ones, where nothing depends on what they hold.
are_hollow = False
# Bytes of the largest of them.
MAX_HOLLOW = 2**30

_generators: dict[str, torch.Generator] = {}
_case = ""

# The compute capability from which on a GPU computes in a dtype, where not all of them do.
LEAST_CAPABILITY = {torch.bfloat16: (8, 0), torch.float8_e4m3fn: (8, 9)}

# Above this many elements numbers are drawn on the device: on the CPU that takes seconds.
DRAW_ON_DEVICE = 2**24


def seed(case: str) -> None:
    """Start the streams of random numbers of the test that has this id."""
    global _case
    _case = case
    _generators.clear()


def cases(**sets: object) -> Callable:
    """Parametrize a test over named cases: the name says which bug the case catches.

    The values of a case go to the first parameters of the test, in order.
    """

    def decorate(test: Callable) -> Callable:
        rows = {
            name: value if isinstance(value, tuple) else (value,) for name, value in sets.items()
        }
        width = {len(row) for row in rows.values()}
        if len(width) != 1:
            raise TypeError(f"the cases of {test.__name__} have different numbers of values")
        names = list(inspect.signature(test).parameters)[: width.pop()]
        return pytest.mark.parametrize(names, list(rows.values()), ids=list(rows))(test)

    return decorate


def dtypes(*names: str) -> Callable:
    """Parametrize a test over `dtype`, the names of torch dtypes."""
    return pytest.mark.parametrize("dtype", names)


def parameters_of(test: Callable) -> Iterator[tuple[str, dict]]:
    """Yield the id and the parameters of each case that `cases` and `dtypes` made of a test."""
    axes = []
    for mark in getattr(test, "pytestmark", []):
        names, rows = mark.args
        if isinstance(names, str):
            names, rows = [names], [(row,) for row in rows]
        labels = mark.kwargs.get("ids") or ["-".join(map(str, row)) for row in rows]
        values = [dict(zip(names, row, strict=True)) for row in rows]
        axes.append(list(zip(labels, values, strict=True)))
    for combined in itertools.product(*axes):
        merged: dict[str, Any] = {}
        for _, row in combined:
            merged |= row
        yield "-".join(label for label, _ in combined), merged


def multiprocessors() -> int:
    """How many multiprocessors the GPU has that grades; 4 in the interpreter."""
    return settings.multiprocessors


def randn(*shape: int, dtype: str | torch.dtype = "float32") -> torch.Tensor:
    """Numbers of the standard normal distribution."""
    dtype = _dtype(dtype)
    if are_hollow:
        return _hollow(shape, dtype)
    drawn = torch.complex64 if dtype.is_complex else torch.float32
    return _draw(torch.randn, shape, dtype=drawn).to(settings.device, dtype)


def uniform(
    *shape: int, low: float = 0.0, high: float = 1.0, dtype: str | torch.dtype = "float32"
) -> torch.Tensor:
    """Numbers spread evenly over [low, high)."""
    if are_hollow:
        return _hollow(shape, _dtype(dtype))
    return (_draw(torch.rand, shape) * (high - low) + low).to(settings.device, _dtype(dtype))


def integers(
    *shape: int, low: int = -4, high: int = 5, dtype: str | torch.dtype = "float32"
) -> torch.Tensor:
    """Whole numbers of [low, high), in any dtype: small ones make sums and products exact."""
    return _draw(torch.randint, low, high, shape, dtype=torch.int64).to(
        settings.device, _dtype(dtype)
    )


def tensor(values: object, dtype: str | torch.dtype = "float32") -> torch.Tensor:
    """These very values."""
    return torch.tensor(values, dtype=_dtype(dtype), device=settings.device)


def matrices(
    M: int, N: int, K: int, dtype: str | torch.dtype = "float32", make: Callable = randn
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two factors of a matrix product: a (M, K) and b (K, N)."""
    return make(M, K, dtype=dtype), make(K, N, dtype=dtype)


def groups(
    sizes: Sequence[int],
    N: int,
    K: int,
    dtype: str | torch.dtype = "float32",
    make: Callable = integers,
    index: str = "int32",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Groups of so many rows, each with a factor of its own, of whole numbers by default.

    Returns a (T, K), b (G, K, N), and ends (G,): the row of a that each group ends before.
    """
    a, b = make(sum(sizes), K, dtype=dtype), make(len(sizes), K, N, dtype=dtype)
    return a, b, tensor(list(itertools.accumulate(sizes)), index)


def climbing(M: int, K: int, dtype: str | torch.dtype, by: int = 120) -> torch.Tensor:
    """M rows of K whole numbers whose sum climbs to by * K / 2 and comes back to near 0.

    by: about the size of each number, at most 252, so that each is exact in bfloat16. With 120,
        sums in 16 bits lose odd numbers on the way even if they have 32 terms only
    """
    x = integers(M, K, dtype=dtype)
    x[:, : K // 2] += by
    x[:, K // 2 :] -= by
    return x


def heads(
    B: int,
    H: int,
    Hkv: int,
    S: int,
    T: int,
    D: int,
    dtype: str | torch.dtype = "float16",
    make: Callable = randn,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The inputs of attention: q (B, H, S, D), k and v (B, Hkv, T, D)."""
    q = make(B, H, S, D, dtype=dtype)
    return q, make(B, Hkv, T, D, dtype=dtype), make(B, Hkv, T, D, dtype=dtype)


def paged_cache(
    lengths: Sequence[int],
    page: int,
    Hkv: int,
    D: int,
    dtype: str | torch.dtype = "float16",
    fill: float = float("nan"),
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A KV cache of pages for sequences of these lengths.

    fill: what the rows hold that no token was stored to, as memory of torch.empty may hold NaN

    Returns key_cache and value_cache (P, page, Hkv, D), block_tables (B, W) and lengths (B,), both
    int32. The pages of a sequence are scattered; page 0 is none of them. Entries past the last page
    of a sequence are no page numbers.
    """
    counts = [-(-length // page) for length in lengths]
    P = sum(counts) + 2
    keys, values = (randn(P, page, Hkv, D, dtype=dtype) for _ in range(2))
    scattered = iter([*range(1, P, 2), *range(2, P, 2)])
    tables = torch.full((len(counts), max(counts) + 2), -7)
    tables[:, -1] = 2**31 - 1
    stored = torch.zeros(P, page, dtype=torch.bool)
    for row, (count, length) in enumerate(zip(counts, lengths, strict=True)):
        numbers = torch.tensor([next(scattered) for _ in range(count)], dtype=torch.int64)
        tables[row, :count] = numbers
        place = torch.arange(length)
        stored[numbers[place // page], place % page] = True
    for cache in (keys, values):
        cache[~stored.to(cache.device)] = fill
    return keys, values, tensor(tables.tolist(), "int32"), tensor(list(lengths), "int32")


def sampling(
    logits: torch.Tensor, k: int, temperature: float = 1.0, p: float = 1.0
) -> tuple[torch.Tensor, int, float, float]:
    """Return uniform (B,), k, temperature and p that keep clear of the borders of any decision.

    uniform: as `_drawn_near_a_border` has it
    p: moved by up to a tenth, so that it is not near the mass of the most likely tokens of any row
    """
    x = logits.double() / temperature
    largest = x.topk(min(k, x.shape[1])).values
    w = torch.softmax(x.masked_fill(x < largest[:, -1:], float("-inf")), dim=1)
    if p < 1:
        likely = w.sort(dim=1, descending=True).values[:, : (w > 0).sum(1).max()]
        masses = likely.cumsum(1)
        near = p + 0.1 * min(p, 1 - p) * torch.linspace(
            -1, 1, 101, dtype=torch.float64, device=w.device
        )
        p = near[(masses[:, :, None] - near).abs().amin((0, 1)).argmax()].item()
        last = likely.gather(1, (masses < p).sum(1, keepdim=True))
        w = torch.where(w >= last, w, 0)
    return _drawn_near_a_border(w), k, temperature, p


def speculation(
    accepted: Sequence[int], K: int, V: int, drafted: int | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Drafts of which so many are accepted in each row, and most after the first refusal would be.

    drafted: how many of the K there are; -1 stands for the others

    Returns draft_tokens (B, K), draft_probs (B, K, V), target_probs (B, K + 1, V), uniform
    (B, K + 1). No decision is near its border.
    """
    B = len(accepted)
    q, p = (torch.softmax(2 * randn(B, size, V), dim=2) for size in (K, K + 1))
    count = tensor(list(accepted), "int64")
    drafted = K if drafted is None else drafted
    past = torch.arange(K, device=q.device) - count[:, None]
    refused = (past == 0) | ((past > 0) & (past % 3 == 2))
    ratio = p[:, :K] / q
    likely = torch.where(ratio > 0.1, q, 0).argmax(2)
    drafts = torch.where(refused, ratio.argmin(2), likely)
    limit = ratio.gather(2, drafts[:, :, None])[:, :, 0].clamp(max=1)
    u = torch.where(refused, (1 + limit) / 2, limit / 2)
    rows = torch.arange(B, device=q.device)
    drafts[:, drafted:] = -1
    minus = torch.where(count[:, None] < drafted, q[rows, count.clamp(max=K - 1)], 0)
    drawn = _drawn_near_a_border((p[rows, count].double() - minus).clamp(min=0))
    return drafts, q, p, torch.cat((u, drawn[:, None]), dim=1)


def _drawn_near_a_border(w: torch.Tensor) -> torch.Tensor:
    """Return for each row of weights (B, V) a number in [0, 1) that draws one of its tokens.

    It is at the beginning of what falls to the token in even rows, at the end in odd rows, so that
    a token too many or too few shows: 2e-4 away from the border, and for tokens of 5e-4 or more.
    """
    running = w.cumsum(1)
    enough = torch.where(w / running[:, -1:] < 5e-4, 0, w)
    drawn = torch.multinomial(enough.cpu(), 1, generator=_host()).to(w.device)
    share, end = (x.gather(1, drawn)[:, 0] / running[:, -1] for x in (w, running))
    is_end = torch.arange(len(end), device=end.device) % 2 == 1
    return torch.where(is_end, end - 2e-4, end - share + 2e-4).float()


def heads_and_dout(
    B: int, H: int, Hkv: int, S: int, T: int, D: int, dtype: str | torch.dtype = "float16"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k and v as `heads` gives them, and dout (B, H, S, D), the gradient of the result."""
    q, k, v = heads(B, H, Hkv, S, T, D, dtype)
    return q, k, v, randn(*q.shape, dtype=dtype)


def rising_scores(
    q: torch.Tensor, k: torch.Tensor, slope: float = 0.1
) -> tuple[torch.Tensor, torch.Tensor]:
    """q (B, H, S, D) and k (B, Hkv, T, D), changed so that scores rise from each key to the next.

    A key that is too late by one, and not masked, wins against all others. Where the slope is
    negative the scores fall, and the earlier key wins.
    """
    ramp = slope * tensor(range(k.shape[2]), k.dtype)[:, None]
    return q.abs() + 0.5, k / 5 + ramp


def attention_saved(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dout: torch.Tensor,
    scale: float | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, ...]:
    """q, k, v and dout, and the lse and delta (B, H, S), float32, that belong to them."""
    wide = [x.double() for x in (q, k, v, dout)]
    k_heads, v_heads = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in wide[1:3])
    scores = wide[0] @ k_heads.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        scores += torch.full_like(scores, float("-inf")).triu(1)
    out = torch.softmax(scores, dim=-1) @ v_heads
    return q, k, v, dout, torch.logsumexp(scores, dim=-1).float(), (out * wide[3]).sum(-1).float()


def expert_blocks(
    experts: torch.Tensor, num_experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Assignments in the order of their experts, each expert padded to whole blocks.

    experts: integers (N,), the expert of each assignment, -1 where it is dropped
    Returns order (blocks * block,), where N stands for padding, and the expert of each block, -1
    where it is unused, both int32; there are as many blocks as N assignments may need.
    """
    N = experts.numel()
    least = min(N, num_experts)
    blocks = least + (N - least) // block
    members = [(experts == expert).nonzero()[:, 0] for expert in range(num_experts)]
    padded = [torch.nn.functional.pad(x, (0, -len(x) % block), value=N) for x in members]
    order, owners = torch.cat(padded), [e for e, x in enumerate(padded) for _ in x[::block]]
    unused = blocks - len(owners)
    order = torch.nn.functional.pad(order, (0, unused * block), value=N)
    return order.to(torch.int32), tensor(owners + [-1] * unused, torch.int32)


def large_at_the_end(a: torch.Tensor, b: torch.Tensor, *others: Any) -> tuple[Any, ...]:
    """a (..., M, K) and b (..., K, N), changed so that the last term of each sum is a large one.

    A sum of thousands of terms hides one that is left out, where factors may be rounded to tf32.
    """
    a[..., -1], b[..., -1, :] = 16, 16
    return a, b, *others


def last_key_wins(q: torch.Tensor, k: torch.Tensor, *others: Any) -> tuple[Any, ...]:
    """q (B, H, S, D) and k (B, Hkv, T, D), changed so that the last key wins against all others."""
    k[..., -1, :] = 2
    return q.abs() + 0.5, k, *others


def ends_win(q: torch.Tensor, k: torch.Tensor, *others: Any) -> tuple[Any, ...]:
    """q (B, H, S, D) and k (B, Hkv, T, D), changed so that the first and the last key win.

    They share the probabilities unequally: a gradient that lacks one of them is a different one.
    """
    k[..., 0, :], k[..., -1, :] = 2, 2.2
    return q.abs() + 0.5, k, *others


def along(x: torch.Tensor, dim: int, *shape: int) -> torch.Tensor:
    """x (N,) along one dimension of this shape, and the same all over the others, by strides of 0.

    With `far_apart` it puts large offsets along one dimension of a tensor.
    """
    index = tuple(slice(None) if d == dim else None for d in range(len(shape)))
    return x[index].expand(shape)


def strided(x: torch.Tensor, *steps: int) -> torch.Tensor:
    """x in memory of its own whose neighbours along dimension i lie steps[i] elements apart.

    The gaps between them belong to no tensor, as in `large[:, ::2]`.
    """
    extent = [size * step for size, step in zip(x.shape, steps, strict=True)]
    spread = torch.zeros(extent, dtype=x.dtype, device=x.device)
    view = spread[tuple(slice(None, None, step) for step in steps)]
    return view.copy_(x)


def backwards(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors with their dimensions in the opposite order: contiguous if but one is not 1."""
    return tuple(x.permute(*reversed(range(x.dim()))) for x in tensors)


def ranks(
    R: int, *shape: int, dtype: str | torch.dtype = "float32", make: Callable = randn
) -> list[torch.Tensor]:
    """A tensor of this shape for each of R ranks: see `spread`."""
    return spread(make(*shape, dtype=dtype) for _ in range(R))


def spread(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, contiguous, that of rank r on GPU r modulo their number."""
    made = list(tensors)
    return made if settings.device == "cpu" else gpus.spread(made)


def offset(x: torch.Tensor, elements: int = 1) -> torch.Tensor:
    """x, contiguous, beginning this many elements into its storage: not aligned to 16 bytes."""
    memory = torch.zeros(x.numel() + elements, dtype=x.dtype, device=x.device)
    return memory[elements:].view(x.shape).copy_(x)


def far_apart(x: torch.Tensor, last: int = 2**31) -> torch.Tensor:
    """x (N,) with its elements so far apart that the last offset is at least `last`.

    By default it needs more than 31 bits. The memory between the elements is never touched: see
    `reserve`. x of 3 float16 elements asks for 4 GiB.
    """
    step = last // (x.numel() - 1) + 1
    return reserve(step * (x.numel() - 1) + 1, x.dtype)[::step].copy_(x)


def reserve(size: int, dtype: str | torch.dtype) -> torch.Tensor:
    """So many elements, of memory that is asked for. On the host nobody has touched it, so that it
    costs nothing; on a GPU it is zero.

    Raises NotMeasured where the system will not promise it.
    """
    make = torch.empty if settings.device == "cpu" else torch.zeros
    try:
        return make(size, dtype=_dtype(dtype), device=settings.device)
    except (RuntimeError, torch.OutOfMemoryError) as error:
        raise NotMeasured(f"this machine has too little memory: {error}") from None


def _hollow(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    size = torch.Size(shape).numel()
    if size * dtype.itemsize > MAX_HOLLOW:
        raise NotMeasured("speed takes a GPU, and these inputs are too large for an estimate")
    return reserve(size, dtype).view(shape)


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    """The torch dtype of this name. Raises NotMeasured where the GPU does not compute in it."""
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    needed, has = LEAST_CAPABILITY.get(dtype), settings.capability
    if needed and has and has < needed:
        raise NotMeasured(
            f"{dtype_name(dtype)} takes a GPU of compute capability {needed[0]}.{needed[1]}, this "
            f"one has {has[0]}.{has[1]}: the interpreter grades it, set TRITON_INTERPRET=1"
        )
    return dtype


def _host() -> torch.Generator:
    """Return the stream of random numbers on the host."""
    if "cpu" not in _generators:
        _generators["cpu"] = torch.Generator("cpu").manual_seed(zlib.crc32(_case.encode()))
    return _generators["cpu"]


def _draw(draw: Callable, *arguments: Any, **options: Any) -> torch.Tensor:
    shape = arguments[-1]
    large = torch.Size(shape).numel() >= DRAW_ON_DEVICE
    device = settings.device if large else "cpu"
    if device not in _generators:
        _generators[device] = torch.Generator(device).manual_seed(zlib.crc32(_case.encode()))
    return draw(*arguments, generator=_generators[device], device=device, **options)
