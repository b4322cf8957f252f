"""A function that launches kernels, and what can be asked of it.

kernel = Kernel(layer_norm, reference=reference.layer_norm)
kernel.check(x, w, b)                                   # bounds, races, unwritten, tolerance
kernel.traffic(x, w, b).check(reads={"x": 1}, launches=1)
kernel.compiles(x, w, b, targets=["sm_90"], spills=0)
kernel.race(x, w, b, at_least=1.2)                      # needs a GPU
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from triton.runtime.errors import OutOfResources

from kernelgauge import words
from kernelgauge.compilation.ahead_of_time import Compiled, DoesNotFit, check_compiles
from kernelgauge.core.arguments import Arguments
from kernelgauge.core.dtypes import dtype_name, rounds
from kernelgauge.core.figure import Figure
from kernelgauge.core.functions import launcher_name, underlying
from kernelgauge.core.launch import Launch
from kernelgauge.core.settings import settings
from kernelgauge.core.tensors import flat, nbytes
from kernelgauge.core.verdict import NotMeasured, Unsolved, Verdict, Wrong
from kernelgauge.interpreter import overflow
from kernelgauge.limits import Dtypes, check_limits
from kernelgauge.memory.budgets import Traffic
from kernelgauge.memory.executor import sample
from kernelgauge.memory.traffic import Sampled
from kernelgauge.results import Expected, ResultCheck, Tensors
from kernelgauge.rules import Rules
from kernelgauge.run import Run
from kernelgauge.speed import buffers, gpu, measure
from kernelgauge.speed.estimate import Work
from kernelgauge.speed.result import RaceResult
from kernelgauge.speed.roofline import Limits
from kernelgauge.subject import state, tamper
from kernelgauge.subject.canaries import MAX_COPIED_BYTES, uncopied
from kernelgauge.subject.gradients import Differentiable
from kernelgauge.subject.guard import MAX_SCALARS_READ, one_stream
from kernelgauge.subject.guarded_call import GuardedCall, Outcome, name_of
from kernelgauge.words.fault import Call, Fault, Note, note

# The interpreter is slow: of so many cases one is called on other contents first, and of so many
# one is run once more after. Its name chooses it, so that no case depends on which others ran, or
# where.
THOROUGH, REPEATED = 3, 9
# Larger inputs are not run a second time with other contents: the interpreter is slow.
MAX_DECOYED_ELEMENTS = 2**16
# In calls of more elements the terms behind a result are not measured, and a wrong result is not
# diagnosed: both run the reference many times, on numbers that the host draws.
MAX_DIAGNOSED_ELEMENTS = 2**24
# What of a measured limit is as good as the best solution, however fast that is.
NEAR_LIMIT = 0.9


@dataclass
class Contest:
    """A race that was run, and the means to run another with the same inputs.

    label: what the baseline is called
    against: races another function with the subject, and asks for a speed-up
    contents: the inputs of each timed call
    bytes_moved, operations: the least that any kernel must do
    """

    arguments: Arguments
    result: RaceResult
    label: str
    limits: Limits | None
    bytes_moved: int
    operations: tuple[float, str] | None
    contents: tuple | Callable[[int], tuple]
    against: Callable[[Callable, float], RaceResult]


class Kernel:
    """A function that launches kernels, the subject, beside its reference.

    Every check raises Wrong where the subject does not do what the check asks, and NotMeasured
    where this machine cannot tell. `kernelgauge.install()` comes first, before Triton is imported.

    Kernels may come from any file, and the launcher may compute with torch around them. Of what
    torch does itself no access is checked, and none is counted as traffic. A result that torch made
    need not have been stored in full by kernels: an element that none stored is NaN, or a large
    integer, in what torch makes of it, and is found only where that makes the result wrong. What is
    allocated as torch.empty and returned must be stored, by either. A result may be an input, and
    several may lie in one allocation, but not in what an earlier call returned.

    With `strict`, as a course grades people, kernels of the subject's own must do all the work, in
    memory that the launcher allocates, and what checks them must stay as it is. An untouched stub
    raises Unsolved.

    function: the subject
    reference: the same in plain PyTorch, with the same parameters: the truth, in float64, and the
        yardstick, in the inputs' own dtype
    path: its file
    name: what messages call it
    mistakes: a generator of what may be wrong with this function: see diagnosis.mistakes
    poison: whether masked lanes of loads without `other` hold what spoils a result. In compiled
        code they are 0, and kernels that people ship rely on it
    machine_code: whether `compiles` goes on to machine code
    strict: whether the launcher may only allocate and launch
    run: what the running test measures
    rules: the fields of `Rules`
    """

    subject: Callable
    reference: Callable
    path: Path
    mistakes: Callable | None
    strict: bool

    def __init__(
        self,
        function: Callable,
        *,
        reference: Callable,
        mistakes: Callable | None = None,
        poison: bool = True,
        machine_code: bool = True,
        strict: bool = False,
        run: Run | None = None,
        **rules: Any,
    ):
        self.rules, self.strict = Rules(**rules), strict
        self.subject = self.graded(function)
        self.reference = self.graded(_with_parameters(reference, function))
        self.path = Path(inspect.getfile(underlying(function)))
        self.name, self.mistakes = launcher_name(function), mistakes
        self.poison, self.machine_code = poison, machine_code
        self.run = run or Run(self.name)

    @property
    def any_layout(self) -> bool:
        """Whether results need not be contiguous."""
        return bool(self.rules.in_place) or not self.strict

    def graded(self, function: Callable) -> Callable:
        """Return a function as it is graded, with its backward pass if the rules say so."""
        if not self.rules.gradients:
            return function
        # What stands for a function in a cell has its backward pass run there, too.
        return getattr(function, "differentiable", lambda: Differentiable(function))()

    def check(self, *inputs: Any, scalars: int | None = None, **options: Any) -> None:
        """Check one case: run the subject under guard, then compare with the truth.

        inputs, options: what the subject is called with
        scalars: how many the launcher may read back; 0 where it must not wait for the GPU. Any
            number by default, or a few with `strict`
        """
        self._check(inputs, options, readable=scalars)

    def check_exactly(self, *inputs: Any, **options: Any) -> None:
        """Check one case whose result must be the truth itself, rounded once."""
        self._check(inputs, options, exact=True)

    def check_late(self, *inputs: Any, **options: Any) -> None:
        """Check one case of several ranks, and with each rank late in turn.

        A late rank gets its inputs and starts its launches later than all others.
        """
        self._check(inputs, options, late=True)

    def check_offsets(self, *inputs: Any, **options: Any) -> None:
        """Check one case; in the interpreter an int32 that overflows is an error."""
        with overflow.overflow_errors() if settings.interpreted else contextlib.nullcontext():
            # Poisoned integers overflow on their own.
            self._check(inputs, options, poison=False)

    def limits(
        self,
        build: Callable[..., tuple],
        setting: Callable[[dict[str, int]], contextlib.AbstractContextManager] | None = None,
        dtypes: Dtypes = (),
        **sizes: int | range,
    ) -> None:
        """Check that no size ends at a number that stands in the subject's file.

        Each size grows first as far as its share of a budget of the interpreter's work goes. Then
        it is tried just above, at and just below each integer of the file and each product of two,
        the likeliest first, until the budget is spent. The other sizes are as small as they can be.
        What would take more is not run, and the figures of the test say how many such cases there
        were. Fewer cases follow in which other sizes are larger, too, and in other dtypes.

        build: returns the inputs of a call for a value of each size, by name; options may follow
            them as a dict
        setting: what a call with these values runs in
        dtypes: that of what `build` returns, and others that all inputs of it may have in its
            place; or both by the names of inputs, with blanks between, of which one may be a
            dtype itself. Where the file tells one of them from the first, sizes are tried in it too
        sizes: what each of them may be; a number stands for 1 up to that
        """
        spans = {n: range(1, it + 1) if isinstance(it, int) else it for n, it in sizes.items()}
        setting = setting or (lambda values: contextlib.nullcontext())
        check_limits(self, build, spans, setting, dtypes)

    def check_grid(self, *inputs: Any, **options: Any) -> None:
        """Check one case of more programs than an axis of a grid takes.

        On a GPU, large calls are compared without what takes minutes. In the interpreter, where so
        many programs take minutes, only the grids of the launches are checked.
        """
        arguments = self.arguments(inputs, options)
        outcome = self.guarded(arguments).run(programs="none")
        if settings.interpreted:
            return
        size = sum(tensor.numel() for tensor in (*arguments.tensors.values(), *outcome.results))
        if size > MAX_DIAGNOSED_ELEMENTS:
            tensors = tuple(arguments.tensors.values())
            ResultCheck(self).compare_large(arguments, tensors, outcome.results)
        else:
            self.check(*inputs, **options)

    def check_large_offsets(self, *inputs: Any, **options: Any) -> None:
        """Check that offsets into a result of more than 2**31 elements are not of 32 bits.

        In the interpreter few programs of each launch run, at its ends and in between, on memory
        that is reserved and hardly touched, and their accesses are checked, not what they compute.
        On a GPU all programs run, and each element must be stored.
        """
        call = self.guarded(self.arguments(inputs, options))
        if not settings.interpreted:
            with gpu.large():
                fits = _memory_suffices(call)
            if not fits:
                with gpu.exclusive():
                    fits = _memory_suffices(call)
            if not fits:
                raise NotMeasured("this GPU has too little memory for so large a result")
            return
        _require_memory(MAX_COPIED_BYTES)
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
        arguments = self.arguments(inputs, options)
        answer = answer and self._has_answer(arguments)

        def bad(instead: str, raised: str = "", remedy: Note | None = None) -> Fault:
            """Return the fault. instead: what came, a "fault", a "result" or another "message"."""
            asked = {"error": error.__name__, "names": names, "answer": answer}
            wanted = note("must-raise", **asked, instead=instead, raised=raised)
            return Fault("bad-input", (wanted,), call=self.called(arguments), remedy=remedy)

        try:
            self.guarded(arguments).run()
        except Unsolved:
            raise
        except Wrong as wrong:
            raised = wrong.__cause__
            if not isinstance(raised, error) or isinstance(raised, Wrong):
                raise wrong.within(bad("fault")) from wrong
            if not re.search(rf"\b{re.escape(names)}\b", str(raised)):
                raise Wrong(bad("message", raised=str(raised))) from wrong
            return
        if not answer:
            raise Wrong(bad("result", remedy=note("check-inputs-first")))
        try:
            self.check(*inputs, **options)
        except Wrong as wrong:
            raise wrong.within(bad("fault")) from wrong

    def _has_answer(self, arguments: Arguments) -> bool:
        """Whether the reference answers this call at all."""
        try:
            with torch.no_grad():
                self.reference(*arguments.positional, **arguments.keyword)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError):
            return False
        return True

    def traffic(self, *inputs: Any, config: int | None = None, **options: Any) -> Traffic:
        """Count what one call moves. Returns the Traffic, whose `check` compares with a budget.

        With `strict` the results must be right, too, which `check` says after its budgets.

        config: index of the autotuner's configuration, after pruning; the first by default
        """
        arguments = self.arguments(inputs, options)
        call = self.guarded(arguments)
        require_interpreter()
        outcome = call.run(count=True, config=config, poison=self.poison or not self.strict)
        traffic = _traffic_of(outcome)
        if self.strict:
            results = ResultCheck(self)
            try:
                results.compare(call, outcome, results.expected(call.original))
            except Wrong as wrong:
                if wrong.fault.kind == "wrong-form":
                    # No budget means anything.
                    raise
                traffic.wrong = wrong
        else:
            traffic.call = self.called(arguments)
        self.run.traffic.append(traffic)
        for observer in self.run.observers:
            observer.on_traffic(self, arguments, traffic)
        return traffic

    def configs(self, *inputs: Any, **options: Any) -> int:
        """Return how many configurations an autotuner tries for this call, 1 without one.

        Those that `prune_configs_by` leaves out do not count.
        """
        return self.guarded(self.arguments(inputs, options)).run(programs="none").configs

    def declared_configs(self, *inputs: Any, **options: Any) -> int:
        """Return how many different configurations an autotuner has before any are left out.

        0 if this call is not autotuned. In the interpreter, one whose kernel stores nothing of the
        results does not count.
        """
        outcome = next(_outcomes(self.guarded(self.arguments(inputs, options))))
        counts = [
            count
            for kernel, count in outcome.declared.items()
            if not outcome.watch or any(outcome.watch.stores(kernel, it) for it in outcome.results)
        ]
        return max(counts, default=0)

    def saved_for_backward(self, *inputs: Any, at_most: int, **options: Any) -> None:
        """Check how much stays for the backward pass, beside the inputs and the result.

        at_most: bytes
        """
        call = self.guarded(self.arguments(inputs, options))
        assert isinstance(call.subject, Differentiable), "the rules need gradients=True"
        call.subject.keep = True
        out = call.run().results[0]
        known = {x.untyped_storage().data_ptr() for x in (out, *call.arguments.tensors.values())}
        beside = [x for x in call.subject.kept if x.untyped_storage().data_ptr() not in known]
        size = nbytes(beside)
        self.run.noted.append(Figure("kept for the backward pass", size, at_most, "bytes"))
        if size > at_most:
            tensors = [f"{dtype_name(x.dtype)} {tuple(x.shape)}" for x in beside]
            kept = note("kept-for-backward", bytes=size, budget=at_most, tensors=tensors)
            numbers = {"bytes": size, "budget": at_most}
            remedy = note("make-again-in-backward")
            call_ = Call(str(self.path), self.name)
            fault = Fault("kept-too-much", (kept,), call=call_, numbers=numbers, remedy=remedy)
            raise Wrong(fault)

    def compiles(
        self,
        *inputs: Any,
        every_config: bool = False,
        spills: int | None = None,
        div_rn: bool = False,
        asked: Sequence[str] = (),
        targets: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        """Check that every kernel that the subject launches compiles for real GPUs and fits.

        Triton must accept it and its shared memory must fit. For the last of the targets the first
        configuration goes on to LLVM IR, with `machine_code` to that; where spills are limited or
        something is asked of it, all do.

        every_config: each configuration of an autotuner must fit each GPU. Otherwise one that fits
            is enough, since Triton skips those that need more shared memory than there is.
        spills: how many bytes a thread may spill to memory, if that is limited
        div_rn: whether each division of floats must be rounded to nearest, as tl.div_rn does
        asked: what the machine code must have, of `ahead_of_time.ASKED`
        targets: the GPUs to compile for, instead of those of this run
        """
        arguments = self.arguments(inputs, options)
        targets = settings.targets if targets is None else targets
        looking = self.run.observers
        # Each of them, also after one that took its place.
        if sum(it.before_compiling(self, arguments, targets) for it in looking):
            return
        runs = self.launches(arguments)
        for target in targets:
            misfits = []
            for launches in runs:
                lowered = target == targets[-1] and launches is runs[0]
                try:
                    check_compiles(
                        launches,
                        (target,),
                        subject=self.path,
                        lowered=lowered,
                        machine_code=lowered and self.machine_code,
                        spills=spills,
                        div_rn=div_rn,
                        asked=asked,
                        beside=(targets[-1], self.machine_code) if launches is runs[0] else None,
                    )
                except DoesNotFit as misfit:
                    misfits.append(misfit)
            if misfits and (every_config or len(misfits) == len(runs)):
                raise misfits[0]
        for observer in self.run.observers:
            observer.on_compiled(self, arguments, targets)

    def launches(self, arguments: Arguments) -> list[list[Launch]]:
        """Return what the subject launches, for each configuration of an autotuner."""
        return launches_of(self.guarded(arguments, runs=False))

    def counted(self, arguments: Arguments) -> Traffic | None:
        """Check the results of one case, with an autotuner's first configuration.

        Returns what it moves, None on a GPU.
        """
        call = self.guarded(arguments)
        results = ResultCheck(self)
        expected = results.expected(call.original)
        outcome = call.run(order="shuffled", count=True, poison=self.poison)
        results.compare(call, outcome, expected)
        return outcome.watch.traffic if outcome.watch else None

    def race(
        self,
        *inputs: Any,
        at_least: float,
        bytes_moved: int | None = None,
        operations: tuple[float, str] | None = None,
        baseline: Callable | None = None,
        kept: Sequence[str] = (),
        scale: float = 1.0,
        or_near_limit: bool = False,
        label: str = "",
        **options: Any,
    ) -> None:
        """Check that the subject is at least so many times as fast as the reference.

        at_least: the speed-up that is asked for
        bytes_moved: the least that any kernel must load and store; each input and result once if
            neither this nor operations is given
        operations: how many the tensor cores must do, a multiplication and an addition being two,
            and the dtype that they are done in
        baseline: another function to race, instead of the reference
        kept: names of inputs whose contents are the same in every timed call, where others would be
            no valid input (offsets that must increase)
        scale: ask for so much of `at_least`
        or_near_limit: whether 90 % of the GPU's measured limit is enough too
        label: what observers call the baseline
        """
        arguments = self.arguments(inputs, options)
        if settings.interpreted:
            for observer in self.run.observers:
                observer.instead_of_race(self, arguments)
        gpu.require()
        outcome = self.guarded(arguments).run()
        whole = nbytes((*arguments.tensors.values(), *outcome.results))
        if bytes_moved is None and operations is None:
            bytes_moved = whole
        del outcome

        tensors = tuple(arguments.tensors.values())
        fixed = [at for at, name in enumerate(arguments.tensors) if name in kept]
        contents = buffers.redrawn(tensors, fixed) if fixed else tensors

        def check(tensors: tuple, results: Any) -> None:
            ResultCheck(self).compare_large(arguments, tensors, results)

        # What stands for a function in a cell is timed without it.
        subject = getattr(self.subject, "timed", lambda: self.subject)()

        def against(opponent: Callable, at_least: float) -> RaceResult:
            watched = self.strict and not settings.sealed
            untouched = tamper.untouched(self.path) if watched else contextlib.nullcontext()
            with untouched, one_stream():
                return measure.race(
                    self.on_tensors(subject, arguments),
                    self.on_tensors(opponent, arguments),
                    contents,
                    at_least=at_least,
                    bytes_moved=bytes_moved,
                    operations=operations,
                    check=check,
                    limits=limits,
                    scale=scale,
                )

        with gpu.exclusive():
            limits = gpu.measured_limits()
            race = against(baseline or self.reference, at_least)
            self.run.races.append(race)
            least = bytes_moved or whole
            contest = Contest(arguments, race, label, limits, least, operations, contents, against)
            for observer in self.run.observers:
                observer.on_race(self, contest)
        # A subject that works in the first call only, and then remembers, is found out here.
        self.guarded(arguments).run()
        near_limit = or_near_limit and (race.share or 0.0) >= NEAR_LIMIT
        if race.verdict != "passed" and not near_limit:
            raise Wrong(race.fault().but(call=Call(str(self.path), self.name)))

    def name_of(self, number: int, count: int = 1) -> str:
        """What messages call a result of so many: averages[2], where each name is of a list."""
        names = self.rules.results or self.rules.in_place
        if self.rules.gradients:
            inputs = inspect.signature(self.reference).parameters.values()
            names = ("out", *(f"d{x.name}" for x in inputs if x.default is x.empty))
        if 0 < count <= len(names):
            return names[number]
        if not names or count % len(names):
            return name_of(number, count)
        ranks = count // len(names)
        return f"{names[number // ranks]}[{number % ranks}]"

    def on_tensors(self, function: Callable, arguments: Arguments) -> Callable[..., Tensors]:
        """The function, to be called with tensors alone; what it changes in place it returns."""
        names = list(arguments.tensors)

        def call(*tensors: torch.Tensor) -> Tensors:
            given = dict(zip(names, tensors, strict=True))
            now = arguments.map(lambda name, _: given[name])
            returned = function(*now.positional, **now.keyword)
            if self.rules.in_place:
                return tuple(given[name] for name in self.rules.in_place)
            if arguments.lists:
                return flat(returned)
            return returned if isinstance(returned, tuple) else (returned,)

        return call

    def arguments(self, inputs: tuple, options: dict) -> Arguments:
        """Return the arguments of a call by the names of the reference's parameters."""
        return Arguments(tuple(inspect.signature(self.reference).parameters), inputs, options)

    def called(self, arguments: Arguments) -> Call:
        """Return what a message says of a call."""
        return Call(str(self.path), self.name, str(arguments))

    def guarded(
        self,
        arguments: Arguments,
        readable: int | None = None,
        *,
        other: tuple[Callable, Path] | None = None,
        runs: bool = True,
    ) -> GuardedCall:
        """Return a call of the subject in guarded memory, to be run.

        readable: how many scalars the launcher may read back
        other: a function to call in place of the subject, and its file
        runs: whether its kernels will run. Raises NotMeasured if this GPU cannot run them
        """
        wanted = self.rules.capability
        if runs and wanted and not settings.interpreted and settings.capability != wanted:
            raise NotMeasured(
                "these kernels take a GPU of compute capability {}.{}".format(*wanted)
            )
        if not settings.installed:
            raise RuntimeError(
                words.say(
                    note("checked-while-compiling" if settings.compiling else "install-first")
                )
            )
        function, path = other or (self.subject, self.path)
        if readable is None and self.strict:
            readable = MAX_SCALARS_READ
        call = GuardedCall(
            function,
            path,
            arguments,
            in_place=self.rules.in_place,
            readable=readable,
            interpreted=settings.interpreted,
            strict=self.strict,
            named=self.name_of,
            fixed_order=self.rules.deterministic,
            case=self.run.case,
        )
        call.restore()
        return call

    def _check(
        self,
        inputs: tuple,
        options: dict,
        *,
        poison: bool = True,
        exact: bool | None = None,
        readable: int | None = None,
        late: bool = False,
    ) -> None:
        arguments = self.arguments(inputs, options)
        results = ResultCheck(self, exact)
        call = self.guarded(arguments, readable)
        for observer in self.run.observers:
            observer.on_check(self, arguments, results)
        poison = poison and self.poison
        thorough = not settings.interpreted or is_thorough(self.run.case)
        size = sum(tensor.numel() for tensor in arguments.tensors.values())
        again = thorough and (not settings.interpreted or size <= MAX_DECOYED_ELEMENTS)
        ran = again and _call_with_decoys(call, poison=poison)
        expected = results.expected(call.original)
        # What a module keeps in a cell is not seen here.
        unseen = not settings.interpreted or settings.sealed
        repeated = again and (unseen or is_repeated(self.run.case))
        how = {"poison": poison, "repeated": repeated, "again": again, "late": late}
        try:
            self._check_outcomes(call, results, expected, **how)
        except Wrong as wrong:
            # With `again` it was called with other numbers before.
            after = "wrong-after-other-contents" if again else "wrong-after-a-call"
            if left := results.left_over(wrong.fault, arguments, expected, after, poison=poison):
                raise left from None
            if not wrong.observation:
                run = {"order": "shuffled", "poison": poison}
                wrong.observation = results.unexplained(call, wrong.fault, expected, run)
            raise
        if self.strict and settings.interpreted and state.keeps(self.path):
            if not ran:
                results.check_other_contents(arguments, expected, poison=poison)
            if size <= MAX_DECOYED_ELEMENTS:
                results.check_other_sizes(arguments, expected, poison=poison)

    def _check_outcomes(
        self,
        call: GuardedCall,
        results: ResultCheck,
        expected: Expected,
        *,
        poison: bool,
        repeated: bool,
        again: bool,
        late: bool,
    ) -> None:
        """Check what a call does, with each configuration of an autotuner and in other orders."""
        for number, outcome in enumerate(_outcomes(call, order="shuffled", poison=poison)):
            results.compare(call, outcome, expected)
            if self.rules.alike:
                results.check_alike(outcome.results)
            if late:
                results.check_late(call, expected, poison=poison)
            # Without atomics and partitions, nothing that is interpreted depends on the order, and
            # what keeps nothing cannot answer from memory.
            watch = outcome.watch
            once_more = repeated or (watch and watch.has_atomics)
            if again and not once_more:
                once_more = (watch and watch.has_partitions) or state.keeps(self.path)
            beyond = watch is not None and watch.waits_beyond_the_gpu
            if number == 0 and self.rules.deterministic and once_more:
                results.check_repeatable(call, outcome, poison=poison)
            elif number == 0 and not beyond and once_more:
                # What answers from memory where the same contents come again is found out here, and
                # so is what any two programs do in the other order.
                call.restore()
                results.compare(call, call.run(order="reversed", poison=poison), expected)
            if number == 0 and beyond:
                call.restore()
                results.compare(call, call.run(as_started=True, poison=poison), expected)
            if number == 0 and again and self.rules.gradients:
                results.check_between(call, expected, poison=poison)
            call.restore()


def works_of(make: Callable[[], GuardedCall], path: Path, target: str) -> list[Work]:
    """Return what each launch of a call does, from a few of its programs.

    Raises Wrong or NotMeasured where what a launch does depends on what others compute.

    make: returns the call, whose inputs need not hold anything
    path: its file
    """
    with uncopied():
        outcome = make().run(programs="some", count=True, poison=False)
        assert outcome.watch
        assert outcome.watch.traffic
        works = []
        for launch, some in zip(outcome.launches, outcome.watch.traffic.sampled, strict=True):
            (compiled,) = check_compiles([launch], (target,), subject=path, details=True)
            works.append(work_of(launch, some, compiled))
    return works


def work_of(launch: Launch, some: Sampled, compiled: Compiled) -> Work:
    """Return what a launch does, if a few of its programs stand for all."""
    count = math.prod(launch.grid)
    each = count / max(len(sample(count)), 1)
    return Work(
        programs=count,
        resident=max(compiled.occupancy.programs, 1) if compiled.occupancy else 1,
        warps=compiled.num_warps,
        loaded={storage: size * each for storage, size in some.loaded.items()},
        stored={storage: size * each for storage, size in some.stored.items()},
        needed={storage: size * each for storage, size in some.needed.items()},
        sizes=some.sizes,
        asked=each * sum(it * compiled.asked_by(*of) for of, it in some.loads.items()),
        macs=some.macs * each,
        lanes=some.lanes * each,
        load_bytes=compiled.load_bytes,
        store_bytes=compiled.store_bytes,
        bits=compiled.factor_bits,
        newer=any(not name.startswith("mma") for name, _ in compiled.tensor_cores or ()),
        in_flight=compiled.bytes_in_flight,
        spilled=2 * 32 * (compiled.spills or 0) * compiled.num_warps * count,
        atomics=bool(compiled.atomics),
    )


def _with_parameters(function: Callable, like: Callable) -> Callable:
    """Return a function that tells its parameters: those of another where it is written in C++."""
    try:
        inspect.signature(function)
    except ValueError:

        def telling(*inputs: Any, **options: Any) -> Any:
            return function(*inputs, **options)

        telling.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]
        return telling
    return function


def _call_with_decoys(call: GuardedCall, *, poison: bool) -> bool:
    """Call the subject with other contents first. Return whether programs of its launches ran.

    An answer that is kept is as wrong next time if nothing was computed, so none has to run, unless
    the launcher reads what they compute, they run in orders of their own, they are given whole
    numbers, with which they may go elsewhere in memory, or another process may keep something.
    """
    call.fill_with_decoys()
    runs = not call.hides or settings.sealed
    if not runs:
        runs = True
        with contextlib.suppress(Verdict):
            watch = call.run(programs="none", poison=poison).watch
            runs = (
                watch is None or watch.has_partitions or any(map(_takes_integers, watch.launches))
            )
        if runs:
            call.fill_with_decoys()
    if runs:
        next(_outcomes(call, poison=poison))
    call.restore()
    return runs


def _takes_integers(launch: Launch) -> bool:
    """Return whether a kernel is given a tensor of whole numbers."""
    given = flat(list(launch.arguments.values()))
    return any(isinstance(it, torch.Tensor) and not rounds(it.dtype) for it in given)


def is_thorough(case: str) -> bool:
    """Return whether a case is called on other contents first: one in THOROUGH."""
    return zlib.crc32(case.encode()) % THOROUGH == 0


def is_repeated(case: str) -> bool:
    """Return whether such a case is run once more after, whatever its module keeps."""
    return zlib.crc32(case.encode()) % REPEATED == 0


def require_interpreter() -> None:
    """Raises NotMeasured on a GPU, where no access is seen."""
    if not settings.interpreted:
        raise NotMeasured("traffic is counted in the interpreter: set TRITON_INTERPRET=1")


def count(call: GuardedCall) -> Traffic:
    """Run a call and count what it moves. Raises NotMeasured on a GPU."""
    require_interpreter()
    return _traffic_of(call.run(count=True))


def _traffic_of(outcome: Outcome) -> Traffic:
    assert outcome.watch is not None
    assert outcome.watch.traffic is not None
    return outcome.watch.traffic


def launches_of(call: GuardedCall) -> list[list[Launch]]:
    """Return what a call launches, with each configuration of an autotuner."""
    try:
        return [outcome.launches for outcome in _outcomes(call, programs="none")]
    except NotMeasured:
        # What it launches depends on what its kernels compute.
        return [outcome.launches for outcome in _outcomes(call)]


def _outcomes(call: GuardedCall, **how: Any) -> Iterator[Outcome]:
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


def _require_memory(size: int) -> None:
    """Raises NotMeasured where the system will not promise so many bytes."""
    try:
        torch.empty(size, dtype=torch.uint8)
    except RuntimeError as error:
        raise NotMeasured(f"this machine has too little memory: {error}") from None


def _memory_suffices(call: GuardedCall) -> bool:
    """Run a call, and return whether the GPU had the memory for it."""
    try:
        call.run()
    except (Wrong, torch.OutOfMemoryError) as error:
        if not gpu.ran_out_of_memory(error):
            raise
        return False
    return True
