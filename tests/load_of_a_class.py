"""Grade a large class sealed, kill it once, go on, and watch what grows.

python tests/load_of_a_class.py FOLDER [--people 200] [--kill-after 500] [--minutes 60] [--jobs 2]

FOLDER gets the people's folders, the results, and samples.csv. That has a line for each ten
seconds: what was graded; the processes, open files and resident memory of the class's command and
of all that it started; and the files in its folder of temporary files.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course import paths  # noqa: E402
from course.proof import mutants  # noqa: E402

SWISH = "01_pointwise/swish"
PUZZLES = (
    SWISH, "01_pointwise/vector_add", "02_indexing/scale", "03_reductions/row_sum",
    "04_softmax/softmax",
)  # fmt: skip
CHEATS = ROOT / "tests" / "cheats"
NATURAL = ROOT / "tests" / "alternatives" / "natural"
CRASHES = "import ctypes\n\n\ndef {name}(*args):\n    ctypes.string_at(0)\n"
HANGS = "def {name}(*args):\n    while True:\n        pass\n"
KINDS = ("solution", "natural", "mutant", "cheat", "empty", "crashes", "cheat", "mutant", "hangs")
COLUMNS = ("seconds", "graded", "processes", "files", "own_mb", "all_mb", "temporary")


def person_of(number: int) -> dict[str, str]:
    """Return the sources of one person, by puzzle. One in nine of each kind."""
    kind = KINDS[number % len(KINDS)]
    found = {it: (paths.SOLUTIONS / f"{it}.py").read_text() for it in PUZZLES}
    if kind == "natural":
        found = {it: (NATURAL / f"{it}.py").read_text() for it in PUZZLES}
    elif kind == "mutant":
        for puzzle in PUZZLES:
            table = mutants.FOLDER / f"{puzzle.partition('/')[0]}.toml"
            own = [it for it in mutants.read(table) if it.puzzle == puzzle]
            found[puzzle] = own[number % len(own)].source()
    elif kind == "cheat":
        files = sorted(CHEATS.rglob("*.py"))
        cheats = [it for it in files if f"puzzle: {SWISH}" in it.read_text()]
        found["honest"] = found[SWISH]
        found[SWISH] = cheats[number % len(cheats)].read_text()
    elif kind == "empty":
        found = dict.fromkeys(PUZZLES, "")
    elif kind in ("crashes", "hangs"):
        form = CRASHES if kind == "crashes" else HANGS
        found = {it: form.format(name=it.partition("/")[2]) for it in PUZZLES}
    return found


def make(folder: Path, people: int) -> None:
    for number in range(people):
        kind = KINDS[number % len(KINDS)]
        for puzzle, source in person_of(number).items():
            file = folder / f"p{number:03}-{kind}" / f"{puzzle}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source)


def tree(root: int) -> list[int]:
    """Return this process and all that come from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            told = (entry / "stat").read_text().rpartition(")")[2].split()
            children.setdefault(int(told[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found


def resident(process: int) -> float:
    """Return what a process has in memory, in MB."""
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6
    return 0.0


def files_of(process: int) -> int:
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{process}/fd"))
    return 0


def left_over(temporary: Path) -> list[str]:
    """Return what still runs of processes that had this folder for their temporary files."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            int(entry.name)
            if f"TMPDIR={temporary}".encode() in (entry / "environ").read_bytes():
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found.append(command[:120])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in (("people", 200), ("kill-after", 500), ("minutes", 60), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    folder = given.folder.absolute()
    temporary, results = folder / "tmp", folder / "results"
    make(folder / "class", given.people)
    temporary.mkdir(parents=True, exist_ok=True)
    tests = [f"puzzles/{it.replace('/', '/test_')}.py" for it in PUZZLES]
    command = [sys.executable, "-m", "pytest", *tests, "--subject", str(folder / "class")]
    command += ["--sealed", "--results", str(results), "--jobs", str(given.jobs)]
    command += ["--time-limit", "5", "--junitxml", str(folder / "found.xml")]
    command += ["-p", "no:cacheprovider"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    began, killed = time.monotonic(), False
    samples = (folder / "samples.csv").open("a")
    print(",".join(COLUMNS), file=samples, flush=True)

    def begin() -> subprocess.Popen:
        log = (folder / "class.log").open("ab")
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    process = begin()
    for _ in itertools.count():
        time.sleep(10)
        graded = len([it for it in results.rglob("*.json") if ".part" not in it.name])
        every = tree(process.pid)
        row = [
            int(time.monotonic() - began), graded, len(every), sum(map(files_of, every)),
            round(resident(process.pid)), round(sum(map(resident, every))),
            sum(1 for _ in temporary.rglob("*")),
        ]  # fmt: skip
        print(",".join(map(str, row)), file=samples, flush=True)
        over = time.monotonic() - began > given.minutes * 60
        if process.poll() is not None or over:
            break
        if graded >= given.kill_after and not killed:
            killed = True
            process.kill()
            process.wait()
            time.sleep(10)
            print("killed; still running:", left_over(temporary), flush=True)
            print("temporary:", sorted(it.name for it in temporary.iterdir()), flush=True)
            process = begin()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    print("exit status", process.wait(600), flush=True)
    time.sleep(10)
    print("still running:", left_over(temporary))
    print("temporary:", sorted(it.name for it in temporary.iterdir()))


if __name__ == "__main__":
    main()
