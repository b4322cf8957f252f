"""What is drawn of a kernel whose accesses are known, and which pictures of a run are kept."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course import running
from course.observers import Drawing, Racing
from course.pictures.calls import KINDS, Candidate, legibility
from course.pictures.errors import errors, levels
from course.pictures.layout import views_of
from course.pictures.order import order
from course.pictures.programs import programs
from course.pictures.reuse import reuse
from course.pictures.roofline import Timed, roofline
from course.pictures.scene import Scene
from course.pictures.sectors import fetch_of, sectors
from course.plugin import pictures
from course.plugin.scoreboard import describe
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.verdict import Wrong
from kernelgauge.memory.recording import MAX_LANES, Recording
from kernelgauge.memory.watch import Watch
from kernelgauge.numerics.compare import compare
from kernelgauge.words import message as message_of
from kernelgauge.words.fault import Call, Fault, Place
from tests.launching import copy_kernel, interpreted_only
from tests.simulated_limits import H200

SVG = "{http://www.w3.org/2000/svg}"


@triton.jit
def tile_kernel(x_ptr, y_ptr, M, N, stride_x, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    """Programs along axis 0; within a GROUP of rows of tiles, column after column."""
    pid, tiles_n = tl.program_id(0), tl.cdiv(N, BLOCK)
    in_group = GROUP * tiles_n
    row = pid // in_group * GROUP + pid % in_group % GROUP
    column = pid % in_group // GROUP
    rows = (row * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = (column * BLOCK + tl.arange(0, BLOCK))[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * stride_x + cols, mask=mask)
    tl.store(y_ptr + rows * N + cols, x, mask=mask)


@triton.jit
def twice_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.sum(tl.load(x_ptr + offs)) / BLOCK
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) - mean)


@triton.jit
def add_row_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0) * BLOCK + cols, tl.load(x_ptr + cols) + 1)


@triton.jit
def add_first_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    own = tl.program_id(0) * BLOCK + offs
    tl.store(y_ptr + own, tl.load(x_ptr + own) + tl.load(x_ptr + offs))


@triton.jit
def gather_kernel(x_ptr, index_ptr, y_ptr, STEP: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = offs * STEP if STEP else tl.load(index_ptr + offs)
    tl.store(y_ptr + offs, tl.load(x_ptr + index))


def scene(kernel, grid: tuple[int, ...], *args, **constants) -> Scene:
    """Launch a kernel and record it."""
    record = Recording()
    with Watch(record=record, poison=False):
        kernel[grid](*args, **constants)
    return Scene("00_test/kernel", "kernel(x)", "", record.launches[0], record.touches)


def copied(size: int, mask: str, block: int = 32) -> Scene:
    x = torch.arange(size, dtype=torch.float32)
    grid = (triton.cdiv(size, block),)
    return scene(copy_kernel, grid, x, torch.empty_like(x), size, BLOCK=block, MASK=mask)


def tiles(M: int, N: int, group: int = 1, block: int = 16) -> Scene:
    x = torch.zeros(M, N)
    grid = (triton.cdiv(M, block) * triton.cdiv(N, block),)
    return scene(tile_kernel, grid, x, torch.empty_like(x), M, N, N, BLOCK=block, GROUP=group)


def parsed(picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def boxes(picture, kind: str) -> list[tuple[float, float, float, float]]:
    """Return x, y, width and height of the boxes of all paths that have this class."""
    found = []
    for path in parsed(picture).iter(f"{SVG}path"):
        if kind in path.get("class", "").split():
            for box in re.findall(r"M(\S+) (\S+)h(\S+)v(\S+)h", path.get("d")):
                found.append(tuple(map(float, box)))
    return found


def frames(picture) -> list[tuple[float, float, float, float]]:
    """Return x, y, width and height of the frames around tensors."""
    return [
        tuple(float(rect.get(name)) for name in ("x", "y", "width", "height"))
        for rect in parsed(picture).iter(f"{SVG}rect")
        if rect.get("class") == "frame"
    ]


def words(picture) -> list[str]:
    return [text.text for text in parsed(picture).iter(f"{SVG}text")]


# Who touches what


@interpreted_only
def test_each_program_has_its_part_and_the_rest_of_the_last_tile_is_hatched():
    picture = programs(copied(100, "both"))
    x, y = frames(picture)
    assert x[2] == pytest.approx(y[2], abs=0.1)
    ones = boxes(picture, "one")
    assert len(ones) == 2 * 4
    # 28 of the 128 lanes are beyond the 100 elements, to the right of the frame.
    (hatched, _) = boxes(picture, "masked")
    assert hatched[0] == pytest.approx(x[0] + x[2], abs=0.1)
    assert hatched[2] == pytest.approx(0.28 * x[2], abs=0.1)
    assert not boxes(picture, "out")
    assert words(picture).count("3") == 2


@interpreted_only
def test_a_forgotten_mask_is_red_outside_the_frame_and_harms_nothing():
    memory = torch.full((128,), 7.0)
    out = memory[:100]
    record = Recording()
    with Watch(record=record):
        copy_kernel[(4,)](torch.ones(100), out, 100, BLOCK=32, MASK="none")
    assert memory[:100].eq(1).all()
    assert memory[100:].eq(7).all()
    picture = programs(Scene("p", "f()", "", record.launches[0], record.touches))
    red = boxes(picture, "out")
    assert len(red) == 2
    for (left, _, width, _), box in zip(frames(picture), red, strict=True):
        assert box[0] == pytest.approx(left + width, abs=0.1)
    assert "56 lanes are out of bounds" in picture.caption


@interpreted_only
def test_lanes_far_out_of_bounds_stay_in_the_picture():
    picture = programs(
        scene(
            gather_kernel,
            (2,),
            torch.zeros(64),
            torch.zeros(1),
            torch.zeros(64),
            STEP=1000,
            BLOCK=32,
        )
    )
    assert boxes(picture, "out")
    for x, _, width, _ in boxes(picture, "out"):
        assert 0 <= x <= x + width <= 760


@interpreted_only
def test_past_the_end_of_a_row_is_told_from_the_end_of_the_tensor():
    x = torch.zeros(4, 24)
    # The mask lets 32 columns through: of three rows they reach into the next, of the last beyond.
    wide = scene(tile_kernel, (2,), x, torch.zeros(4, 32), 4, 32, 24, BLOCK=16, GROUP=1)
    picture = programs(wide)
    (left, top, width, height), _ = frames(picture)
    (out,) = boxes(picture, "out")
    (astray,) = boxes(picture, "astray")
    assert out[0] == astray[0] == pytest.approx(left + width, abs=0.1)
    assert out[2] == astray[2] == pytest.approx(width / 3, abs=0.1)
    assert astray[1] == pytest.approx(top, abs=0.1)
    assert astray[3] == pytest.approx(3 * out[3], abs=0.1) == pytest.approx(height * 3 / 4, abs=0.1)


@triton.jit
def pad_kernel(x_ptr, y_ptr, H: tl.constexpr, W: tl.constexpr, MASK: tl.constexpr):
    """One slice a program, and a slice too many: of x (2, 3, H, W), with 1 element of padding."""
    row, col = tl.arange(0, 8)[:, None] - 1, tl.arange(0, 8)[None, :] - 1
    inside = (row >= 0) & (row < H) & (col >= 0) & (col < W)
    for slice in range(tl.program_id(0), 7, 2):
        here = inside & (slice < 6) if MASK else inside
        x = tl.load(x_ptr + slice * H * W + row * W + col, mask=here)
        tl.store(y_ptr + row * W + col, x, mask=here & (slice == 0))


@interpreted_only
@pytest.mark.parametrize("masked", [True, False])
def test_slices_have_room_on_all_sides(masked):
    args = torch.zeros(2, 3, 6, 6), torch.zeros(6, 6)
    picture = programs(scene(pad_kernel, (2,), *args, H=6, W=6, MASK=masked))
    assert bool(boxes(picture, "out")) != masked
    assert ("x[0, 1, :, :]" in words(picture)) == masked
    assert ("x[1, 2, :, :]" in words(picture)) != masked
    left, top, *_ = frames(picture)[0]
    if masked:
        assert min(box[0] for box in boxes(picture, "masked")) < left
        assert min(box[1] for box in boxes(picture, "masked")) < top


@interpreted_only
def test_past_the_last_slice_is_drawn_at_the_last():
    index = torch.arange(32) ** 2 % 96
    index[7] = 101
    args = torch.zeros(2, 3, 4, 4), index, torch.empty(32)
    picture = programs(scene(gather_kernel, (1,), *args, STEP=0, BLOCK=32))
    assert len(boxes(picture, "out")) == 1
    assert "x[1, 2, :, :]" in words(picture)


@interpreted_only
def test_neighbouring_tiles_differ_in_colour():
    picture = programs(tiles(80, 80))
    classes = {}
    for path in parsed(picture).iter(f"{SVG}path"):
        kind = path.get("class", "").split()
        if "one" in kind:
            (title,) = path.iter(f"{SVG}title")
            classes[int(title.text.removeprefix("program "))] = kind[-1]
    assert len(classes) == 25
    for program in range(25):
        if program % 5 < 4:
            assert classes[program] != classes[program + 1]
        if program < 20:
            assert classes[program] != classes[program + 5]


@interpreted_only
def test_what_several_programs_touch_is_striped_and_counted_where_it_is_loaded_again():
    known = scene(add_first_kernel, (4,), torch.ones(64), torch.empty(64), BLOCK=16)
    picture = programs(known)
    assert len(boxes(picture, "several")) == 1
    assert "0 1 2 3" in words(picture)
    heat = reuse(known)
    assert "x 1 to 5 times" in heat.caption
    first, rest = sorted(boxes(heat, "heat"))
    assert rest[2] == pytest.approx(3 * first[2], abs=0.1)
    assert {"5x", "1x"} <= set(words(heat))
    assert reuse(copied(100, "both")) is None


@interpreted_only
def test_what_nothing_stores_is_said():
    x = torch.zeros(100)
    known = scene(copy_kernel, (3,), x, torch.empty(100), 100, BLOCK=32, MASK="both")
    assert "No program stores the grey elements of y." in programs(known).caption
    # The mask turns off what these lanes would store.
    known = scene(copy_kernel, (4,), x, torch.empty(100), 90, BLOCK=32, MASK="both")
    assert "No program stores the hatched elements of y." in programs(known).caption


@interpreted_only
def test_captions_say_only_what_is_drawn():
    few, many = programs(copied(100, "both")), programs(copied(20001, "both"))
    assert "Each colour is one program, and its id is written in it." in few.caption
    assert "differ in colour; their ids are written in them." in many.caption
    assert "Neighbouring programs differ in colour." in programs(copied(2048, "both")).caption
    narrow = scene(
        copy_kernel, (2,), torch.ones(64).half(), torch.ones(64).half(), 64, BLOCK=32, MASK="both"
    )
    assert "A cell is an element." in sectors(narrow).caption
    assert "the number of the lane" in sectors(copied(100, "both")).caption
    rows = tile_kernel, (4,), torch.zeros(8, 8), torch.empty(8, 8), 8, 8, 8
    assert "number is that of the program" in order(scene(*rows, BLOCK=4, GROUP=1)).caption
    twice = scene(twice_kernel, (2,), torch.ones(64), torch.empty(64), BLOCK=32)
    assert "Elements are loaded: x 2 times. Every load" in reuse(twice).caption
    assert "Larger tiles" not in reuse(twice).caption
    row, out = torch.ones(32), torch.empty(4, 32)
    shared = scene(add_row_kernel, (4,), row, out, BLOCK=32)
    assert "x 4 times" in reuse(shared).caption
    assert "Larger tiles need fewer loads." in reuse(shared).caption


# The order of tiles


@interpreted_only
@pytest.mark.parametrize(("group", "second"), [(1, (0, 1)), (2, (1, 0))])
def test_the_order_shows_groups(group, second):
    picture = order(tiles(64, 64, group))
    (way,) = [p for p in parsed(picture).iter(f"{SVG}path") if p.get("class") == "step"]
    points = np.array(re.findall(r"([\d.]+) ([\d.]+)", way.get("d")), dtype=float)
    assert len(points) == 16
    side = frames(picture)[0][2] / 4
    assert tuple(np.round((points[1] - points[0]) / side)[::-1]) == second


@interpreted_only
def test_no_order_where_it_is_plain():
    assert order(copied(400, "both")) is None
    assert order(tiles(16, 48)) is None


# Sectors


@interpreted_only
@pytest.mark.parametrize(
    ("step", "said"),
    [(1, "4 sectors: 128 of 128"), (2, "8 sectors: 128 of 256"), (8, "32 sectors: 128 of 1024")],
)
def test_sectors_are_counted(step, said):
    x = torch.zeros(64 * step)
    known = scene(gather_kernel, (2,), x, torch.zeros(1), torch.empty(64), STEP=step, BLOCK=32)
    picture = sectors(known)
    assert any(line.startswith(said) for line in words(picture))
    assert len(boxes(picture, "used")) == 64
    assert ("Neighbouring lanes should" in picture.caption) == (step > 1)


@triton.jit
def rows_kernel(x_ptr, index_ptr, y_ptr, N: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    """Copy rows by their numbers, in tiles whose axis 0 is along ROWS of x or along its columns."""
    if ROWS:
        rows, cols = tl.arange(0, BLOCK)[:, None], tl.arange(0, N)[None, :]
    else:
        rows, cols = tl.arange(0, BLOCK)[None, :], tl.arange(0, N)[:, None]
    chosen = tl.load(index_ptr + rows)
    tl.store(y_ptr + rows * N + cols, tl.load(x_ptr + chosen * N + cols))


@interpreted_only
@pytest.mark.parametrize("rows", [True, False])
def test_lanes_run_along_the_axis_of_close_addresses(rows):
    args = torch.zeros(8, 16), torch.tensor([5, 0, 7, 2]), torch.empty(4, 16)
    known = scene(rows_kernel, (1,), *args, N=16, BLOCK=4, ROWS=rows)
    (load,) = [fetch_of(touch) for touch in known.touches if touch.tensor.name == "x"]
    # Rows 5 and 0, each of 16 elements of 4 bytes.
    assert load.sectors.tolist() == [0, 1, 10, 11]
    assert load.share == 1


# Wrong results


def wrong_in(shape: tuple[int, ...], *places: tuple) -> object:
    truth = torch.ones(shape, dtype=torch.float64)
    got = truth.float()
    for place, value in places:
        got[place] = value
    return compare(got, truth, truth.float(), name="the result")


@interpreted_only
def test_the_map_of_errors_has_a_step_for_each_size():
    mismatch = wrong_in((8, 8), ((0, 0), 1.0001), ((7, 7), 9.0), ((3, 4), torch.nan))
    assert sorted(np.unique(levels(mismatch)).tolist()) == [1, 3, 4, 5]
    picture = errors("p", "f()", mismatch, tiles(8, 8, block=4).touches)
    assert len(boxes(picture, "wrong")) == 3
    assert "wrong in 3 of 64 elements" in picture.caption
    assert "borders of the tiles" in picture.caption
    # Four tiles, and four colours of the legend.
    assert len([r for r in parsed(picture).iter(f"{SVG}rect") if r.get("class") == "line"]) == 8


@interpreted_only
def test_tiles_are_outlined_in_the_slice_that_they_belong_to():
    args = torch.zeros(1, 1, 8, 8), torch.empty(1, 1, 8, 8), 8, 8, 8
    known = scene(tile_kernel, (4,), *args, BLOCK=4, GROUP=1)
    picture = errors("p", "f()", wrong_in((1, 1, 8, 8), ((0, 0, 0, 0), 2.0)), known.touches)
    assert "borders of the tiles" in picture.caption


@interpreted_only
def test_where_one_tile_is_all_that_is_seen_no_borders_are_said():
    whole = scene(copy_kernel, (1,), torch.zeros(64), torch.empty(64), 64, BLOCK=64, MASK="both")
    wrong = wrong_in((64,), ((3,), 2.0))
    assert "borders" not in errors("p", "f()", wrong, whole.touches).caption


def test_of_many_slices_those_that_are_wrong_are_drawn():
    picture = errors("p", "f()", wrong_in((5, 3, 4, 4), ((3, 1, 0, 0), 2.0)), ())
    assert "result[3, 1, :, :]" in words(picture)
    assert "result[0, 0, :, :]" in words(picture)


def test_of_a_large_result_the_whole_is_seen_by_the_worst_of_its_parts():
    picture = errors("p", "f()", wrong_in((600, 60), ((599, 59), 2.0), ((40, 3), 2.0)), ())
    assert "Each cell stands for 13 x 2 elements" in picture.caption
    ((left, top, width, height),) = frames(picture)
    wrong = sorted(boxes(picture, "wrong"))
    assert [box[0] for box in wrong] == [
        pytest.approx(left + width * column / 60, abs=0.1) for column in (2, 58)
    ]
    # Rows 39 to 51, and the last two.
    assert wrong[0][1] == pytest.approx(top + height * 39 / 600, abs=0.1)
    assert wrong[1][3] == pytest.approx(height * 2 / 600, abs=0.1)
    assert not [word for word in words(picture) if word.startswith("only ")]


# The roofline


def timed(operations=None) -> Timed:
    times = {"yours": 0.5, "eager PyTorch": 0.4, "ours": 0.25}
    return Timed.of(H200, "test_only(x)", 428e6, operations, times)


def test_bars_where_only_bytes_are_counted():
    picture = roofline("p", timed())
    (copy,) = [text for text in words(picture) if text.startswith("a copy")]
    assert copy == "a copy: 4.28 TB/s"
    assert "yours 20 %, eager PyTorch 25 %, ours 40 %" in picture.caption
    bars = {
        rect.get("class"): float(rect.get("width"))
        for rect in parsed(picture).iter(f"{SVG}rect")
        if re.fullmatch(r"p\d", rect.get("class"))
    }
    assert bars["p2"] == pytest.approx(2 * bars["p0"], rel=0.01)


def test_kernels_stand_under_the_roof_by_powers_of_ten():
    picture = roofline("p", timed((42.8e9, "float16")))
    dots = [float(dot.get("cy")) for dot in parsed(picture).iter(f"{SVG}circle")]
    yours, eager, ours = dots
    assert yours > eager > ours
    (roof,) = [p for p in parsed(picture).iter(f"{SVG}path") if p.get("class") == "way"]
    _, (ridge_x, ridge_y), _ = re.findall(r"([\d.]+) ([\d.]+)", roof.get("d"))
    assert float(ridge_y) < ours
    # 100 operations a byte are less than the 163 of the ridge.
    (first, *_) = parsed(picture).iter(f"{SVG}circle")
    assert float(first.get("cx")) < float(ridge_x)
    assert "float16 matmul: 700 TFLOP/s" in words(picture)


# All pictures


@interpreted_only
def test_pictures_are_small_stand_alone_and_many_stand_in_one_page():
    index = torch.randint(0, 4096, (4096,))
    wild = scene(
        gather_kernel, (128,), torch.zeros(4096), index, torch.empty(4096), STEP=0, BLOCK=32
    )
    found = []
    for known in (wild, tiles(80, 72, 2), copied(20001, "both")):
        known.name = f"{len(found)}"
        found += filter(None, (kind(known) for kind in KINDS))
    assert {picture.kind for picture in found} == {"programs", "order", "sectors", "reuse"}
    ids = []
    for picture in found:
        root = parsed(picture)
        assert len(picture.svg) < 300_000
        assert root.get("role") == "img"
        assert [root.find(f"{SVG}title").text, root.find(f"{SVG}desc").text] == [
            picture.title,
            picture.caption,
        ]
        ids += [element.get("id") for element in root.iter() if element.get("id")]
        style = root.find(f"{SVG}style").text
        assert style.startswith("@media (prefers-color-scheme:dark){.kata ")
        # Other viewers than browsers know neither variables nor, some of them, these rules.
        assert "var(" not in picture.svg
        for element in root.iter():
            if element.tag.removeprefix(SVG) in ("rect", "path", "circle", "text"):
                paint = element.get("fill") or element.get("stroke")
                assert re.fullmatch(r"#[0-9a-f]{3,6}|none|url\(#.*\)", paint)
        rules = re.sub(r"@media[^{]*\{", "", style)
        assert all(
            rule.strip(" \n}").startswith(".kata") for rule in re.findall(r"[^{}]+\{", rules)
        )
        used = set(re.findall(r"url\(#([^)]+)\)", picture.svg))
        assert used <= {element.get("id") for element in root.iter(f"{SVG}pattern")}
        assert "http" not in picture.svg.replace("http://www.w3.org/2000/svg", "")
    assert len(ids) == len(set(ids))


@interpreted_only
def test_text_is_escaped():
    known = copied(64, "both")
    known.call = 'f(x < y & "z")'
    assert known.call in words(programs(known))


@interpreted_only
def test_a_long_run_is_recorded_only_so_far():
    block = 2**15
    x = torch.zeros(block)
    record = Recording()
    with Watch(record=record):
        copy_kernel[(100,)](x, torch.empty_like(x), block, BLOCK=block, MASK="both")
    assert len(record.touches) < 2 * 100
    assert sum(touch.element.size for touch in record.touches) <= MAX_LANES + block


@interpreted_only
def test_a_frame_of_too_many_rectangles_is_cut():
    (frame, _) = tiles(128, 128).frames()
    checkered = np.add.outer(np.arange(128), np.arange(128)) % 2 + 1
    plain = np.ones((128, 128), dtype=int)
    cut, whole = views_of([(frame, checkered), (frame, plain)], [checkered, plain])
    assert (cut.is_cut, whole.is_cut) == (True, False)
    assert cut.cut() == "only rows 0 to 31, columns 0 to 63"
    far = np.zeros((128, 128), dtype=int)
    far[100, 120] = 1
    (cut,) = views_of([(frame, checkered)], [far])
    assert cut.cut() == "only rows 84 to 115, columns 64 to 127"


# Which call is drawn


def candidate(programs: int, *sizes: int, block: int = 64) -> Candidate:
    launch = SimpleNamespace(
        grid=(programs, 1, 1), arguments={"BLOCK": block}, constexprs=frozenset({"BLOCK"})
    )
    run = SimpleNamespace(run=lambda programs: SimpleNamespace(launches=[launch]))
    inputs = tuple(torch.zeros(size) for size in sizes)
    names = tuple(f"x{number}" for number in range(len(sizes)))
    return Candidate("00/a", "f", Arguments(names, inputs, {}), lambda: run)


def test_a_small_call_of_several_programs_with_a_ragged_edge_is_best():
    best = candidate(5, 300)
    others = [
        candidate(1, 40),
        candidate(5, *[50] * 6),
        candidate(5, 320),
        candidate(5, 257),
        candidate(300, 64 * 300 - 20),
        candidate(13, 800),
    ]
    assert all(legibility(best) < legibility(other) for other in others)
    assert legibility(candidate(5, 300, 290)) < legibility(candidate(5, 257, 290))
    assert legibility(candidate(1000, 64000)) == []
    assert legibility(candidate(4, 2**19)) == []


def report(test: str, fault: Fault | None = None, **shown) -> SimpleNamespace:
    made = SimpleNamespace(
        passed=not fault,
        skipped=False,
        failed=bool(fault),
        user_properties=[],
        longrepr=fault and message_of(fault),
        capstdout="",
        nodeid=f"puzzles/07_matmul/test_tiled.py::{test}",
    )
    error = Wrong(fault) if fault else None
    describe(made, "07_matmul/tiled", "solved", test, error, order=int(test[-1]))
    if shown:
        made.kata_pictures = [shown]
    return made


PICTURE = {"kind": "programs", "about": "", "title": "t", "caption": "c", "svg": "<svg/>"}


def shown_of(*reports) -> tuple[str, str]:
    gallery = pictures.Gallery()
    for one in reports:
        gallery.pytest_runtest_logreport(one)
    test, shown = gallery.chosen()["07_matmul/tiled"]
    return test.partition("::")[2], shown.call


def test_of_a_failing_puzzle_what_is_printed_first_is_drawn():
    bounds = Fault("out-of-bounds-load", place=Place("a.py", 1, source="tl.load(x)"), tensor="x")
    wrong = Fault("wrong-result", call=Call("a.py", "f", "x"))
    passing = report("test_1", call="passing", rank=[0], pictures=[PICTURE])
    fails = report("test_2", wrong, call="wrong", failed=True, rank=[0], pictures=[PICTURE])
    first = report("test_3", bounds, call="large", failed=True, rank=[2], pictures=[PICTURE])
    alike = report("test_4", bounds, call="small", failed=True, rank=[1], pictures=[PICTURE])
    assert shown_of(passing) == ("test_1", "passing")
    assert shown_of(fails, passing) == ("test_2", "wrong")
    assert shown_of(passing, fails, first, alike) == ("test_4", "small")


def test_the_roofline_stands_beside_the_pictures_of_a_call():
    race = report("test_5", call="race", roofline=True, pictures=[PICTURE | {"kind": "roofline"}])
    gallery = pictures.Gallery()
    gallery.pytest_runtest_logreport(report("test_1", call="f", rank=[0], pictures=[PICTURE]))
    gallery.pytest_runtest_logreport(race)
    _, shown = gallery.chosen()["07_matmul/tiled"]
    assert [picture["kind"] for picture in shown.pictures] == ["programs", "roofline"]


def test_where_a_test_races_its_report_carries_the_roofline(monkeypatch):
    racing = Racing()
    racing.timed = [timed()]
    monkeypatch.setattr(running.current(), "observers", [racing, Drawing()])
    (shown,) = pictures.Artist()._shown(None, report("test_1"), "07_matmul/tiled")
    assert shown.roofline
    assert shown.pictures[0]["kind"] == "roofline"
    made = report("test_1")
    made.kata_pictures = [asdict(shown)]
    assert pictures.of(made) == [shown]


def test_the_folder_keeps_other_puzzles_and_no_old_pictures(tmp_path):
    def shown(*kinds: str) -> pictures.Shown:
        return pictures.Shown("f(x)", pictures=[PICTURE | {"kind": kind} for kind in kinds])

    first = {"01_a/one": ("t1", shown("programs", "errors")), "01_a/two": ("t2", shown("sectors"))}
    assert pictures.write(tmp_path, first) == 3
    again = {"01_a/one": ("t3", shown("programs"))}
    assert pictures.write(tmp_path, again) == 1
    index = json.loads((tmp_path / "pictures.json").read_text())
    assert index["01_a/one"]["test"] == "t3"
    assert index["01_a/two"]["test"] == "t2"
    listed = {one["file"] for puzzle in index.values() for one in puzzle["pictures"]}
    assert listed == {"01_a/one-programs.svg", "01_a/two-sectors.svg"}
    assert {f"01_a/{path.name}" for path in (tmp_path / "01_a").iterdir()} == listed
