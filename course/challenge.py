"""A puzzle, as its test file sees it: the checks that hold a subject to its spec."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
import torch
from triton.runtime.errors import OutOfResources

from course.benchmark import timing
from course.desk import comparison
from course.grading import ResultCheck, Spec
from course.inputs import apart, current, parameters_of, reserve
from course.options import asked
from course.paths import SOLUTIONS, display_path
from course.pictures.calls import Candidate
from course.pictures.roofline import Timed
from kernelgauge.compilation.ahead_of_time import Compiled, DoesNotFit, check_compiles
from kernelgauge.core import timeouts
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import dtype_name
from kernelgauge.core.figure import Figure
from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import nbytes
from kernelgauge.core.verdict import NotMeasured, Unsolved, Wrong
from kernelgauge.diagnosis.other_cases import OtherCase
from kernelgauge.interpreter import overflow
from kernelgauge.memory.budgets import Traffic
from kernelgauge.speed import buffers, gpu, measure
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.timer import CudaTimer
from kernelgauge.subject import loader, tamper
from kernelgauge.subject.canaries import MAX_COPIED_BYTES
from kernelgauge.subject.gradients import Differentiable
from kernelgauge.subject.guard import MAX_SCALARS_READ, one_stream
from kernelgauge.subject.guarded_call import GuardedCall, Outcome
from kernelgauge.words.fault import Call

# What the running test measured, for the scoreboard, by kind of check.
measured: dict[str, str] = {}
# The columns of the race that the running test made, for the table of times.
raced: dict[str, str] = {}
# The traffic that the running test counted, which knows what of it a budget allows, and the other
# figures that it measured.
_counted_traffic: list[Traffic] = []
_figures: list[Figure] = []
# What the running test found of the learner's call beside our solution's, by kind of check.
compared: dict[str, comparison.Group] = {}
# Of each file one call of each kind is compared.
_compared: set[tuple[Path, str]] = set()

# The calls of the running test that may be drawn, and what its races measured, for --pictures.
drawable: list[Candidate] = []
timed: list[Timed] = []

# What looks at compile checks and at traffic instead of grading, for --compiled and --try.
observer: Observer | None = None

# The interpreter is slow: one case in so many is run on other contents first, and once more after.
THOROUGH = 3
# How many cases each state of a learner's file has been through.
_cases: Counter[tuple[Path, int]] = Counter()
# What other cases of the file that is being graded gave. While they run they are gathered.
_others: dict[tuple[Path, int], list[OtherCase]] = {}
# The tests that each state of a learner's file has passed, and the one that checks it now.
_passed: defaultdict[tuple[Path, int], set[str]] = defaultdict(set)
_under_way: tuple[tuple[Path, int], str] | None = None
_gathered: list[OtherCase] | None = None
# The causes of wrong results that were named of each state of a learner's file.
_named: defaultdict[tuple[Path, int], list[str]] = defaultdict(list)
MAX_OTHER_FAILURES = 4
MAX_GATHERED_ELEMENTS = 2**15
MAX_GATHERING_SECONDS = 3.0
# Larger inputs are not run a second time with other contents: the interpreter is slow.
MAX_DECOYED_ELEMENTS = 2**14
# In calls of more elements the terms behind a result are not measured, and a wrong result is not
# diagnosed: both run the reference many times, on numbers that the host draws.
MAX_DIAGNOSED_ELEMENTS = 2**24

# How many peers stand on a roofline.
MAX_PEERS = 2
# What of a measured limit is as good as our solution, however fast that is.
NEAR_LIMIT = 0.9


class Observer(Protocol):
    """Sees what the tests of a puzzle ask for, and what of it was measured."""

    def compiles(
        self, puzzle: Challenge, inputs: tuple, options: dict, targets: Sequence[str]
    ) -> None:
        """Take the place of a compile check."""

    def moved(self, traffic: Traffic) -> None:
        """Take notice of what a call moves, before it is compared with its budget."""


def challenge(function: str, **rules: Any) -> Challenge:
    """Return the puzzle whose test file calls this, for example puzzles/07_matmul/test_tiled.py.

    function: the name of the function to grade; the reference has the same name
    rules: the other fields of `course.grading.Spec`
    """
    module = sys._getframe(1).f_globals
    return Challenge(Spec(function, Path(module["__file__"]), **rules), module)


def begin() -> None:
    """Forget what the test before left."""
    global _under_way
    _under_way = None
    measured.clear()
    raced.clear()
    compared.clear()
    drawable.clear()
    timed.clear()
    _counted_traffic.clear()
    _figures.clear()


def figures() -> list[Figure]:
    """Return what the running test measured, beside what its budgets and its bar ask for."""
    return [*(it for traffic in _counted_traffic for it in traffic.figures), *_figures]


def passed() -> None:
    """Note that the test that runs has passed."""
    if _under_way:
        file, test = _under_way
        _passed[file].add(test)


class Challenge:
    """One puzzle, and what its tests ask of a subject.

    Every check raises Unsolved where the stub is untouched, Wrong where the subject does not do
    what the check asks, and NotMeasured where this machine cannot tell.
    """

    def __init__(self, spec: Spec, module: Mapping[str, Any] | None = None):
        self.spec, self.module = spec, module or {}

    @property
    def subject(self) -> Callable:
        """The function to grade. Raises Unsolved or Wrong."""
        return self.spec.subject

    def check(self, *inputs: Any, scalars: int = MAX_SCALARS_READ, **options: Any) -> None:
        """Check one case: run the subject under guard, then compare with the truth.

        inputs, options: what the subject is called with
        scalars: how many the launcher may read back; 0 where it must not wait for the GPU
        """
        self._check(inputs, options, readable=scalars)

    def check_exactly(self, *inputs: Any, **options: Any) -> None:
        """Check one case whose result must be the truth itself, rounded once."""
        self._check(inputs, options, exact=True)

    def check_late(self, *inputs: Any, **options: Any) -> None:
        """Check one case of several ranks, also with the first rank late, and with the last.

        A late rank gets its inputs and starts its launches later than all others.
        """
        self._check(inputs, options, late=True)

    def check_offsets(self, *inputs: Any, **options: Any) -> None:
        """Check one case; in the interpreter an int32 that overflows is an error."""
        with overflow.overflow_errors() if settings.interpreted else contextlib.nullcontext():
            # Poisoned integers overflow on their own.
            self._check(inputs, options, poison=False)

    def check_grid(self, *inputs: Any, **options: Any) -> None:
        """Check one case of more programs than an axis of a grid takes.

        On a GPU, large calls are compared without what takes minutes. In the interpreter, where so
        many programs take minutes, only the grids of the launches are checked.
        """
        arguments = self._arguments(inputs, options)
        outcome = self._guarded(arguments).run(programs="none")
        if settings.interpreted:
            return
        size = sum(tensor.numel() for tensor in (*arguments.tensors.values(), *outcome.results))
        if size > MAX_DIAGNOSED_ELEMENTS:
            tensors = tuple(arguments.tensors.values())
            ResultCheck(self.spec).compare_large(arguments, tensors, outcome.results)
        else:
            self.check(*inputs, **options)

    def check_large_offsets(self, *inputs: Any, **options: Any) -> None:
        """Check that offsets into a result of more than 2**31 elements are not of 32 bits.

        In the interpreter only the first and the last program of each launch run, on memory that is
        reserved and hardly touched, and their accesses are checked, not what they compute. On a GPU
        all programs run, and each element must be stored.
        """
        if _gathered is not None:
            return
        call = self._guarded(self._arguments(inputs, options))
        if not settings.interpreted:
            with gpu.exclusive():
                _run_if_memory_suffices(call)
            return
        reserve(MAX_COPIED_BYTES // 2, "float16")
        with overflow.overflow_errors():
            configs = call.run(programs="ends", poison=False).configs
            for config in range(1, configs):
                call.run(programs="ends", poison=False, config=config)

    def check_or_raises(
        self,
        *inputs: Any,
        names: str,
        error: type[Exception] = ValueError,
        answer: bool = True,
        **options: Any,
    ) -> None:
        """Check input beyond the spec: it raises `error`, or gets the right answer.

        What the reference answers is right. Where it has no answer, because sizes or dtypes do not
        fit together, only the error will do.

        names: the parameter that the error's message must mention as a word
        answer: False where the reference returns something that means nothing, such as
            probabilities rounded to integers; only the error will do then
        """
        arguments = self._arguments(inputs, options)
        answer = answer and self._has_answer(arguments)
        call = f"{display_path(self.spec.path)}: {self.spec.function}({arguments})"
        wanted = f"{call} must raise {error.__name__} that names {names}"
        if answer:
            wanted += ", or return the right answer"
        try:
            self._guarded(arguments).run()
        except Unsolved:
            raise
        except Wrong as wrong:
            raised = wrong.__cause__
            if not isinstance(raised, error) or isinstance(raised, Wrong):
                raise Wrong(f"{wanted}; instead:\n{wrong}") from wrong
            if not re.search(rf"\b{re.escape(names)}\b", str(raised)):
                raise Wrong(f'{wanted}; its message is "{raised}"') from wrong
            return
        if not answer:
            raise Wrong(f"{wanted}, but it returned\nhint: check the inputs before you allocate")
        try:
            self.check(*inputs, **options)
        except Wrong as wrong:
            raise Wrong(f"{wanted}; instead:\n{wrong}") from wrong

    def _has_answer(self, arguments: Arguments) -> bool:
        """Whether the reference answers this call at all."""
        try:
            with torch.no_grad():
                self.spec.reference(*arguments.positional, **arguments.keyword)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return False
        return True

    def traffic(self, *inputs: Any, config: int | None = None, **options: Any) -> Traffic:
        """Count what one call moves. Returns the Traffic, whose `check` compares with a budget.

        config: index of the autotuner's configuration, after pruning; the first by default
        """
        arguments = self._arguments(inputs, options)
        self._note_for_pictures(arguments)
        traffic = _counted(self._guarded(arguments), config)
        measured["traffic"] = _moved(traffic)
        _counted_traffic.append(traffic)
        if observer is not None:
            observer.moved(traffic)
        if self._compares("traffic"):
            ours = _counted(self._guarded(arguments, ours=True), None)
            compared["traffic"] = comparison.of_traffic(str(arguments), traffic, ours)
        return traffic

    def configs(self, *inputs: Any, **options: Any) -> int:
        """Return how many configurations an autotuner tries for this call, 1 without one.

        Those that `prune_configs_by` leaves out do not count.
        """
        return self._guarded(self._arguments(inputs, options)).run(programs="none").configs

    def saved_for_backward(self, *inputs: Any, at_most: int, **options: Any) -> None:
        """Check how much stays for the backward pass, beside the inputs and the result.

        at_most: bytes
        """
        call = self._guarded(self._arguments(inputs, options))
        assert isinstance(call.subject, Differentiable), "the puzzle needs gradients=True"
        call.subject.keep = True
        out = call.run().results[0]
        known = {x.untyped_storage().data_ptr() for x in (out, *call.arguments.tensors.values())}
        beside = [x for x in call.subject.kept if x.untyped_storage().data_ptr() not in known]
        size = nbytes(beside)
        _figures.append(Figure("kept for the backward pass", size, at_most, "bytes"))
        if size > at_most:
            tensors = ", ".join(f"{dtype_name(x.dtype)} {tuple(x.shape)}" for x in beside)
            raise Wrong(
                f"{display_path(self.spec.path)}: {self.spec.function} keeps {size} bytes for the "
                f"backward pass beside its inputs and its result, the budget is {at_most}: "
                f"{tensors}\n"
                "hint: what is cheap to make again in the backward pass need not be kept"
            )

    def compiles(
        self,
        *inputs: Any,
        every_config: bool = False,
        spills: int | None = None,
        targets: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        """Check that every kernel that the subject launches compiles for real GPUs and fits.

        At the first level Triton must accept it and its shared memory must fit, which LLVM IR
        settles. In production the first configuration goes on to machine code for the last of the
        targets; where spills are limited, all do.

        every_config: each configuration of an autotuner must fit each GPU. Otherwise one that fits
            is enough, since Triton skips those that need more shared memory than there is.
        spills: how many bytes a thread may spill to memory, if the spec limits them
        targets: the GPUs to compile for, instead of those of this run, where the dtypes of the
            puzzle exist on some GPUs only
        """
        arguments = self._arguments(inputs, options)
        targets = settings.targets if targets is None else targets
        if observer is not None:
            observer.compiles(self, inputs, options, targets)
            return
        runs = self._launches(self._guarded(arguments))
        for target in targets:
            misfits = []
            for launches in runs:
                try:
                    check_compiles(
                        launches,
                        (target,),
                        subject=self.spec.path,
                        machine_code=self.spec.is_production
                        and target == targets[-1]
                        and launches is runs[0],
                        spills=spills,
                    )
                except DoesNotFit as misfit:
                    misfits.append(misfit)
            if misfits and (every_config or len(misfits) == len(runs)):
                raise misfits[0]
        if self._compares("compiles"):
            ours = self._launches(self._guarded(arguments, ours=True))
            yours_need, ours_need = (
                _first_that_fits(runs, targets[-1], path)
                for runs, path in ((runs, self.spec.path), (ours, self._our_path))
            )
            if yours_need and ours_need:
                group = comparison.of_resources(str(arguments), yours_need, ours_need)
                compared["compiles"] = group

    def launches(self, *inputs: Any, **options: Any) -> list[list[Launch]]:
        """Return what the subject launches, for each configuration of an autotuner."""
        return self._launches(self._guarded(self._arguments(inputs, options)))

    def described(self, *inputs: Any, **options: Any) -> str:
        """Return the arguments of a call as messages show them: x: float32 (37, 1000)."""
        return str(self._arguments(inputs, options))

    def counted(self, *inputs: Any, **options: Any) -> Traffic | None:
        """Check the results of one case, with an autotuner's first configuration.

        Returns what it moves, None on a GPU.
        """
        call = self._guarded(self._arguments(inputs, options))
        results = ResultCheck(self.spec)
        expected = results.expected(call.original)
        outcome = call.run(order="shuffled", count=True, poison=self.spec.is_production)
        results.compare(call, outcome, expected)
        return outcome.watch.traffic if outcome.watch else None

    def race(
        self,
        *inputs: Any,
        at_least: float,
        bytes_moved: int | None = None,
        operations: tuple[float, str] | None = None,
        baseline: str | None = None,
        kept: Sequence[str] = (),
        **options: Any,
    ) -> None:
        """Check that the subject is at least so many times as fast as the reference.

        at_least: the speed-up that the spec asks for
        bytes_moved: the least that any kernel must load and store; each input and result once if
            neither this nor operations is given
        operations: how many the tensor cores must do, a multiplication and an addition being two,
            and the dtype that they are done in
        baseline: another function of the reference file, to race instead of the reference; or
            "solution" for ours, where 90 % of the GPU's measured limit is enough too
        kept: names of inputs whose contents are the same in every timed call, where others would be
            no valid input (offsets that must increase)
        """
        spec = self.spec
        arguments = self._arguments(inputs, options)
        outcome = self._guarded(arguments).run()
        whole = nbytes((*arguments.tensors.values(), *outcome.results))
        if bytes_moved is None and operations is None:
            bytes_moved = whole
        del outcome

        tensors = tuple(arguments.tensors.values())
        fixed = [at for at, name in enumerate(arguments.tensors) if name in kept]
        contents = buffers.redrawn(tensors, fixed) if fixed else tensors

        def check(tensors: tuple, results: Any) -> None:
            ResultCheck(spec).compare_large(arguments, tensors, results)

        def race_with(opponent: str, at_least: float) -> RaceResult:
            with tamper.untouched(spec.path), one_stream():
                return measure.race(
                    spec.on_tensors(spec.subject, arguments),
                    spec.on_tensors(spec.opponent(opponent), arguments),
                    contents,
                    at_least=at_least,
                    bytes_moved=bytes_moved,
                    operations=operations,
                    check=check,
                    limits=limits,
                    scale=asked.speed_scale,
                )

        with gpu.exclusive():
            limits = gpu.measured_limits()
            race = race_with(baseline or spec.function, at_least)
            sides = {"yours": race.interval.subject_ms, _side(baseline): race.interval.reference_ms}
            compares = self._compares("speedup")
            if compares or (asked.draws and baseline != "solution"):
                # The verdict is that of the race above: this one gives two times, or none.
                with contextlib.suppress(Wrong, ValueError):
                    beside = race_with("solution", 0.0)
                    sides["ours"] = beside.interval.reference_ms
                    if compares:
                        compared["speedup"] = comparison.of_times(str(arguments), beside)
            if asked.times_peers:
                sides |= self._fastest_peers(arguments, contents)
        if asked.draws and limits:
            call = f"{spec.function}({arguments})"
            timed.append(Timed.of(limits, call, bytes_moved or whole, operations, sides))
        # A subject that works in the first call only, and then remembers, is found out here.
        self._guarded(arguments).run()
        measured["speedup"] = race.summary()
        raced.update(race.columns())
        _figures.extend(race.figures())
        near_limit = baseline == "solution" and (race.share or 0.0) >= NEAR_LIMIT
        if race.verdict != "passed" and not near_limit:
            raise Wrong(race.fault().but(call=Call(str(spec.path))))

    def _fastest_peers(
        self, arguments: Arguments, inputs: tuple | Callable[[int], tuple]
    ) -> dict[str, float]:
        """Return the times of what a user would take instead, of those that run here."""
        puzzle = f"{self.spec.chapter}/{self.spec.name}"
        times: dict[str, float] = {}
        # Compiling some takes a minute. What one of them raises says nothing of the subject.
        with timeouts.no_time_limit(), contextlib.suppress(Exception):
            times = timing.time_peers(
                puzzle, inputs, CudaTimer(), lambda peer: self.spec.on_tensors(peer, arguments)
            )
        return dict(sorted(times.items(), key=lambda it: it[1])[:MAX_PEERS])

    @contextlib.contextmanager
    def given(
        self, *, multiprocessors: int | None = None, shared_memory: int | None = None
    ) -> Iterator[None]:
        """Let the subject's own functions that ask for a GPU's size, which stubs give, return this.

        multiprocessors: what `multiprocessors(device)` returns
        shared_memory: what `shared_memory(device)` returns, in bytes
        """
        names = inspect.unwrap(self.spec.subject).__globals__
        sizes = {"multiprocessors": multiprocessors, "shared_memory": shared_memory}
        with pytest.MonkeyPatch.context() as patch:
            for name, size in sizes.items():
                if size is not None:
                    patch.setitem(names, name, lambda device, size=size: size)
            yield

    def _check(
        self,
        inputs: tuple,
        options: dict,
        *,
        poison: bool = True,
        exact: bool | None = None,
        readable: int = MAX_SCALARS_READ,
        late: bool = False,
    ) -> None:
        global _under_way
        if _gathered is not None:
            self._gather(_gathered, inputs, options, exact)
            return
        _under_way = self._file(), current()
        arguments = self._arguments(inputs, options)
        results = ResultCheck(self.spec, exact, self._others, _named[self._file()])
        self._note_for_pictures(arguments, results)
        call = self._guarded(arguments, readable)
        # Lanes that are masked off without `other` are 0 in compiled code, and kernels that people
        # ship rely on it. In production they hold what spoils a result.
        poison = poison and self.spec.is_production
        thorough = self._is_turn()
        size = sum(tensor.numel() for tensor in arguments.tensors.values())
        if thorough and (not settings.interpreted or size <= MAX_DECOYED_ELEMENTS):
            call.fill_with_decoys()
            next(self._outcomes(call, poison=poison))
            call.restore()
        expected = results.expected(call.original)
        outcomes = self._outcomes(call, order="shuffled", poison=poison)
        for number, outcome in enumerate(outcomes):
            results.compare(call, outcome, expected)
            if self.spec.alike:
                results.check_alike(outcome.results)
            if late:
                results.check_late(call, expected, poison=poison)
            # Without atomics, nothing that the interpreter runs depends on the order.
            unordered = thorough or (outcome.watch and outcome.watch.has_atomics)
            if number == 0 and self.spec.deterministic and unordered:
                results.check_repeatable(call, outcome, poison=poison)
            call.restore()

    def _note_for_pictures(self, arguments: Arguments, results: ResultCheck | None = None) -> None:
        """Keep a call, to be drawn once the test has ended."""
        if asked.draws and settings.interpreted:
            candidate = Candidate(
                f"{self.spec.chapter}/{self.spec.name}",
                self.spec.function,
                arguments,
                lambda: self._guarded(arguments),
                lambda: results.mismatch if results else None,
            )
            drawable.append(candidate)

    def _others(self, this: Callable[[], OtherCase]) -> Sequence[OtherCase]:
        """Run some other cases of this file, once for each state of the learner's file.

        this: returns what the case that runs tells about them in turn
        """
        global _gathered
        file = self._file()
        if file not in _others:
            _others.clear()
            _gathered = _others[file] = []
            try:
                self._run_others(time.process_time() + MAX_GATHERING_SECONDS, this)
            finally:
                _gathered = None
        return [case for case in _others[file] if case.test != current()]

    def _run_others(self, until: float, this: Callable[[], OtherCase]) -> None:
        chosen: list[tuple] = []
        rest: list[tuple] = []
        for name, test in self.module.items():
            if re.match(r"test_(shapes|masks|numerics)", name):
                found = list(parameters_of(test))
                for number, (label, values) in enumerate(found):
                    # The first, and the one in the middle: neither the smallest nor a special one.
                    cases = chosen if number in (0, len(found) // 2) else rest
                    cases.append((f"{name}[{label}]" if label else name, test, values))
        gathered = _gathered if _gathered is not None else []

        def run_while(wanted: Callable, cases: Sequence[tuple]) -> None:
            """Run these cases while the failing ones so far want more of them."""
            for name, test, values in cases:
                failing = [case for case in gathered if case.wrong]
                if not wanted(failing) or time.process_time() > until:
                    return
                if name == current():
                    gathered.append(this())
                elif name not in _passed[self._file()]:
                    # What else is wrong is told where it is tested.
                    with apart(name), contextlib.suppress(Exception):
                        test(**values)

        run_while(lambda failing: len(failing) < MAX_OTHER_FAILURES, chosen)
        # Cases in which all is NaN tell little.
        run_while(lambda failing: failing and not any(case.has_numbers for case in failing), rest)

    def _gather(
        self, gathered: list[OtherCase], inputs: tuple, options: dict, exact: bool | None
    ) -> None:
        """Run a case to learn from it, whatever comes out."""
        arguments = self._arguments(inputs, options)
        if sum(tensor.numel() for tensor in arguments.tensors.values()) > MAX_GATHERED_ELEMENTS:
            return
        call = self._guarded(arguments)
        outcome = call.run(order="shuffled", poison=self.spec.is_production)
        results = ResultCheck(self.spec, exact)
        expected = results.expected(call.original)
        gathered.append(results.other_case(call, outcome, expected))

    def _file(self) -> tuple[Path, int]:
        """Return what stands for the present state of the learner's file. Raises Unsolved."""
        loader.require_file(self.spec.path)
        return self.spec.path, self.spec.path.stat().st_mtime_ns

    def _is_turn(self) -> bool:
        """Whether this case is run on decoys and repeated: all on a GPU, else one in THOROUGH.

        The first case of a file is one, so that a case that fails in a run fails alone, too.
        """
        file = self._file()
        _cases[file] += 1
        return not settings.interpreted or _cases[file] % THOROUGH == 1

    def _compares(self, check: str) -> bool:
        """Whether the call of this test is made with our solution, too: one of each file."""
        key = self.spec.path, check
        if not asked.compares or self.spec.is_production or key in _compared:
            return False
        _compared.add(key)
        return True

    @property
    def _our_path(self) -> Path:
        return SOLUTIONS / self.spec.chapter / f"{self.spec.name}.py"

    def _launches(self, call: GuardedCall) -> list[list[Launch]]:
        """Return what a call launches, with each configuration of an autotuner."""
        try:
            return [outcome.launches for outcome in self._outcomes(call, programs="none")]
        except NotMeasured:
            # What it launches depends on what its kernels compute.
            return [outcome.launches for outcome in self._outcomes(call)]

    def _outcomes(self, call: GuardedCall, **how: Any) -> Iterator[Outcome]:
        """Run the call once for each configuration of its autotuner that fits this GPU."""
        config, misfit, ran = 0, None, False
        while config == 0 or config < call.configs:
            try:
                outcome = call.run(config=config, **how)
            except Wrong as wrong:
                if not isinstance(wrong.__cause__, OutOfResources):
                    raise
                misfit = wrong
            else:
                ran = True
                yield outcome
            config += 1
        if misfit and not ran:
            raise misfit

    def _arguments(self, inputs: tuple, options: dict) -> Arguments:
        parameters = inspect.signature(self.spec.reference).parameters
        return Arguments(tuple(parameters), inputs, options)

    def _guarded(
        self, arguments: Arguments, readable: int = MAX_SCALARS_READ, *, ours: bool = False
    ) -> GuardedCall:
        spec = self.spec
        call = GuardedCall(
            spec.opponent("solution") if ours else spec.subject,
            self._our_path if ours else spec.path,
            arguments,
            in_place=spec.in_place,
            readable=readable,
            interpreted=settings.interpreted,
        )
        call.restore()
        return call


def _run_if_memory_suffices(call: GuardedCall) -> None:
    """Raises NotMeasured where the GPU has too little memory."""
    try:
        call.run()
    except (Wrong, torch.OutOfMemoryError) as error:
        if not isinstance(error.__cause__ or error, torch.OutOfMemoryError):
            raise
        raise NotMeasured("this GPU has too little memory for so large a result") from None


def _side(baseline: str | None) -> str:
    """Return what a picture calls the opponent of a race."""
    return {None: "eager PyTorch", "solution": "ours"}.get(baseline, "the reference")


def _counted(call: GuardedCall, config: int | None) -> Traffic:
    """Run a call and count what it moves. Raises NotMeasured on a GPU."""
    watch = call.run(count=True, config=config).watch
    if not (watch and watch.traffic):
        raise NotMeasured("traffic is counted in the interpreter: set TRITON_INTERPRET=1")
    return watch.traffic


def _first_that_fits(runs: Sequence[Sequence[Launch]], target: str, path: Path) -> list[Compiled]:
    """Return what the kernels need of the first configuration that fits; nothing if none does."""
    for launches in runs:
        # Whether they have to compile is another question, and has been answered.
        with contextlib.suppress(Wrong):
            return check_compiles(launches, (target,), subject=path, details=True)
    return []


def _moved(traffic: Traffic) -> str:
    """Say how often each tensor was read and written, for the scoreboard."""
    moves = [
        (name, verb, times)
        for name, moved in traffic.tensors.items()
        for verb, times in (("read", moved.loads), ("written", moved.stores))
        if times
    ]
    return ", ".join(f"{name} {verb} {times:.3g}x" for name, verb, times in moves)
