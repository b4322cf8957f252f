"""The hooks by which pytest grades puzzles: choose the mode, limit, report, and survive crashes."""

from __future__ import annotations

import contextlib
import gc
import tempfile
from pathlib import Path

import pytest

from course import paths
from course.desk import hints
from course.options import asked
from course.plugin import (
    cluster,
    desk,
    diagnoses,
    environment,
    given_up,
    ladder,
    page,
    pictures,
    scheduling,
    sealing,
    selection,
    watch,
)
from course.plugin import people as class_of_people
from course.plugin import scoreboard as reporting
from course.plugin.time_left import TimeLeft
from kernelgauge import words
from kernelgauge.core import crash_notes, timeouts
from kernelgauge.core.settings import settings
from kernelgauge.core.verdict import NotMeasured, NotRun, Verdict, Wrong
from kernelgauge.words.fault import note

machine = pytest.StashKey[environment.Environment]()
notes = pytest.StashKey[tempfile.TemporaryDirectory]()
order = pytest.StashKey[int]()
observed = pytest.StashKey[diagnoses.Diagnoses]()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Choose the mode before any plugin starts workers, which inherit it.

    What grades nothing is done here, and no run begins.
    """
    option = config.option
    if option.help or option.version:
        return None
    desk.check(option)
    if desk.is_asked(option):
        return desk.run(config)
    if option.cluster:
        cluster.check(option)
    if option.sealed:
        sealing.check(option)
    if option.solutions and option.subject:
        raise pytest.UsageError("--solutions and --subject name different files: give one of them")
    if not hasattr(config, "workerinput"):
        if not option.one_of_class:
            page.check(option)
        people = class_of_people.find(option)
        if len(people) > 1 or (option.results and people and not option.one_of_class):
            return class_of_people.run(config, people)
    if option.watch:
        ended = watch.run(config)
        if ended is not None:
            return ended
    try:
        config.stash[machine] = environment.prepare()
    except environment.CannotRun as reason:
        raise pytest.UsageError(str(reason)) from None
    if not config.pluginmanager.hasplugin("xdist"):
        option.numprocesses, option.maxworkerrestart = 0, "0"
    if option.tries or option.compiled is not None:
        # What one process finds out about a kernel is what it prints.
        option.numprocesses = 0
    # A kernel that crashes on a GPU takes its process along: let that be a worker.
    debugging = option.usepdb or option.trace or option.capture == "no" or option.collectonly
    alone = option.numprocesses is None and not hasattr(config, "workerinput")
    if alone and not debugging and not config.stash[machine].interpreted:
        option.numprocesses = 1
    # However many puzzles end their process, the others are graded.
    if option.maxworkerrestart is None:
        option.maxworkerrestart = str(10**6)
    return None


def pytest_configure(config):
    if machine not in config.stash:
        return
    if config.option.solutions:
        settings.subjects = paths.SOLUTIONS
    elif people := class_of_people.find(config.option):
        (settings.subjects,) = people.values()
    if config.option.sealed:
        sealing.begin(config)
    both = config.option.production or config.option.solutions
    config.args[:] = list(dict.fromkeys(selection.arguments(config.args, both)))
    from course.plugin import session

    config.stash[observed] = diagnoses.Diagnoses()
    config.pluginmanager.register(config.stash[observed])
    if not config.stash.get(watch.started, False):
        session.start(config)
    from course.plugin import experiments

    board = watch.board(config) or experiments.look(config) or reporting.Scoreboard(config)
    config.pluginmanager.register(board, "scoreboard")
    # A class needs what was found of each person, also where it has no page.
    wanted = asked.draws or page.files_of(config)
    gallery = draw_pictures(config) if wanted else None
    if gallery and (files := page.files_of(config)):
        machine_in_words = config.stash[machine].header()[0].partition(": ")[2]
        written = page.Page(config, files, machine_in_words, board, gallery)
        config.pluginmanager.register(written)
    if worker := getattr(config, "workerinput", None):
        given_up.share(Path(worker["notes"]))
        crash_notes.keep_log(Path(worker["notes"]) / worker["workerid"])


def draw_pictures(config) -> pictures.Gallery | None:
    """Draw where tests run, and collect where the run is controlled. Raises pytest.UsageError."""
    from course.plugin import looks

    config.pluginmanager.register(pictures.Artist())
    if hasattr(config, "workerinput"):
        return None
    folder = config.option.pictures
    gallery = pictures.Gallery(folder and looks.folder_to_write("--pictures", folder))
    config.pluginmanager.register(gallery)
    return gallery


def pytest_sessionstart(session):
    config = session.config
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal and terminal.isatty and config.option.verbose >= 0:
        time_left = TimeLeft(getattr(config, "cache", None))
        time_left.show_in(terminal)
        config.pluginmanager.register(time_left)


def pytest_ignore_collect(collection_path, config):
    both = config.option.production or config.option.solutions
    return selection.is_hidden(collection_path, config.args, both) or None


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
    from course.plugin import session

    sealed = sealing.header(config) if config.option.sealed else []
    return config.stash[machine].header() + sealed + [it.line for it in session.complaints]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    items[:], left_out = selection.split_proof(
        selection.in_order(items), config.option.proof, config.args
    )
    config.hook.pytest_deselected(items=left_out)
    for number, item in enumerate(items):
        item.stash[order] = number


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Spare the garbage collection what lives on: torch, Triton, the tests and their names.

    It takes a tenth of a run otherwise. The interpreter makes many objects and few cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionfinish(session):
    """Diagnose what a run that stops has left.

    Repairs of Triton that did not take make every verdict doubtful: no such run passes.
    """
    from course.plugin import session as judge_session

    if (seen := session.config.stash.get(observed, None)) and (found := seen.rest()):
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[diagnoses.PROPERTY] = found
        elif board := session.config.pluginmanager.getplugin("scoreboard"):
            board.take(found)
    # A repair that only saves time is told, and no verdict depends on it.
    doubtful = any(not it.only_slows for it in judge_session.complaints)
    unrepaired = doubtful and not session.config.option.allow_unrepaired
    if unrepaired and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    from course.plugin import session

    for line, only_slows in session.complaints:
        terminalreporter.line(line, red=not only_slows, yellow=only_slows)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    from course import inputs
    from course.plugin import session
    from kernelgauge.speed import gpu

    puzzle = ladder.puzzle_of(item.path)
    session.begin(item.nodeid, defers=bool(puzzle))
    if puzzle and (why := given_up.why(puzzle)):
        raise NotRun(f"{puzzle} {why}")
    if puzzle:
        session.require_measurable(ladder.check_of(item.name), ladder.level_of(item.path))
    commands = item.get_closest_marker("commands")
    rules = getattr(getattr(item.module, "puzzle", None), "rules", None)
    # A race of ranks has them on one GPU.
    every = bool(rules and rules.ranks) and ladder.check_of(item.name) != "speedup"
    held = contextlib.nullcontext() if commands else gpu.shared(every)
    # Each of the processes it starts takes seconds before its own limit begins.
    seconds = item.config.option.time_limit * (3 if commands else 1)
    if settings.debugged:
        seconds = 0.0
    with held:
        try:
            try:
                with timeouts.time_limit(seconds):
                    return (yield)
            except Exception as error:
                if inputs.are_hollow and not isinstance(error, Verdict):
                    # What a test makes of them may need numbers.
                    raise NotMeasured("speed takes a GPU") from None
                if not gpu.ran_out_of_memory(error):
                    raise
            # Other workers may have had the memory: once more without them.
            with gpu.exclusive(), timeouts.time_limit(seconds):
                session.begin(item.nodeid, defers=bool(puzzle))
                try:
                    item.runtest()
                except Exception as error:
                    # Otherwise pytest keeps the frames, and the tensors in them fill the GPU.
                    if not gpu.ran_out_of_memory(error) or isinstance(error, Verdict):
                        raise
                    raise NotMeasured("this GPU has too little memory") from None
        except Wrong as wrong:
            # Each test of it would take as long again, or another cell.
            if puzzle and wrong.fault.kind in given_up.SAID:
                given_up.add(puzzle, wrong.fault.kind, item.name)
            # Before the GPU is handed on: that waits for its work to end.
            if isinstance(wrong, timeouts.Overrun) and gpu.is_busy():
                capture = item.config.pluginmanager.getplugin("capturemanager")
                with capture.global_and_fixture_disabled():
                    said = (*wrong.fault.said, note("kernel-still-runs"))
                    crash_notes.end_process(wrong.fault.but(said=said))
            raise


def pytest_enter_pdb():
    from kernelgauge.subject import audit

    timeouts.lift_time_limit()
    audit.debugged.append(True)


def _withholds_causes(item) -> bool:
    """Whether a learner is to find causes in this test, and has not seen all hints."""
    if getattr(getattr(item.module, "puzzle", None), "names_causes", True):
        return False
    return not hints.are_all_seen(getattr(item.config, "cache", None), item.module.puzzle.puzzle)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    from course import running

    error = call.excinfo.value if call.excinfo else None
    withheld = isinstance(error, Wrong) and _withholds_causes(item)
    text = words.message(words.symptom(error.fault)) if withheld else str(error)
    if isinstance(error, Verdict):
        # pytest would draw a traceback, with the source of each frame, which takes long.
        item.repr_failure = lambda excinfo: text
    if isinstance(error, Wrong):
        item.config.stash[observed].keep(item, item.stash.get(order, 0), error, withheld)
    made = yield
    if isinstance(error, NotMeasured):
        made.outcome = "skipped"
        made.longrepr = (str(item.path), item.location[1], f"not measured: {error}")
    elif isinstance(error, NotRun):
        made.longrepr = f"not run: {error}"
    elif isinstance(error, Verdict):
        made.longrepr = text
    puzzle = ladder.puzzle_of(item.path)
    if puzzle and call.when == "call":
        item.config.stash[observed].keep_right(item, running.current().right)
    if puzzle and (call.when == "call" or made.failed):
        reporting.describe(
            made,
            puzzle,
            ladder.level_of(item.path),
            item.name,
            error,
            order=item.stash.get(order, 0),
            run=running.current(),
            withheld=withheld,
        )
    if puzzle and call.when == "teardown":
        found = item.config.stash[observed].through(item)
        made.user_properties += [(diagnoses.PROPERTY, found)] if found else []
    return made


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let one process run all tests of a puzzle's file, as -n asks without --dist."""
    if config.getvalue("dist") != "load":
        return None
    share_gpu = len(config.getvalue("tx")) > 1 and not config.stash[machine].interpreted
    return scheduling.scheduling(config, log, races_last=share_gpu)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Take in what a worker found of files that it did not finish."""
    board = node.config.pluginmanager.getplugin("scoreboard")
    if board:
        board.take(getattr(node, "workeroutput", {}).get(diagnoses.PROPERTY, []))


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, report):
    """A worker died in this test: say of what, and count it for its puzzle."""
    worker = report.node.workerinput
    folder = Path(worker["notes"])
    path, _, name = crashitem.partition("::")
    puzzle = ladder.puzzle_of(paths.HOME / path)
    subject = settings.subjects / f"{puzzle}.py" if puzzle else paths.HOME / path
    fault = crash_notes.describe_crash(folder / worker["workerid"], subject)
    report.location = (path, None, name)
    report.longrepr = words.message(fault)
    if puzzle:
        given_up.add(puzzle, fault.kind, name, folder)
        reporting.describe(report, puzzle, ladder.level_of(Path(path)), name, Wrong(fault))


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report):
    return reporting.status(report)
