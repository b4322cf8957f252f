"""Results of the puzzles of chapter 11 with one step done wrong."""

import torch

from judge.diagnosis.mistakes import half_precisions

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
        ("x is multiplied by the scale instead of divided", (x * scale[:, None]).round()),
    ):
        yield cause, (as_int8(q), scale)
    for other in (128.0, 255.0, 256.0, 127.5):
        yield f"the maximum is divided by {other:g} instead of 127", scaled(largest / other)
    signed = x.amax(1)
    yield "the maximum is that of x, not of its absolute values", scaled(scale_of(signed, INT8))
    positive = scale_of(signed.clamp(min=0), INT8)
    yield "the maximum is that of x, not of its absolute values", scaled(positive)
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
    yield "the reciprocal of the scale is stored", (q, 1 / scale)
    yield "the maximum itself is stored as the scale", (q, largest)
    for name, cast in half_precisions():
        yield f"the scale is rounded to {name}", scaled(cast(scale))
        yield f"the scale is rounded to {name} where it is stored", (q, cast(scale))
