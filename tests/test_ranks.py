"""Puzzles of several ranks: lists of tensors as arguments and results, and a rank that is late."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
import torch

from course import inputs, loader, paths
from course.challenge import Challenge
from course.proof import mutants, runner
from kernelgauge.core import gpus
from kernelgauge.core import paths as core_paths
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import Wrong
from kernelgauge.numerics.compare import spacing
from kernelgauge.subject import late_rank
from kernelgauge.subject.guarded_call import GuardedCall
from kernelgauge.subject.late_rank import Lateness

in_the_interpreter = pytest.mark.skipif(
    not settings.interpreted, reason="a GPU does not show which program accesses what"
)
with_lateness = pytest.mark.skipif(
    not settings.interpreted and torch.cuda.device_count() < 2, reason="takes several GPUs"
)

SUM = """
import contextlib, torch, triton
import triton.language as tl

def on(x):
    return torch.cuda.device(x.device) if x.is_cuda else contextlib.nullcontext()

def meet(tensors):
    streams = [torch.cuda.current_stream(d) for d in {x.device for x in tensors if x.is_cuda}]
    events = [stream.record_event() for stream in streams]
    for stream in streams:
        for event in events:
            stream.wait_event(event)

@triton.jit
def sum_kernel(shards, out_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    acc = tl.zeros((BLOCK,), tl.float32)
    for rank in tl.static_range(len(shards)):
        acc += tl.load(shards[rank] + offs, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offs, acc, mask=mask)

def launch(shards, out, rank):
    N = out.numel()
    with on(shards[rank]):
        sum_kernel[(triton.cdiv(N, 64),)](tuple(shards), out, N, BLOCK=64)

def total(shards):
    results = [torch.empty_like(x) for x in shards]
    meet(shards)
    for rank, out in enumerate(results):
        launch(shards, out, rank)
    meet(shards)
    return results
"""


def total(shards):
    wide = torch.promote_types(shards[0].dtype, torch.float32)
    return [sum(x.to(own.device, wide) for x in shards).to(own.dtype) for own in shards]


@pytest.fixture
def summing(tmp_path, monkeypatch):
    """Make a puzzle that adds up shards, with an edited version of SUM as its subject."""

    def make(find: str = "", replace: str = "", **spec) -> Challenge:
        path = tmp_path / "18_distributed" / "total.py"
        path.parent.mkdir(exist_ok=True)
        assert find in SUM
        path.write_text(SUM.replace(find, replace) if find else SUM)
        monkeypatch.setattr(settings, "subjects", tmp_path)
        monkeypatch.setattr(core_paths, "_modules", {})
        monkeypatch.setattr(loader, "load_reference", lambda *_: total)
        monkeypatch.setattr(loader, "load_mistakes", lambda *_: None)
        test = paths.PUZZLES / "18_distributed" / "test_total.py"
        return Challenge("total", test, ranks=True, **({"alike": True} | spec))

    inputs.seed("ranks")
    return make


def test_each_result_of_a_rank_has_the_name_of_its_list(summing):
    named = summing(results=("averages", "faults")).name_of
    assert [named(number, 4) for number in range(4)] == [
        "averages[0]", "averages[1]", "faults[0]", "faults[1]"
    ]  # fmt: skip
    # A launcher may return too many or too few.
    assert named(4, 5) == "result 4"
    assert named(0, 1) == "averages"


def shards(R: int, N: int = 100, dtype: str = "float16") -> list[torch.Tensor]:
    return inputs.ranks(R, N, dtype=dtype)


def told(puzzle: Challenge, *arguments) -> str:
    with pytest.raises(Wrong) as caught:
        puzzle.check_late(*arguments)
    return str(caught.value)


def test_ranks_are_spread_over_the_gpus(monkeypatch):
    monkeypatch.setattr(settings, "device", "cuda")
    monkeypatch.setattr(gpus, "connect", lambda: [torch.device("cpu"), torch.device("meta")])
    spread = inputs.spread(torch.ones(3) for _ in range(3))
    assert [x.device.type for x in spread] == ["cpu", "meta", "cpu"]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="takes several GPUs")
def test_what_a_result_may_be_off_by_is_computed_on_the_gpu_that_it_lies_on():
    other = next(device for device in gpus.connect() if device.index != torch.cuda.current_device())
    size = torch.full((100_000,), 3.0, device=other)
    with torch.cuda.device(other):
        torch.cuda._sleep(late_rank.LATE_CYCLES)
        size = size.double() * 4
    assert torch.equal(spacing(size, torch.float32), torch.full_like(size, 2.0**-20))


def test_tensors_of_a_list_are_named_by_their_places():
    x = shards(2)
    arguments = Arguments(("shards", "scale"), (x, 2.0), {})
    assert list(arguments.tensors) == ["shards[0]", "shards[1]"]
    zeros = torch.zeros(100)
    changed = arguments.replaced({"shards[1]": zeros})
    assert changed.values["shards"][0] is x[0]
    assert changed.values["shards"][1] is zeros
    assert str(arguments) == "shards: 2 x float16 (100,), scale: 2.0"


def test_aliases_in_a_list_stay_aliases():
    x = shards(1) * 2
    first, second = Arguments(("shards",), (x,), {}).map(lambda _, t: t.clone()).values["shards"]
    assert first is second


@pytest.mark.parametrize("R", [1, 2, 4])
def test_lists_of_tensors(summing, R):
    summing().check_late(shards(R))


@in_the_interpreter
def test_out_of_bounds_names_the_shard(summing):
    assert "shards[0]" in told(summing("offs < N\n", "offs <= N\n"), shards(2))


def test_a_shard_left_out_is_named(summing):
    fewer = summing("tl.static_range(len(shards))", "tl.static_range(len(shards) - 1)")
    assert "shards[2] is left out" in told(fewer, shards(3))


def test_a_changed_shard_is_named(summing):
    stores = summing(
        "tl.store(out_ptr", "tl.store(shards[1] + offs, acc, mask=mask); tl.store(out_ptr"
    )
    assert "shards[1]" in told(stores, shards(2))


def test_each_rank_has_a_result_of_its_own(summing):
    shared = summing("    return results", "    return [results[0]] * len(shards)")
    assert "same allocation" in told(shared, shards(2))


def test_a_result_must_not_be_missing(summing):
    assert "returned 1 tensor, not 2" in told(
        summing("return results", "return results[0]"), shards(2)
    )


@in_the_interpreter
def test_a_list_is_no_argument_of_a_kernel(summing):
    assert "pass tuple(shards)" in told(summing("tuple(shards), out", "shards, out"), shards(2))


def test_what_kernels_are_given_in_a_tuple_is_watched(summing):
    hidden = summing("tuple(shards), out", "(HIDDEN, *shards[1:]), out")
    hidden.subject.__globals__["HIDDEN"] = inputs.integers(100, dtype="float16")
    assert "neither received nor allocated" in told(hidden, shards(2))


def test_results_of_all_ranks_have_the_same_bits(summing):
    own_first = "tuple(shards[rank:] + shards[:rank])"
    wrong = told(summing("tuple(shards)", own_first), shards(3, 500, "float32"))
    assert "last bits differ" in wrong
    summing("tuple(shards)", own_first, alike=False).check(shards(3, 500, "float32"))


@in_the_interpreter
def test_traffic_of_each_shard(summing):
    traffic = summing().traffic(shards(4))
    traffic.check(reads={"shards": 4}, writes=1, launches=4, scratch=0)
    with pytest.raises(Wrong, match=r"shards\[0\] is read 4.0 times, but the budget is 3"):
        traffic.check(reads={"shards": 3})
    traffic.check(reads_by_launch={"shards": (1, 1, 1, 1)})
    with pytest.raises(Wrong, match=r"shards\[0\] is read 1.0 times by one launch"):
        traffic.check(reads_by_launch={"shards": (1, 1, 1)})


def test_compiles(summing):
    summing().compiles(shards(2))


@with_lateness
@pytest.mark.parametrize(
    ("find", "place"),
    [
        ("    meet(shards)\n    for", "before the first launch"),
        ("    meet(shards)\n    return", "before you return"),
    ],
)
@pytest.mark.parametrize("instead", ["", "    meet(shards[:1])\n"], ids=["none", "alone"])
def test_a_late_rank_is_waited_for(summing, find, place, instead):
    wrong = told(summing(find, instead + find.partition("\n")[2]), shards(2))
    assert "when rank" in wrong
    assert f"hint: call meet() {place}" in wrong


# meet has an alias, and on is a default.
OTHER_NAMES = (
    SUM.replace("    meet(", "    barrier(")
    .replace("out, rank):", "out, rank, place=on):")
    .replace("with on(", "with place(")
    .replace("def total", "barrier = meet\n\ndef total")
)


@with_lateness
def test_a_late_rank_is_waited_for_under_any_name(summing):
    summing(SUM, OTHER_NAMES).check_late(shards(2))
    unmet = OTHER_NAMES.replace("    barrier(shards)\n    return", "    return")
    assert "hint: call meet() before you return" in told(summing(SUM, unmet), shards(2))


TWO_STEPS = """
def total(shards):
    sums, results = ([torch.empty_like(x) for x in shards] for _ in range(2))
    meet(shards)
    for rank, out in enumerate(sums):
        launch(shards, out, rank)
    meet(sums)
    for rank, out in enumerate(results):
        with on(shards[rank]):
            copied = (sums[rank - 1],)
            sum_kernel[(triton.cdiv(out.numel(), 64),)](copied, out, out.numel(), BLOCK=64)
    meet(shards)
    return results
"""


@with_lateness
def test_a_late_rank_is_waited_for_between_launches(summing):
    original = SUM[SUM.index("def total") :]
    summing(original, TWO_STEPS).check_late(shards(3))
    wrong = told(summing(original, TWO_STEPS.replace("    meet(sums)\n", "")), shards(3))
    assert "hint: call meet() between a launch" in wrong


@with_lateness
def test_a_launch_belongs_to_a_rank(summing):
    wrong = told(summing("with on(shards[rank])", "with contextlib.nullcontext()"), shards(2))
    assert "hint: with on(shards[rank]): kernel[grid](...)" in wrong
    summing("with on(shards[rank])", "with on(out)").check_late(shards(2))


MADE_BY_SIZE = "[torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in shards]"


@in_the_interpreter
@pytest.mark.parametrize("made", ["[torch.empty_like(x) for x in shards]", MADE_BY_SIZE])
def test_a_result_stands_for_the_rank_that_gets_it(summing, made):
    on_result = SUM.replace("with on(shards[rank])", "with on(out)").replace(
        "[torch.empty_like(x) for x in shards]", made
    )
    summing(SUM, on_result).check_late(shards(3))
    for last, rest in (("results", None), ("results[:1]", "before you return")):
        met = on_result.replace("meet(shards)\n    return", f"meet({last})\n    return")
        if rest:
            assert rest in told(summing(SUM, met), shards(3))
        else:
            summing(SUM, met).check_late(shards(3))


@in_the_interpreter
def test_a_launch_on_a_tensor_of_no_rank_is_rejected(summing):
    scratch = "with on(torch.empty(1, device=out.device))"
    assert "nothing tells on which GPU" in told(
        summing("with on(shards[rank])", scratch), shards(2)
    )


@in_the_interpreter
def test_all_launches_on_one_rank_are_rejected(summing):
    wrong = told(summing("with on(shards[rank])", "with on(shards[0])"), shards(3))
    assert "nothing is launched on the GPU of rank 1" in wrong


@with_lateness
@pytest.mark.parametrize("place", ["    meet(shards)\n    for", "    meet(shards)\n    return"])
def test_a_rank_in_the_middle_is_waited_for(summing, place):
    ends = place.replace("meet(shards)", "meet([shards[0], shards[-1]])")
    # On a GPU of its own rank 1 does not wait for rank 0 either, which is late first.
    late = 1 if settings.interpreted else 0
    assert f"when rank {late}" in told(summing(place, ends), shards(3))


@pytest.mark.skipif(
    settings.interpreted or torch.cuda.device_count() < 2, reason="takes several GPUs"
)
def test_programs_that_copy_wait_for_the_peers_inside_their_launch(tmp_path):
    puzzle = "18_distributed/all_gather_matmul"
    meeting = "meet_inside(peers, own_signals_ptr, rank, BEGINNING=True)"
    source = mutants.edited(paths.SOLUTIONS / f"{puzzle}.py", meeting, "pass")
    cases = [case for case in runner.cases_of(puzzle) if "late" in case.test]
    with runner.graded(puzzle, source, tmp_path):
        assert "before the first launch" in str(runner.first_fault(cases)[1])


def test_meetings_of_ones_own_are_not_replaced(summing):
    source = ("on(", "place("), ("meet(", "wait(")
    puzzle = summing()
    text = puzzle.path.read_text()
    for find, replace in source:
        text = text.replace(find, replace)
    puzzle.path.write_text(text)
    puzzle.check_late(shards(2))


def test_a_late_gpu_gets_its_inputs_late_and_sleeps_after_each_meeting():
    log = []
    original = {f"shards[{rank}]": torch.full((2,), float(rank)) for rank in range(4)}

    def arena(rank):
        def fill(x):
            log.append((rank, "real" if torch.equal(x, original[f"shards[{rank}]"]) else "other"))

        # Four ranks on two GPUs.
        return SimpleNamespace(tensor=SimpleNamespace(device=rank % 2), fill=fill)

    arenas = {f"shards[{rank}]": arena(rank) for rank in range(4)}
    names = {"meet": lambda tensors: log.append("meet")}
    subject = eval("lambda: meet([])", names)
    # Undone before the test ends, since what follows a test on a GPU asks torch about it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "_sleep", lambda cycles: log.append("sleep"))
        patch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
        patch.setattr(gpus, "synchronize", lambda: log.append("synchronize"))
        with late_rank.LateGpu(subject, Lateness(1), arenas, original).running():
            subject()
    assert log == [
        *((1, "other"), (3, "other"), "synchronize"),
        *("sleep", (1, "real"), (3, "real"), "meet", "sleep"),
        *((0, "other"), (2, "other"), "synchronize"),
    ]
    subject()
    assert log[-1] == "meet"


def test_each_gpu_works_for_its_ranks():
    call = SimpleNamespace(
        arguments=Arguments(("shards",), (shards(2),), {}),
        devices={torch.device("cuda", 0), torch.device("cuda", 1)},
        interpreted=False,
    )

    def launch(gpu):
        return Launch(total, (1, 1, 1), {}, frozenset(), {}, gpu)

    GuardedCall._check_gpus(call, [launch(0), launch(1)])
    with pytest.raises(Wrong, match="launched no kernel on GPU 1"):
        GuardedCall._check_gpus(call, [launch(0), launch(0)])
