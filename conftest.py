"""pytest's view of the judge: options, hooks and the header."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.core import crash_notes, paths, timeouts
from judge.core.settings import settings
from judge.core.verdict import NotMeasured, NotRun, Verdict, Wrong
from judge.plugin import environment, ladder
from judge.plugin import scoreboard as reporting

pytest_plugins = ["pytester"]
machine = pytest.StashKey[environment.Environment]()
notes = pytest.StashKey[tempfile.TemporaryDirectory]()
order = pytest.StashKey[int]()


def pytest_addoption(parser):
    group = parser.getgroup("triton kata")
    add = group.addoption
    add("--solutions", action="store_true", help="grade the reference solutions, not the stubs")
    add("--subject", metavar="DIR", help="grade the files of DIR, a folder that mirrors puzzles/")
    add("--production", action="store_true", help="grade by the second level too")
    add(
        "--time-limit",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="end a test after so long, 0 for never (default: 60)",
    )
    add(
        "--speed-scale",
        type=float,
        default=1.0,
        metavar="FACTOR",
        help="ask for so much of each speed-up: the bars were set on an H200 (default: 1)",
    )
    add(
        "--targets",
        default="sm_80,sm_90",
        metavar="LIST",
        help="what test_compiles compiles for (default: sm_80,sm_90; gfx942 is an AMD GPU)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Choose the mode before any plugin starts workers, which inherit it."""
    option = config.option
    if option.help or option.version:
        return
    try:
        config.stash[machine] = environment.prepare()
    except environment.CannotRun as reason:
        raise pytest.UsageError(str(reason)) from None
    # A kernel that crashes on a GPU takes its process along: let that be a worker.
    debugging = option.usepdb or option.trace or option.capture == "no" or option.collectonly
    alone = option.numprocesses is None and not hasattr(config, "workerinput")
    if alone and not debugging and not config.stash[machine].interpreted:
        option.numprocesses = 1
    # However many puzzles end their process, the others are graded.
    if option.maxworkerrestart is None:
        option.maxworkerrestart = str(10**6)


def pytest_configure(config):
    if machine not in config.stash:
        return
    if config.option.solutions and config.option.subject:
        raise pytest.UsageError("--solutions and --subject name different files: give one of them")
    if config.option.solutions:
        settings.subjects = paths.SOLUTIONS
    elif config.option.subject:
        settings.subjects = Path(config.option.subject).resolve()
        if not settings.subjects.is_dir():
            raise pytest.UsageError(f"--subject {config.option.subject}: there is no such folder")
    config.args[:] = list(dict.fromkeys(_asked_for(config)))
    from judge.plugin import session

    session.start(config, config.stash[machine])
    config.pluginmanager.register(reporting.Scoreboard(config))
    if worker := getattr(config, "workerinput", None):
        crash_notes.share(Path(worker["notes"]), worker["workerid"])


def _asked_for(config) -> Iterator[str]:
    """The tests of a stub that was named, and both levels of a test file where both are graded."""
    for argument in config.args:
        path, *test = argument.split("::")
        file = Path(path)
        if file.suffix == ".py" and not file.name.startswith("test_"):
            tests = file.with_name(f"test_{file.name}")
            file = tests if ladder.puzzle_of(tests.resolve()) and tests.exists() else file
        yield "::".join([str(file), *test])
        twin = file.parent / paths.PRODUCTION / file.name
        if _both_levels(config) and file.suffix == ".py" and twin.exists():
            name = test[0].partition("[")[0] if test else ""
            if f"def {name}(" in twin.read_text() or not name:
                yield "::".join([str(twin), *test])


def _both_levels(config) -> bool:
    return config.option.production or config.option.solutions


def pytest_ignore_collect(collection_path, config):
    """Collect the second level only where it is asked for, by an option or by its own path."""
    if collection_path.name != paths.PRODUCTION or not collection_path.is_dir():
        return None
    given = (Path(argument.split("::")[0]).resolve() for argument in config.args)
    own = any(path.is_relative_to(collection_path) for path in given)
    return None if own or _both_levels(config) else True


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Give the workers of this run a folder for what the controller and the others must know."""
    stash = node.config.stash
    if notes not in stash:
        stash[notes] = tempfile.TemporaryDirectory(prefix="triton-kata-")
        node.config.add_cleanup(stash[notes].cleanup)
    node.workerinput["notes"] = stash[notes].name
    # xdist would end the run if another worker is gone of which it has not heard yet. It hears it
    # next, and gives the tests to others.
    send = node.sendcommand

    def send_if_alive(name, **arguments):
        with contextlib.suppress(OSError):
            send(name, **arguments)

    node.sendcommand = send_if_alive


def pytest_report_header(config):
    from judge.plugin import session

    return config.stash[machine].header() + session.complaints


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Climb the ladder in order, not by file name."""
    steps = {puzzle: number for number, puzzle in enumerate(ladder.ladder())}
    items.sort(
        key=lambda item: (
            steps.get(ladder.puzzle_of(item.path), -1),
            ladder.LEVELS.index(ladder.level_of(item.path)),
        )
    )
    for number, item in enumerate(items):
        item.stash[order] = number


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    from judge.plugin import session
    from judge.speed import gpu

    puzzle = ladder.puzzle_of(item.path)
    if puzzle and (why := crash_notes.given_up(puzzle)):
        raise NotRun(f"not run: {puzzle} {why}")
    session.begin(item.nodeid)
    if puzzle:
        session.require_measurable(ladder.check_of(item.name))
    commands = item.get_closest_marker("commands")
    held = contextlib.nullcontext() if commands else gpu.shared()
    # Each of the processes it starts takes seconds before its own limit begins.
    seconds = item.config.option.time_limit * (3 if commands else 1)
    with held:
        try:
            with timeouts.time_limit(seconds):
                return (yield)
        except timeouts.Overrun as overrun:
            if puzzle:
                crash_notes.give_up(puzzle, f"did not return within the time limit in {item.name}")
            # Before the GPU is handed on: that waits for its work to end.
            if gpu.is_busy():
                capture = item.config.pluginmanager.getplugin("capturemanager")
                with capture.global_and_fixture_disabled():
                    crash_notes.end_process(
                        f"{overrun}\nthe kernel still runs: its process was ended"
                    )
            raise


def pytest_enter_pdb():
    timeouts.lift_time_limit()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    from judge import challenge

    made = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, NotMeasured):
        made.outcome = "skipped"
        made.longrepr = (str(item.path), item.location[1], f"not measured: {error}")
    elif isinstance(error, Verdict):
        made.longrepr = str(error)
    puzzle = ladder.puzzle_of(item.path)
    if puzzle and (call.when == "call" or made.failed):
        reporting.describe(
            made,
            puzzle,
            ladder.level_of(item.path),
            item.name,
            error,
            order=item.stash.get(order, 0),
            measured=challenge.measured,
            raced=challenge.raced,
        )
    return made


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, report):
    """A worker died in this test: say of what, and count it for its puzzle."""
    worker = report.node.workerinput
    folder = Path(worker["notes"])
    reason = crash_notes.describe_crash(folder, worker["workerid"])
    path, _, name = crashitem.partition("::")
    report.location = (path, None, name)
    report.longrepr = f"{path}: {reason}"
    if puzzle := ladder.puzzle_of(paths.ROOT / path):
        crash_notes.give_up(puzzle, f"ended its process in {name}", folder)
        reporting.describe(report, puzzle, ladder.level_of(Path(path)), name, Wrong(reason))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    return reporting.status(report)
