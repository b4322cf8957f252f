"""Tests of 14.5, speculative verification."""

from course.challenge import challenge
from course.inputs import cases, speculation

puzzle = challenge("speculative_verify", results=("tokens", "accepted"))


@cases(
    every_number=([0, 1, 2, 3, 4, 0, 1, 2], 4, 1000),
    one_draft=([0, 1, 1, 0], 1, 1000),
    eight_drafts=([8, 0, 5, 7], 8, 300),
    five_tokens=([0, 2, 1, 1], 2, 5),
)
def test_shapes(accepted, K, V):
    puzzle.check(*speculation(accepted, K, V))


@cases(none_taken=0, all_taken=4, some_taken=2)
def test_masks(accepted):
    # Several blocks of the vocabulary, and a ragged one.
    puzzle.check(*speculation([accepted] * 6, 4, 4099))


def test_masks_later_drafts_do_not_count():
    puzzle.check(*speculation([0, 3, 1, 5] * 2, 8, 300))


def test_numerics_running_sum_goes_on_from_block_to_block():
    drafts, q, p, u = speculation([4] * 4, 4, 20_000)
    p[:, 4, :17_000] *= 0.01
    u[:, 4] = 0.75
    puzzle.check(drafts, q, p, u)


@cases(taken=0.1, refused=0.0)
def test_numerics_draft_of_probability_0(p_of_draft):
    drafts, q, p, u = speculation([2, 2], 3, 300)
    q[:, 1].scatter_(1, drafts[:, 1:2], 0.0)
    p[:, 1].scatter_(1, drafts[:, 1:2], p_of_draft)
    if not p_of_draft:
        # What is left over now lies elsewhere: draw the most likely.
        p[:, 1, 7], u[:, 3] = 1000.0, 0.5
    puzzle.check(drafts, q, p, u)


def test_traffic():
    K, V = 4, 4096
    drafts, q, p, u = speculation([0, 2, 4], K, V)
    puzzle.traffic(drafts, q, p, u).check(
        reads={"draft_probs": 2 * 1.01 / K, "target_probs": 2 * 1.01 / (K + 1)},
        launches=2,
        scratch=0.01,
    )


def test_compiles():
    puzzle.compiles(*speculation([0, 2], 4, 5000))


def test_speedup():
    B, K, V = 64, 4, 128256
    inputs = speculation([n % (K + 1) for n in range(B)], K, V)
    # A row of each where a draft was refused, of the target's where none was.
    rows = sum(1 if n % (K + 1) == K else 2 for n in range(B))
    puzzle.race(*inputs, at_least=3.5, bytes_moved=4 * V * rows * 9 // 10)
