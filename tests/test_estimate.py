"""kernelgauge.speed.estimate: how long launches would take, and when nothing is said of it."""

from __future__ import annotations

import statistics
import subprocess
from dataclasses import replace

import pytest
import torch

from course import paths
from course.desk import comparison
from course.observers import Comparing
from course.proof import estimates, runner
from kernelgauge.compilation.ahead_of_time import Compiled
from kernelgauge.core.settings import settings
from kernelgauge.kernel import count, works_of
from kernelgauge.memory.executor import sample
from kernelgauge.speed.estimate import H200, RTX_4090, Work, estimate
from kernelgauge.words import say

BYTES = 2**30
# A copy of 1 GiB by 16 bytes a lane, in blocks of 4 KiB.
COPY = Work(
    programs=2**18,
    resident=16,
    warps=4,
    loaded={1: BYTES},
    stored={2: BYTES},
    needed={1: BYTES, 2: BYTES},
    sizes={1: BYTES, 2: BYTES},
    asked=BYTES,
    macs=0,
    lanes=0,
    load_bytes=16,
    store_bytes=16,
    bits=0,
    newer=False,
    in_flight=2**14,
)
# A product of 4096 cubed in tiles of 128 x 256.
PRODUCT = replace(
    COPY,
    programs=512,
    resident=1,
    warps=8,
    loaded={1: 2**29, 2: 2**30},
    stored={3: 2**25},
    needed={1: 2**29, 2: 2**30, 3: 2**25},
    sizes={1: 2**25, 2: 2**25, 3: 2**25},
    asked=1.5 * 2**30,
    macs=4096**3,
    bits=16,
    newer=True,
    in_flight=3 * 48 * 2**10,
)


def scaled(work: Work, by: float) -> Work:
    """The same work on tensors of another size."""
    sizes = {
        name: {key: int(by * size) for key, size in getattr(work, name).items()}
        for name in ("loaded", "stored", "needed", "sizes")
    }
    return replace(work, **sizes, asked=by * work.asked, programs=int(by * work.programs))


def ms(*works: Work) -> float:
    return estimate(works, H200).ms


def test_a_copy_is_limited_by_memory():
    found = estimate([COPY], H200)
    assert (found.limit, found.is_clear) == ("memory", True)
    # H200.md has 0.509 ms for vector_copy of as many bytes.
    assert found.ms == pytest.approx(0.509, rel=0.05)


def test_a_product_is_limited_by_tensor_cores():
    found = estimate([PRODUCT], H200)
    assert (found.limit, found.is_clear) == ("products", True)
    # H200.md has 0.187 ms for tiled.
    assert found.ms == pytest.approx(0.187, rel=0.2)
    assert ms(replace(PRODUCT, newer=False)) > 1.3 * found.ms
    assert ms(replace(PRODUCT, bits=0)) > 5 * found.ms


@pytest.mark.parametrize(
    ("change", "limit", "words"),
    [
        (
            {"loaded": {1: 8 * BYTES}, "needed": {1: 8 * BYTES, 2: BYTES}},
            "l2",
            "4x the bytes from the L2",
        ),
        ({"load_bytes": 1, "store_bytes": 1}, "accesses", "16x"),
        ({"lanes": 2e11}, "arithmetic", "yours is limited by arithmetic"),
        ({"spilled": 2 * BYTES}, "memory", "2x the bytes"),
        ({"in_flight": 64, "resident": 4}, "waits", "1024x the trips to memory"),
    ],
    ids=["again", "narrow", "arithmetic", "spills", "few_in_flight"],
)
def test_what_takes_longer_is_told_with_its_reason(change, limit, words):
    ours, yours = estimate([COPY], H200), estimate([replace(COPY, **change)], H200)
    assert yours.ms > 1.3 * ours.ms
    assert yours.limit == limit
    assert words in say(yours.reason(ours))


def test_less_of_something_is_no_reason_to_take_longer():
    older = estimate([replace(PRODUCT, newer=False, macs=0.8 * PRODUCT.macs)], H200)
    assert older.ms > estimate([PRODUCT], H200).ms
    assert say(older.reason(estimate([PRODUCT], H200))) == "yours is limited by products"
    assert say(estimate([PRODUCT], H200).reason(older)) == "ours is limited by products"


def test_as_much_of_something_limits_both_only_if_it_takes_the_longest_in_both():
    copy = estimate([COPY], H200)
    assert say(copy.reason(estimate([replace(COPY, lanes=1)], H200))) == "both limited by memory"
    again = replace(PRODUCT, loaded={1: 2**30, 2: 5 * 2**28}, resident=4)
    older = replace(again, newer=False)
    limits = [estimate([it], H200).limit for it in (older, again)]
    assert limits == ["products", "l2"]
    reason = estimate([older], H200).reason(estimate([again], H200))
    assert say(reason) == "yours is limited by products"


def test_what_neighbours_share_crosses_once():
    sharing = replace(COPY, loaded={1: 4 * BYTES}, needed={1: 4 * BYTES, 2: BYTES}, lanes=0)
    assert estimate([sharing], H200).amounts["memory"] == 2 * BYTES


def test_a_program_loads_again_from_memory_what_the_l2_cannot_hold():
    twice = replace(COPY, loaded={1: 2 * BYTES})
    assert estimate([twice], H200).amounts["memory"] == 2 * BYTES
    rows = replace(twice, programs=2**10, resident=1)
    assert estimate([rows], H200).amounts["memory"] == 3 * BYTES


def test_what_a_launch_leaves_in_the_l2_is_not_loaded_from_memory():
    small = scaled(COPY, 2**-7)
    second = replace(small, loaded={2: 2**23}, stored={3: 2**23}, needed={2: 2**23, 3: 2**23})
    second = replace(second, sizes={2: 2**23, 3: 2**23})
    assert estimate([small, second], H200).amounts["memory"] == 3 * 2**23
    assert estimate([second, small], H200).amounts["memory"] == 4 * 2**23


@pytest.mark.parametrize(
    "works",
    [
        [scaled(COPY, 2**-8)],
        [replace(COPY, programs=100)],
        [replace(COPY, atomics=True)],
        [COPY, replace(COPY, programs=131)],
        [replace(PRODUCT, load_bytes=2)],
        [replace(PRODUCT, warps=4)],
        [replace(COPY, programs=2**20)],
    ],
    ids=[
        *("launch", "few_programs", "atomics", "few_programs_in_one_of_two"),
        *("narrow_factors", "four_warps", "short_programs"),
    ],
)
def test_of_what_the_model_does_not_know_nothing_is_said(works):
    assert not estimate(works, H200).is_clear


def test_a_small_launch_of_few_programs_does_not_matter():
    assert estimate([COPY, replace(scaled(COPY, 2**-12), programs=8)], H200).is_clear


@pytest.mark.parametrize("count", [1, 3, 7, 512, 2**20])
def test_a_sample_sees_all_of_an_axis(count):
    chosen = sample(count)
    assert chosen <= set(range(count))
    assert len(chosen) >= min(count, 3)
    if count >= 512:
        assert len({number % 32 for number in chosen}) == len(chosen)


@pytest.mark.parametrize("tiles", [3, 32, 64, 257])
def test_a_sample_weighs_work_that_grows_along_tiles_as_all_programs_do(tiles):
    chosen = sample(tiles * 128)
    for axis in (lambda number: number % tiles, lambda number: number // tiles):
        whole = statistics.mean(map(axis, range(tiles * 128)))
        assert statistics.mean(map(axis, chosen)) == whole


@pytest.mark.skipif(not settings.interpreted, reason="programs are counted in the interpreter")
@pytest.mark.parametrize("puzzle", ["04_softmax/softmax", "07_matmul/tiled"])
def test_a_few_programs_stand_for_all(puzzle, monkeypatch):
    monkeypatch.setattr(settings, "subjects", paths.SOLUTIONS)
    kernel = runner.module_of(puzzle).puzzle
    inputs = [torch.randn(512, 512) for _ in range(1 + puzzle.endswith("tiled"))]
    arguments = kernel.arguments(tuple(inputs), {})
    (work,) = works_of(lambda: kernel.guarded(arguments), kernel.path, "sm_90")
    whole = count(kernel.guarded(arguments))
    (all_of_it,) = whole.sampled
    for name in ("loaded", "stored"):
        total = sum(getattr(all_of_it, name).values())
        assert sum(getattr(work, name).values()) == pytest.approx(total, rel=0.01)
    assert work.macs == pytest.approx(whole.dot_macs, rel=0.01)
    assert work.lanes == pytest.approx(all_of_it.lanes, rel=0.05)


@pytest.mark.skipif(not settings.interpreted, reason="programs are counted in the interpreter")
def test_a_load_waits_as_long_whether_its_lanes_are_masked_or_not(monkeypatch):
    monkeypatch.setattr(settings, "subjects", paths.SOLUTIONS)
    kernel = runner.module_of("08_debugging/token_mean").puzzle
    waits = []
    # Its tiles are 64 wide.
    for width in (64, 32):
        arguments = kernel.arguments((torch.empty(132, 2048, width),), {})
        works = kernel.works(
            lambda given=arguments: kernel.guarded(given), kernel.subject, kernel.path, H200
        )
        waits.append(estimate(works, H200).amounts["waits"])
    assert waits[0] == waits[1] == pytest.approx(2048 / 256)


def test_a_load_of_fewer_lanes_than_threads_asks_by_all_threads():
    compiled = Compiled(
        kernel="f", target="sm_90", num_warps=4, shared=0, settings="", loads=((32, 1),)
    )
    asked = [compiled.asked_by(lanes, 4) for lanes in (1, 128, 256)]
    assert asked == [512, 512, 1024]
    assert compiled.bytes_in_flight == 512


@pytest.mark.skipif(not settings.interpreted, reason="programs are counted in the interpreter")
@pytest.mark.parametrize("gpu", [H200, RTX_4090], ids=lambda gpu: gpu.target)
def test_a_launcher_that_asks_how_large_the_gpu_is_hears_of_the_one_that_is_estimated(
    gpu, monkeypatch
):
    monkeypatch.setattr(settings, "subjects", paths.SOLUTIONS)
    kernel = runner.module_of("17_persistent/persistent_softmax").puzzle
    arguments = kernel.arguments((torch.empty(2**17, 64),), {})
    (work,) = kernel.works(lambda: kernel.guarded(arguments), kernel.subject, kernel.path, gpu)
    assert work.programs == 4 * gpu.multiprocessors


@pytest.mark.skipif(not settings.interpreted, reason="programs are counted in the interpreter")
@pytest.mark.parametrize(
    ("puzzle", "given", "is_told"),
    [("01_pointwise/relu", torch.empty(2**24), True),
     ("18_distributed/all_reduce", [torch.empty(2**23) for _ in range(4)], False)],
    ids=["one_gpu", "several"],
)  # fmt: skip
def test_nothing_is_said_of_several_gpus(puzzle, given, is_told, monkeypatch):
    monkeypatch.setattr(settings, "subjects", paths.SOLUTIONS)
    kernel, observer = runner.module_of(puzzle).puzzle, Comparing()
    observer.instead_of_race(kernel, kernel.arguments((given,), {}))
    assert ("speedup" in observer.found) == is_told


def test_estimates_are_told_in_a_clause():
    ours, yours = estimate([COPY], H200), estimate([scaled(COPY, 2)], H200)
    told = comparison.of_estimates("x", [(H200, yours, ours), (RTX_4090, yours, ours)])
    never = "an RTX 4090 (never measured)"
    assert told["said"] == f"0.5x of ours on an H200 and {never}: 2x the bytes"
    assert told["rows"][0] == ["about, on an H200", "1 ms", "0.51 ms"]
    assert told["rows"][1][0] == f"about, on {never}"
    told = comparison.of_estimates("x", [(H200, ours, yours)])
    assert told["said"] == "2x of ours on an H200: 0.5x the bytes"


def test_errors_are_factors():
    rows = [estimates.Row("a", "a/b", 1.0, it) for it in (1.0, 1.1, 0.5, 1.2, None)]
    assert estimates.errors([row for row in rows if row.estimated]) == pytest.approx((1.148913, 2))
    assert estimates.table(rows)[-1] == "| all | 5 | 4 | 1.15x | 2.00x |"


def test_the_record_has_times():
    times = estimates.measured((paths.ROOT / estimates.RECORD).read_text())
    assert times["tiled", "bfloat16", "4096 x 4096 x 4096"] == 0.189
    assert len(times) > 500


def test_times_of_solutions_that_changed_since_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "SOLUTIONS", tmp_path / "solutions")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    def commit(time, **codes):
        row = "| {} | float32 | 4096 | {} | 1 TB/s | 90 % | 1.0 | 1.0 | eager |\n"
        record = tmp_path / estimates.RECORD
        record.parent.mkdir(exist_ok=True)
        record.write_text("".join(row.format(name, time) for name in ("same", "other:b")))
        for name, code in codes.items():
            path = tmp_path / "solutions" / "01_chapter" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code)
        for words in (["add", "."], ["commit", "-qm", "x"]):
            who = ["-c", "user.name=x", "-c", "user.email=x"]
            subprocess.run(["git", "-C", tmp_path, *who, *words], check=True)

    def compared():
        return {name: ms for (name, _, _), ms in estimates.comparable().items()}

    def text(comment, code):
        return f'"""{comment}"""\n\n\ndef f():\n    """{comment}"""\n    return {code}\n'

    commit(0.5, same=text("First", 1), other=text("First", 1))
    assert compared() == {"same": 0.5, "other:b": 0.5}
    commit(0.5, same=text("Second", 1), other=text("First", 2))
    assert compared() == {"same": 0.5}
    commit(0.4)
    assert compared() == {"same": 0.4, "other:b": 0.4}
