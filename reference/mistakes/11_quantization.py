"""Results of the puzzles of chapter 11 with one step done wrong."""

from pathlib import Path

import torch

from kernelgauge.core.paths import load
from kernelgauge.diagnosis.mistakes import half_precisions, named

matmul = load(Path(__file__).with_name("matmul.py"))

INT8, FLOAT8 = 127.0, 448.0


def scale_of(largest, limit):
    return torch.where(largest == 0, 1.0, largest / limit)


def as_int8(quotients):
    """Whole numbers as a cast to int8 leaves them: it keeps the low byte."""
    return (quotients.nan_to_num(0.0) + 128) % 256 - 128


def quantize_rows(x, blocks):
    N, largest = x.shape[1], x.abs().amax(1)
    scale = scale_of(largest, INT8)
    quotients = x / scale[:, None]

    def scaled(scale):
        """q and scale if this is the scale of each row, or of all."""
        scale = scale.expand(len(x))
        return as_int8((x / scale[:, None]).round()), scale

    for cause, q in (
        ("the quotient is truncated, as a cast does, instead of rounded", quotients.trunc()),
        ("the quotient is rounded down instead of to the nearest", quotients.floor()),
        (
            "halves are rounded away from zero instead of to even",
            (quotients.abs() + 0.5).floor() * quotients.sign(),
        ),
        ("halves are rounded up instead of to even", (quotients + 0.5).floor()),
        ("0.5 is added, and a cast then truncates towards zero", (quotients + 0.5).trunc()),
        ("x is multiplied by the scale instead of divided", (x * scale[:, None]).round()),
    ):
        yield cause, (as_int8(q), scale)
    single, limit = x.float(), largest.float()
    for reciprocal in (1 / scale_of(limit, INT8), INT8 / limit):
        q = (single * reciprocal[:, None]).round().double()
        yield (
            "x is multiplied by the reciprocal of the scale, which rounds twice",
            (as_int8(q), scale),
        )
    for other in (128.0, 255.0, 256.0, 127.5):
        cause = named("the maximum is divided by {other:g} instead of 127", other=other)
        yield cause, scaled(largest / other)
    signed = x.amax(1)
    yield "the maximum is that of x, not of its absolute values", scaled(scale_of(signed, INT8))
    positive = scale_of(signed.clamp(min=0), INT8)
    yield "the maximum is that of x, not of its absolute values", scaled(positive)
    for least in (1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5):
        cause = "the maximum of a row of zeros is kept above 0, so that its scale is not 1"
        yield cause, scaled(largest.clamp(min=least) / INT8)
    yield "the maximum of all rows is used for each of them", scaled(scale.max())
    yield "the scale of row 0 is used for every row", scaled(scale[0])
    if x.shape[0] == N:
        yield "the maximum is along the wrong axis", scaled(scale_of(x.abs().amax(0), INT8))
    for block in blocks:
        if block < N:
            first, last = x[:, :block], x[:, (N - 1) // block * block :]
            cause = "the maximum covers the first block only"
            yield cause, scaled(scale_of(first.abs().amax(1), INT8))
            cause = "the maximum covers the last block only"
            yield cause, scaled(scale_of(last.abs().amax(1), INT8))
    q = as_int8(quotients.round())
    yield "a row of zeros gets the scale 0 instead of 1", (q, largest / INT8)
    cause = "a row of zeros gets the scale 1 / 127 instead of 1"
    yield cause, (q, scale_of(largest, INT8).where(largest > 0, 1 / INT8))
    yield "the reciprocal of the scale is stored", (q, 1 / scale)
    yield "the maximum itself is stored as the scale", (q, largest)
    for name, cast in half_precisions():
        yield f"the scale is rounded to {name}", scaled(cast(scale))
        yield f"the scale is rounded to {name} where it is stored", (q, cast(scale))


def quantize_blocks(x, block, blocks):
    (M, N), (rows, columns) = x.shape, block
    padded = torch.nn.functional.pad(x, (0, -N % columns, 0, -M % rows))
    sizes = padded.abs().unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    largest = sizes.amax((1, 3))
    scale = scale_of(largest, FLOAT8)

    def everywhere(scale):
        """The scale of each element."""
        return scale.repeat_interleave(rows, 0)[:M].repeat_interleave(columns, 1)[:, :N]

    quotients = x / everywhere(scale)

    def scaled(scale):
        """q, not rounded yet, and scale if this is the scale of each block."""
        scale = scale.expand_as(largest)
        return x / everywhere(scale), scale

    yield "the quotient is rounded toward zero", (towards_zero(quotients), scale)
    yield "x is multiplied by the scale instead of divided", (x * everywhere(scale), scale)
    for other in (127.0, 240.0, 256.0, 464.0, 480.0, 57344.0):
        cause = named("the maximum is divided by {other:g} instead of 448", other=other)
        yield cause, scaled(largest / other)
    signed = padded.unflatten(1, (-1, columns)).unflatten(0, (-1, rows)).amax((1, 3))
    for maximum in (signed, signed.clamp(min=0)):
        cause = "the maximum is that of x, not of its absolute values"
        yield cause, scaled(scale_of(maximum, FLOAT8))
    for dim, all_of in ((1, "a row"), (0, "a column")):
        cause = f"the blocks of {all_of} share the maximum of all of them"
        yield cause, scaled(scale.amax(dim, keepdim=True))
    yield "the scale of the first block is used for every block", scaled(scale[:1, :1])
    if rows > 1:
        alone = scale_of(sizes.amax(3).flatten(0, 1)[:M], FLOAT8).repeat_interleave(columns, 1)
        cause = "each row of a block is divided by a scale of its own"
        yield cause, (x / alone[:, :N], None)
    turned = scale.T.reshape(scale.shape)
    yield "the scales are stored column by column", (None, turned)
    yield "the reciprocal of the scale is stored", (None, 1 / scale)
    yield "the maximum itself is stored as the scale", (None, largest)
    yield "a block of zeros gets the scale 0 instead of 1", (None, largest / FLOAT8)
    for name, cast in half_precisions():
        yield f"the scale is rounded to {name}", scaled(cast(scale))
        quotients = cast(cast(x) / cast(everywhere(scale))).clamp(-FLOAT8, FLOAT8)
        yield f"the quotient is computed in {name}", (quotients, None)


def towards_zero(x):
    """x rounded toward zero to the fraction of float8_e4m3fn: 3 bits, or steps of 2**-9."""
    step = torch.ldexp(torch.ones_like(x), (torch.frexp(x).exponent - 4).clamp(min=-9))
    return (x / step).trunc() * step


def int8_matmul(x, weight, x_scale, weight_scale, out_dtype, blocks):
    x, columns = x.double(), weight.double().mT
    scales = x_scale[:, None] * weight_scale
    for cause, total in matmul.along_k(x, columns, blocks, ("x", "weight")):
        yield cause, (total * scales,)
    total = x @ columns
    for bits in (8, 16):
        half = 2 ** (bits - 1)
        wrapped = (total + half) % (2 * half) - half
        cause = named(
            "the sums wrap around in {bits} bits: products of int8 add up in int32", bits=bits
        )
        yield cause, (wrapped * scales,)
    for name, cast in half_precisions():
        cause = f"the sum is rounded to {name} before it is scaled"
        yield cause, (cast(total) * scales,)
        yield (
            f"the scales are rounded to {name}",
            (total * cast(x_scale)[:, None] * cast(weight_scale),),
        )
    for block in blocks:
        if 1 < block < x.shape[1] <= 256 * block:
            rounded = 0.0
            for part, other in zip(x.split(block, 1), columns.split(block), strict=True):
                rounded = (rounded + part @ other).float().double()
            cause = "the sums are kept in float32, which loses odd numbers from 2**24 on"
            yield cause, (rounded * scales,)
            for inside, after in (
                (scales, 1.0),
                (x_scale[:, None], weight_scale),
                (weight_scale, x_scale[:, None]),
            ):
                kept = 0.0
                for part, other in zip(x.split(block, 1), columns.split(block), strict=True):
                    kept = (kept + part @ other) * inside
                cause = "the sum so far is scaled again in every step of the loop"
                yield cause, (kept * after,)
    yield (
        "the scales are added up instead of multiplied",
        (total * (x_scale[:, None] + weight_scale),),
    )
    yield "the sums are divided by the scales instead of multiplied", (total / scales,)
    yield "the scale of row 0 of x is used for every row", (total * x_scale[0] * weight_scale,)
    yield (
        "the scale of row 0 of weight is used for every column",
        (total * x_scale[:, None] * weight_scale[0],),
    )
    if len(x_scale) == len(weight_scale):
        yield "x_scale and weight_scale are exchanged", (total * weight_scale[:, None] * x_scale,)


def int4_matmul(x, weight, scale, zero, blocks):
    (N, groups), K = scale.shape, x.shape[1]
    low, high = (weight & 15).double(), (weight >> 4).double()
    zero = zero.double()

    def per_weight(of_groups):
        return of_groups.repeat_interleave(K // groups, 1)

    def joined(first, second):
        return torch.stack((first, second), -1).flatten(1)

    q = joined(low, high)
    minus_zero, scales = q - per_weight(zero), per_weight(scale)

    def product(dequantized):
        return (x @ dequantized.mT,)

    yield (
        "the high four bits of a byte are taken for the first of its two weights",
        product((joined(high, low) - per_weight(zero)) * scales),
    )
    for half in (block // 2 for block in (*blocks, 2 * low.shape[1]) if low.shape[1] % block == 0):
        if half > 1 and low.shape[1] % half == 0:
            parts = zip(low.split(half, 1), high.split(half, 1), strict=True)
            beside = torch.cat([half for pair in parts for half in pair], 1)
            cause = (
                "the low halves of a tile's bytes stand before the high halves, not between them"
            )
            yield cause, product((beside - per_weight(zero)) * scales)
    signed = (q + 8) % 16 - 8
    cause = "the four bits are taken for a number with a sign, -8 to 7"
    yield cause, product((signed - per_weight(zero)) * scales)
    yield cause, product(signed * scales)
    yield (
        "q - zero wraps around in uint8: convert before you subtract",
        product(minus_zero % 256 * scales),
    )
    yield "the zero points are left out", product(q * scales)
    yield "8 is subtracted instead of the zero point", product((q - 8) * scales)
    yield "the zero point is added instead of subtracted", product((q + per_weight(zero)) * scales)
    yield (
        "the zero point is subtracted after the scale is applied",
        product(q * scales - per_weight(zero)),
    )
    yield "the scales are left out", product(minus_zero)
    yield (
        "only the low four bits of each byte are used",
        product((joined(low, low) - per_weight(zero)) * scales),
    )
    for which, group in (("first", 0), ("last", groups - 1)):
        one = per_weight(scale[:, [group]].expand(N, groups))
        cause = f"the scale of the {which} group is used for every group"
        yield cause, product(minus_zero * one)
        yield (
            f"{cause}, and so is its zero point",
            product((q - per_weight(zero[:, [group]].expand(N, groups))) * one),
        )
        yield (
            f"the zero point of the {which} group is used for every group",
            product((q - per_weight(zero[:, [group]].expand(N, groups))) * scales),
        )
    for cause, wrong in matmul.along_k(x, (minus_zero * scales).mT, blocks, ("x", "weight")):
        yield cause, (wrong,)


def fp8_matmul(x, weight, x_scale, weight_scale, out_dtype, blocks):
    (N, K), length = weight.shape, x_scale.shape[1]
    columns = weight_scale.repeat_interleave(128, 0)[:N]

    def product(rows, columns):
        """The result if these are the scales of x (M, blocks) and of weight (N, blocks)."""
        left, right = (it.repeat_interleave(128, 1)[:, :K] for it in (rows, columns))
        return ((x * left) @ (weight * right).mT,)

    sums = [a @ b.mT for a, b in zip(x.split(128, 1), weight.split(128, 1), strict=True)]
    scales = [x_scale[:, [b]] * columns[:, b] for b in range(length)]
    for which, block in (("first", 0), ("last", length - 1)):
        both = x_scale[:, [block]].expand(-1, length), columns[:, [block]].expand(-1, length)
        cause = f"the whole sum is scaled, by the scales of the {which} block"
        yield cause, product(*both)
        cause = f"the scale of the {which} block of {{}} is used for every block"
        yield cause.format("x"), product(both[0], columns)
        yield cause.format("weight"), product(x_scale, both[1])
    yield "no block is scaled", product(torch.ones_like(x_scale), torch.ones_like(columns))
    for block in blocks:
        if block != 128 and 1 < block < N:
            number = torch.arange(N) // block
            inside = number.clamp(max=len(weight_scale) - 1)
            cause = named(
                "the row of weight_scale is n // {block} instead of n // 128", block=block
            )
            yield cause, product(x_scale, weight_scale[inside])
    again = 0.0
    for part, scale in zip(sums, scales, strict=True):
        again = (again + part) * scale
    yield "the sum so far is scaled again in every block", (again,)
    yield (
        "the sums are divided by the scales instead of multiplied",
        product(1 / x_scale, 1 / columns),
    )
    for name, cast in half_precisions():
        total = within = 0.0
        for part, scale in zip(sums, scales, strict=True):
            total = cast(total + part * scale)
            within = within + cast(part) * scale
        yield f"the sum over the blocks is accumulated in {name} instead of float32", (total,)
        yield f"the sum of a block is rounded to {name}", (within,)
        yield f"the scales are rounded to {name}", product(cast(x_scale), cast(columns))
    left, right = (it.repeat_interleave(128, 1)[:, :K] for it in (x_scale, columns))
    for cause, wrong in matmul.along_k(x * left, (weight * right).mT, blocks, ("x", "weight")):
        yield cause, (wrong,)
