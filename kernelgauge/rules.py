"""What a result may be, beyond the reference's numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The rules for the results of one function.

    results: names of the results, for messages, where there is more than one
    in_place: parameters that the subject changes; it then returns None
    exact: results must equal the reference's bit for bit (copies, gathers), not within tolerance;
        or the names of those results that must
    deterministic: two runs must agree bit for bit
    input_precision: "tf32" where float32 factors of a tl.dot may be rounded to tf32; "fp8" where
        the sums may be as exact as tensor cores make them of 8-bit floats
    gradients: the subject is differentiable. A case with `dout=` grades its one result and the
        gradient of each input, against autograd through the reference
    rounded_on_the_way: one more rounding to the input's dtype is allowed, as shipped code makes it
        of a normalized row before the weight, or of silu before the product
    ranks: the arguments are lists, with a tensor for each rank, which lie on all GPUs
    alike: the results of all ranks must agree bit for bit; or the names of those that must
    contiguous: results must be contiguous at the first level too, because layout is what it teaches
    capability: the only compute capability of a GPU that the kernels run on, as (9, 0)
    rounded: take more yardsticks, runs of the reference with every step rounded at random: for
        references in which large terms cancel between steps, as in attention's backward pass
    """

    results: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    exact: bool | tuple[str, ...] | None = None
    deterministic: bool = False
    input_precision: str | None = None
    gradients: bool = False
    rounded_on_the_way: bool = False
    ranks: bool = False
    alike: bool | tuple[str, ...] = False
    contiguous: bool = False
    capability: tuple[int, int] | None = None
    rounded: bool = False
