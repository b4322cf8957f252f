"""Progress is kept by the content of a file, and so found again when a file is brought back."""

from __future__ import annotations

from course.plugin.ladder import LEVELS, PRODUCTION, checks_of
from course.plugin.progress import MAX_VERSIONS, Progress, counted, is_done


class Cache(dict):
    """pytest's cache, as far as progress uses it."""

    def set(self, key, value):
        self[key] = value


def write(folder, text):
    (folder / "01_pointwise").mkdir(exist_ok=True)
    (folder / "01_pointwise" / "swish.py").write_text(text)


def found(cache, folder):
    return Progress(cache, folder).of("01_pointwise/swish")


def add(cache, folder, **findings):
    progress = Progress(cache, folder)
    progress.add("01_pointwise/swish", findings)
    progress.save()


def test_runs_of_parts_add_up(tmp_path):
    cache = Cache()
    write(tmp_path, "one")
    add(cache, tmp_path, solved={"test_masks": True, "test_shapes": False})
    add(cache, tmp_path, solved={"test_shapes": True}, production={"test_masks": False})
    assert found(cache, tmp_path) == {
        "solved": {"test_masks": True, "test_shapes": True},
        "production": {"test_masks": False},
    }


def test_a_file_that_is_brought_back_is_solved_again(tmp_path):
    cache = Cache()
    write(tmp_path, "right")
    add(cache, tmp_path, solved={"test_masks": True})
    write(tmp_path, "being changed")
    assert found(cache, tmp_path) == {}
    add(cache, tmp_path, solved={"test_masks": False})
    write(tmp_path, "right")
    assert found(cache, tmp_path) == {"solved": {"test_masks": True}}


def test_old_contents_are_forgotten(tmp_path):
    cache = Cache()
    for number in range(MAX_VERSIONS + 2):
        write(tmp_path, f"version {number}")
        add(cache, tmp_path, solved={"test_masks": True})
    write(tmp_path, "version 0")
    assert found(cache, tmp_path) == {}
    write(tmp_path, f"version {MAX_VERSIONS + 1}")
    assert found(cache, tmp_path)


def test_without_a_cache_a_run_knows_itself_alone(tmp_path):
    write(tmp_path, "one")
    add(None, tmp_path, solved={"test_masks": True})
    assert found(None, tmp_path) == {}


def test_what_is_not_solved_does_not_count_in_production(tmp_path):
    puzzle = "01_pointwise/swish"
    passed = {
        level: {f"test_{check}": True for check in checks_of(puzzle, level)} for level in LEVELS
    }
    write(tmp_path, "one")
    cache = Cache()
    add(cache, tmp_path, **passed)
    assert counted([puzzle], Progress(cache, tmp_path)) == "1 of 1 solved, 1 in production"
    add(cache, tmp_path, solved={"test_masks": False})
    assert counted([puzzle], Progress(cache, tmp_path)) == "0 of 1 solved"
    assert not is_done(found(cache, tmp_path), puzzle, PRODUCTION)
