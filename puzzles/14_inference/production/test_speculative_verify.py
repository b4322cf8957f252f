"""Tests of 14.5, speculative verification, in production."""

from course.challenge import challenge
from course.inputs import along, cases, far_apart, offset, speculation, strided, tensor, uniform
from course.values import special_values

puzzle = challenge("speculative_verify", results=("tokens", "accepted"))


def wrong(names, **changed):
    """Check that a call with these arguments changed raises an error that names one of them."""
    order = ("draft_tokens", "draft_probs", "target_probs", "uniform")
    inputs = dict(zip(order, speculation([0, 2], 2, 50), strict=True)) | changed
    puzzle.check_or_raises(*inputs.values(), names=names, answer=False)


# Bad input.


def test_shapes_draft_tokens():
    drafts, q, p, u = speculation([0, 2], 2, 50)
    wrong("draft_tokens", draft_tokens=drafts[0])
    wrong("draft_tokens", draft_tokens=drafts.float())
    puzzle.check_or_raises(
        drafts[:, :0], q[:, :0], p[:, :1], u[:, :1], names="draft_tokens", answer=False
    )


def test_shapes_draft_probs():
    _, q, _, _ = speculation([0, 2], 2, 50)
    wrong("draft_probs", draft_probs=q[:, :1])
    wrong("draft_probs", draft_probs=q[0])
    wrong("draft_probs", draft_probs=q.double())


def test_shapes_target_probs():
    _, _, p, _ = speculation([0, 2], 2, 50)
    wrong("target_probs", target_probs=p[:, :2])
    wrong("target_probs", target_probs=p[:, :, :40])
    wrong("target_probs", target_probs=p.half())


def test_shapes_uniform():
    *_, u = speculation([0, 2], 2, 50)
    wrong("uniform", uniform=u[:, :2])
    wrong("uniform", uniform=u[:1])
    wrong("uniform", uniform=u.half())


# Fewer drafts, and any layout.


@cases(none=([0, 0], 0), two=([2, 2, 1, 0], 2))
def test_masks_fewer_drafts(accepted, count):
    puzzle.check(*speculation(accepted, 4, 300, drafted=count))


def test_masks_integers_of_32_bits():
    drafts, *others = speculation([0, 1, 2, 3], 3, 300)
    puzzle.check(drafts.int(), *others)


def test_masks_every_stride():
    drafts, q, p, u = speculation([0, 1, 2, 3], 3, 300)
    inputs = strided(drafts, 2, 3), strided(q, 1, 2, 3), strided(p, 3, 1, 2), strided(u, 2, 2)
    puzzle.check(*inputs)


def test_masks_transposed():
    puzzle.check(*(x.mT.contiguous().mT for x in speculation([0, 1, 2, 3], 3, 300)))


def test_masks_unaligned():
    puzzle.check(*(offset(x) for x in speculation([0, 1, 2, 3], 3, 300)))


def test_masks_more_requests_than_axis_1_takes():
    drafts, q, p, u = speculation([1], 1, 3)
    many = (x.expand(70_000, *x.shape[1:]) for x in (drafts, q, p, u))
    puzzle.check_grid(*many)


@cases(draft_probs=1, target_probs=2)
def test_masks_offsets_beyond_32_bits(which):
    for dim in range(3):
        inputs = list(speculation([3, 3, 3], 3, 4))
        size = inputs[which].shape[dim]
        # All drafts are taken, and the last token has all of the mass.
        far = far_apart(uniform(size, low=0.3, high=0.4))
        inputs[which] = along(far, dim, *inputs[which].shape)
        inputs[3] = inputs[3] * 0 + 0.4
        puzzle.check(*inputs)


def test_masks_the_launcher_reads_nothing_back():
    puzzle.check(*speculation([0, 1, 2, 3], 3, 300), scalars=0)


def test_masks_limits():
    def build(B, K, V):
        drafts, q, p, u = speculation([K] * B, K, V)
        # The last token is drawn.
        p[:, K, -1], u[:, K] = 1000.0, 0.5
        return drafts, q, p, u

    puzzle.limits(build, B=2**14, K=2**10, V=range(4, 2**18))


# Any value.


@cases(first=0.0, last=1 - 2**-24)
def test_numerics_ends_of_uniform(end):
    drafts, q, p, u = speculation([2, 2], 2, 5000)
    p[:, 2, :3] = p[:, 2, -3:] = 0.0
    u[:, 2] = end
    puzzle.check(drafts, q, p, u)


def test_numerics_uniform_of_0():
    # Even so, a draft that the target never says is refused.
    drafts, q, p, u = speculation([0, 0], 1, 300)
    p[:, 0].scatter_(1, drafts, 0.0)
    u[:, 0] = 0.0
    puzzle.check(drafts, q, p, u)


# What no row has that adds up to about 1. Some of 40 weights stay above 0: else the draw is free.
ABOVE_1 = ("nan", "inf", "minus_inf", "largest", "large")
test_numerics_each_special_value = special_values(
    puzzle,
    lambda: speculation([0, 1, 2, 3], 3, 40),
    "draft_probs target_probs uniform",
    apart={
        "draft_probs": (*ABOVE_1, "constant"),
        "target_probs": (*ABOVE_1, "constant"),
        "uniform": ABOVE_1,
    },
)


# Sums are exact, so that the spec alone says on which side of a border a tie is.
QUARTERS, HALVES = [0.25] * 4, [0.5, 0.25, 0.25, 0.0]


@cases(
    refused=(0, HALVES, QUARTERS, 0.5, 0.5),
    taken_and_drawn_past_a_half=(1, HALVES, QUARTERS, 0.5, 0.5),
    drawn_past_zeros=(2, QUARTERS, [0.0, 0.0, 0.5, 0.5], 0.25, 0.5),
    refused_and_drawn_past_a_half=(0, [1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5], 0.0, 0.5),
)
def test_numerics_ties(draft, q, p, u, u_of_the_draw):
    puzzle.check(
        tensor([[draft]], "int64"), tensor([[q]]), tensor([[p, p]]), tensor([[u, u_of_the_draw]])
    )


@cases(
    taken=(2, [0, 0, 1, 0], [0, 0, 1, 0]),
    refused=(1, [0, 1, 0, 0], [0, 0, 0, 1]),
    never_drafted=(3, [1, 0, 0, 0], [0, 0, 0, 1]),
    taken_where_minus_zero_was_drafted=(3, [1, 0, 0, -0.0], [0.5, 0, 0, 0.5]),
    taken_where_hardly_likely=(3, [1, 0, 0, 0], [1, 0, 0, 1e-40]),
    refused_where_hardly_likely=(3, [0, 0, 0, 1], [1, 0, -0.0, 1e-40]),
)
def test_numerics_one_hot_rows(draft, q, p):
    q, p = tensor([[q]]).float(), tensor([[p, p]]).float()
    for u in (0.0, 0.5, 0.9):
        puzzle.check(tensor([[draft]], "int64"), q, p, tensor([[u, 0.9]]))


def test_numerics_equal_rows():
    # All drafts are taken.
    drafts, q, p, u = speculation([1, 2, 3], 3, 300)
    p[:, :3] = q
    puzzle.check(drafts, q, p, u.clamp(max=0.9))


# Traffic, compilation and speed of what the first level leaves out.


def test_traffic_of_several_blocks():
    drafts, q, p, u = speculation([0, 2, 4], 4, 20_000)
    puzzle.traffic(drafts, q, p, u).check(
        reads={"draft_probs": 2.02 / 4, "target_probs": 2.02 / 5}, launches=2, scratch=0.01
    )


def test_compiles_ragged_and_transposed():
    puzzle.compiles(*(x.mT.contiguous().mT for x in speculation([0, 3], 3, 333)))


def test_compiles_sizes_of_1():
    drafts, q, p, u = speculation([0], 1, 2)
    puzzle.compiles(drafts * 0, q[:, :, :1], p[:, :, :1], u)


def test_speedup():
    B, K, V = 64, 4, 128256
    inputs = speculation([n % (K + 1) for n in range(B)], K, V)
    rows = sum(1 if n % (K + 1) == K else 2 for n in range(B))
    puzzle.race(*inputs, at_least=0.9, baseline="solution", bytes_moved=4 * V * rows * 9 // 10)
