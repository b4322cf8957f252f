"""Gluon kernels in the interpreter: right in every order, and each synchronisation that is missed.

A wrong kernel is a right one with one edit, of a line that its source has.
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys
import threading
from pathlib import Path

import pytest
import torch

from course import paths
from course.proof import mutants, runner
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.executor import KernelError
from kernelgauge.memory.watch import Watch
from kernelgauge.words import message
from tests.launching import interpreted_only

pytestmark = interpreted_only

KERNELS = Path(__file__).parent / "gluon_kernels.py"
ORDERS, ORDERS_OF_A_MUTANT = 200, 6
SHARED = r"(full|empty|free|bar|buffers|tiles|tile_in|tile_out|[abc]_s)\b|the (copy|product) that"


def load(source: str, path: Path):
    path.write_text(source)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def run(module, name: str, seed: int) -> None:
    """Run one kernel of the file, and compare its result."""
    with Watch(order="shuffled", seed=seed):
        result, expected = getattr(module, name)()
    torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-2)


NAMES = ("ring", "copied", "added", "prefetched", "product", "divided", "aggregates")


@pytest.mark.proof
@pytest.mark.parametrize("name", NAMES)
def test_a_right_kernel_is_right_in_every_order(name, tmp_path):
    module = load(KERNELS.read_text(), tmp_path / "right_gluon.py")
    for seed in range(ORDERS):
        run(module, name, seed)


# An edit of a kernel, and the kinds of fault that it may show in one order or another.
MUTANTS = [
    (
        "ring",
        "wait(empty.index(slot), (i // 2 & 1) ^ 1)\n        mbarrier.expect(full",
        "expect(full",
        ["barrier-misuse", "early-overwrite"],
    ),
    (
        "ring",
        "(i // 2 & 1) ^ 1)\n        mbarrier.expect(full.index(slot), BLOCK",
        "i // 2 & 1)\n        mbarrier.expect(full.index(slot), BLOCK",
        ["deadlock"],
    ),
    ("ring", "        mbarrier.expect(full.index(slot), BLOCK * 4)\n", "", ["deadlock"]),
    ("ring", "BLOCK * 4)", "BLOCK * 2)", ["wrong-bytes"]),
    ("ring", "BLOCK * 4)", "BLOCK * 8)", ["wrong-bytes"]),
    (
        "ring",
        "        mbarrier.wait(full.index(slot), i // 2 & 1)\n        tile",
        "        tile",
        ["early-read"],
    ),
    (
        "ring",
        "mbarrier.wait(full.index(slot), i // 2 & 1)\n        tile",
        "mbarrier.wait(full.index(slot), (i // 2 & 1) ^ 1)\n        tile",
        ["deadlock", "early-read"],
    ),
    (
        "ring",
        "mbarrier.wait(full.index(slot), i // 2 & 1)\n        tile",
        "mbarrier.wait(full.index(slot), i & 1)\n        tile",
        ["deadlock", "early-read"],
    ),
    (
        "ring",
        "        mbarrier.arrive(empty.index(slot), count=1)\n        gl.store",
        "        gl.store",
        ["deadlock"],
    ),
    (
        "ring",
        "        tile = buffers.index(slot).load(layout)\n"
        "        mbarrier.arrive(empty.index(slot), count=1)",
        "        mbarrier.arrive(empty.index(slot), count=1)\n"
        "        tile = buffers.index(slot).load(layout)",
        ["early-overwrite", "early-read"],
    ),
    (
        "ring",
        "mbarrier.init(full.index(i), count=1)\n        mbarrier.init(empty.index(i), count=1)",
        "mbarrier.init(full.index(i), count=1)\n        mbarrier.init(empty.index(i), count=2)",
        ["deadlock"],
    ),
    (
        "ring",
        "mbarrier.init(full.index(i), count=1)\n        mbarrier.init(empty.index(i), count=1)",
        "mbarrier.init(full.index(i), count=2)\n        mbarrier.init(empty.index(i), count=1)",
        ["deadlock"],
    ),
    (
        "ring",
        "mbarrier.init(full.index(i), count=1)\n        mbarrier.init(empty.index(i), count=1)",
        "mbarrier.init(full.index(i), count=1)",
        ["barrier-misuse"],
    ),
    (
        "ring",
        "full.index(slot), buffers.index(slot))",
        "full.index(slot ^ 1), buffers.index(slot))",
        ["early-read"],
    ),
    (
        "ring",
        "full.index(slot), buffers.index(slot))",
        "full.index(slot), buffers.index(0))",
        ["early-overwrite"],
    ),
    ("copied", "        mbarrier.wait(bar, phase)\n", "", ["early-read"]),
    (
        "copied",
        "mbarrier.wait(bar, phase)",
        "mbarrier.wait(bar, phase ^ 1)",
        ["deadlock", "early-read"],
    ),
    ("copied", "        phase ^= 1\n", "", ["deadlock", "early-read"]),
    (
        "copied",
        "        tma.store_wait(0)\n        tile_out",
        "        tile_out",
        ["early-overwrite"],
    ),
    (
        "copied",
        "tma.store_wait(0)\n        tile_out",
        "tma.store_wait(1)\n        tile_out",
        ["early-overwrite"],
    ),
    (
        "copied",
        "        fence_async_shared()\n        tma.async_copy_shared_to_global(y_desc",
        "        tma.async_copy_shared_to_global(y_desc",
        ["missing-fence"],
    ),
    ("copied", "    tma.store_wait(0)\n\n\ndef copied", "\n\ndef copied", ["left-in-flight"]),
    ("copied", "    mbarrier.init(bar, count=1)\n    row", "    row", ["barrier-misuse"]),
    ("copied", "x_desc.block_type.nbytes", "2 * BLOCK", ["wrong-bytes"]),
    ("added", "    fence_async_shared()  # of tile_out\n", "", ["missing-fence"]),
    ("added", "    tma.store_wait(0)  # for tile_out\n", "", ["left-in-flight"]),
    ("prefetched", "        async_copy.wait_group(1)\n", "", ["early-read"]),
    ("prefetched", "wait_group(1)", "wait_group(2)", ["early-read"]),
    ("prefetched", "    async_copy.commit_group()\n    for i", "    for i", ["early-read"]),
    (
        "prefetched",
        "        async_copy.commit_group()\n        async_copy.wait_group(1)",
        "        async_copy.wait_group(1)",
        ["early-read"],
    ),
    ("prefetched", "    async_copy.wait_group(0)\n", "", ["left-in-flight"]),
    ("prefetched", "buffers.index((i + 1) % 2)", "buffers.index(i % 2)", ["early-overwrite"]),
    ("product", "        mbarrier.wait(full.index(i % 3), i // 3 & 1)\n", "", ["early-read"]),
    (
        "product",
        "full.index(i % 3), i // 3 & 1)",
        "full.index(i % 3), (i // 3 & 1) ^ 1)",
        ["deadlock", "early-read"],
    ),
    (
        "product",
        "full.index(i % 3), i // 3 & 1)",
        "full.index((i + 1) % 3), i // 3 & 1)",
        ["early-read"],
    ),
    (
        "product",
        "        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))\n        j",
        "        j",
        ["early-overwrite"],
    ),
    ("product", "num_outstanding=1", "num_outstanding=2", ["early-overwrite"]),
    (
        "product",
        "    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))\n    c_s",
        "    acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))\n    c_s",
        ["early-read"],
    ),
    (
        "product",
        "    c_s.store(acc.to(c_desc.dtype))\n    fence_async_shared()\n",
        "    c_s.store(acc.to(c_desc.dtype))\n",
        ["missing-fence"],
    ),
    (
        "product",
        "    tma.async_copy_shared_to_global(c_desc, [m, n], c_s)\n    tma.store_wait(0)\n",
        "    tma.async_copy_shared_to_global(c_desc, [m, n], c_s)\n",
        ["left-in-flight"],
    ),
    (
        "product",
        "mbarrier.expect(free, (BM + BN) * BK * 2, pred=more)",
        "mbarrier.expect(free, BM * BK * 2, pred=more)",
        ["early-read", "wrong-bytes"],
    ),
    ("product", "j = i + 2", "j = i + 3", ["early-overwrite"]),
    (
        "divided",
        "        mbarrier.wait(empty.index(slot), (i // 2 & 1) ^ 1)\n        mbarrier.expect(bar",
        "        mbarrier.expect(bar",
        ["barrier-misuse", "early-overwrite"],
    ),
    (
        "divided",
        "(i // 2 & 1) ^ 1)\n        mbarrier.expect(bar",
        "i // 2 & 1)\n        mbarrier.expect(bar",
        ["deadlock"],
    ),
    ("divided", "(2 * CM + BN) * BK", "(CM + BN) * BK", ["wrong-bytes"]),
    ("divided", "(2 * CM + BN) * BK * 2)", "(2 * CM + BN) * BK * 4)", ["wrong-bytes"]),
    (
        "divided",
        "        mbarrier.wait(full.index(slot), i // 2 & 1)\n        acc",
        "        acc",
        ["early-read"],
    ),
    (
        "divided",
        "        acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))\n        mbarrier",
        "        acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))\n        mbarrier",
        ["early-overwrite"],
    ),
    (
        "divided",
        "        mbarrier.arrive(empty.index(slot), count=1)\n    out",
        "    out",
        ["deadlock"],
    ),
    (
        "divided",
        "mbarrier.init(empty.index(i), count=2)",
        "mbarrier.init(empty.index(i), count=1)",
        ["deadlock", "early-overwrite", "early-read"],
    ),
    (
        "divided",
        "mbarrier.init(empty.index(i), count=2)",
        "mbarrier.init(empty.index(i), count=3)",
        ["deadlock"],
    ),
    (
        "divided",
        "    out.store(acc.to(c_desc.dtype))\n    fence_async_shared()\n",
        "    out.store(acc.to(c_desc.dtype))\n",
        ["missing-fence"],
    ),
    (
        "divided",
        "c_desc, [m + c * CM, n], out)\n    tma.store_wait(0)\n",
        "c_desc, [m + c * CM, n], out)\n",
        ["left-in-flight"],
    ),
    ("divided", "c_s.index(c)", "c_s.index(0)", ["early-overwrite"]),
    (
        "aggregates",
        "        mbarrier.wait(self.full.index(turn.slot()), turn.phase())\n",
        "",
        ["early-read"],
    ),
    (
        "aggregates",
        "        mbarrier.arrive(self.free.index(turn.slot()), count=1)\n",
        "",
        ["deadlock"],
    ),
    ("aggregates", "primitive_bitwidth // 8)", "primitive_bitwidth // 4)", ["wrong-bytes"]),
    ("aggregates", "turn.phase() ^ 1)", "turn.phase())", ["deadlock"]),
]


@pytest.mark.parametrize(("name", "find", "replace", "kinds"), MUTANTS)
def test_what_is_not_synchronised_is_found_in_every_order(name, find, replace, kinds, tmp_path):
    source = KERNELS.read_text()
    assert source.count(find) == 1
    module = load(source.replace(find, replace), tmp_path / "wrong_gluon.py")
    for seed in range(ORDERS_OF_A_MUTANT):
        with pytest.raises(Wrong) as wrong:
            run(module, name, seed)
        fault = wrong.value.fault
        assert fault.kind in kinds
        assert fault.place.file.endswith("wrong_gluon.py")
        # The barrier, the buffer, or what was not waited for.
        assert re.search(SHARED, message(fault))
        # One of them alone gives a slot back before it reads it.
        said = "and reads afterwards, and that arrival is what ring_producer waits for"
        told = said in message(fault)
        assert told == replace.endswith("tile = buffers.index(slot).load(layout)")


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        ("gl.constexpr(dtype)", "dtype", "for attribute 'dtype'"),
        ("self.tiles, self.free, self.full, self.columns = tiles, free, full, columns",
         "self.tiles, self.free, self.full = tiles, free, full",
         "did not initialize attribute 'columns'"),
    ],
)  # fmt: skip
def test_a_field_of_an_aggregate_is_what_it_is_annotated_with(find, replace, said, tmp_path):
    source = KERNELS.read_text()
    assert source.count(find) == 1
    module = load(source.replace(find, replace), tmp_path / "wrong_gluon.py")
    with pytest.raises(KernelError) as wrong:
        run(module, "aggregates", 0)
    assert said in str(wrong.value.__cause__)


def test_each_kind_is_shown():
    shown = {kind for *_, kinds in MUTANTS for kind in kinds}
    assert shown >= {
        "barrier-misuse", "wrong-bytes", "early-read", "missing-fence", "early-overwrite",
        "left-in-flight", "deadlock",
    }  # fmt: skip


def test_a_deadlock_says_who_waits_for_which_phase_of_which_barrier(tmp_path):
    find = "        mbarrier.arrive(empty.index(slot), count=1)\n        gl.store"
    source = KERNELS.read_text().replace(find, "        gl.store")
    module = load(source, tmp_path / "wrong_gluon.py")
    with pytest.raises(Wrong) as wrong:
        run(module, "ring", 0)
    said = message(wrong.value.fault)
    assert re.search(r"ring_producer waits in line \d+ for phase 0 of empty\[0\]", said)
    assert "has completed 0 phases and lacks 1 of 1 arrival of phase 0" in said
    assert re.search(r"ring_consumer waits in line \d+ for phase 1 of full\[0\]", said)


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        ("wait_group(1)", "wait_group(2)", r"1 group was committed .* wait_group\(2\) in line \d+"),
        ("    async_copy.commit_group()\n    for i", "    for i", "no group was committed"),
    ],
    ids=["one_too_many", "never_committed"],
)
def test_how_many_groups_a_wait_leaves_is_said(find, replace, said, tmp_path):
    source = KERNELS.read_text()
    assert source.count(find) == 1
    module = load(source.replace(find, replace), tmp_path / "wrong_gluon.py")
    with pytest.raises(Wrong) as wrong:
        run(module, "prefetched", 0)
    assert re.search(said, message(wrong.value.fault))


def test_an_order_is_replayed_by_its_seed(tmp_path):
    find = "mbarrier.wait(full.index(slot), i // 2 & 1)\n        tile"
    source = KERNELS.read_text().replace(find, find.replace("// 2 ", ""))
    module = load(source, tmp_path / "wrong_gluon.py")

    def kind(seed: int) -> str:
        with pytest.raises(Wrong) as wrong:
            run(module, "ring", seed)
        return message(wrong.value.fault)

    first = [kind(seed) for seed in range(6)]
    assert len(set(first)) > 1
    assert first == [kind(seed) for seed in range(6)]


def test_each_case_of_a_puzzle_has_an_order_of_its_own_which_k_replays(tmp_path):
    edit = (
        "phase = tile // SLOTS & 1\n        mbarrier.wait(full",
        "phase = tile & 1\n        mbarrier.wait(full",
    )
    source = mutants.edited(paths.SOLUTIONS / "19_gluon" / "barrier_ring.py", *edit)
    cases = [it for it in runner.cases_of("19_gluon/barrier_ring", "solved") if "orders" in it.test]
    with runner.graded("19_gluon/barrier_ring", source, tmp_path):
        first, again = ([str(runner.first_fault([it])[1]) for it in cases] for _ in range(2))
    assert first == again
    assert len(set(first)) > 1


def test_no_thread_is_left_after_a_fault(tmp_path):
    find = "        mbarrier.arrive(empty.index(slot), count=1)\n        gl.store"
    module = load(
        KERNELS.read_text().replace(find, "        gl.store"), tmp_path / "wrong_gluon.py"
    )
    before = threading.active_count()
    with pytest.raises(Wrong):
        run(module, "ring", 0)
    assert threading.active_count() == before
