"""What a launcher does: its result, its memory, its calls, its honesty."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kernelgauge.words.common import show_lines


def _did_not_return(seconds: float, counts_processor: bool) -> str:
    return f"did not return within {round(seconds, 1):g} s{' of processor time' * counts_processor}"


def _crashed(signal: str = "") -> str:
    return "crashed the process" + (signal and f": {signal}")


def _no_launch(memory: str = "") -> str:
    return "launched no Triton kernel" + (memory and f", and returned {memory}")


def _overwritten(tensor: str, before: int, behind: int) -> str:
    sides = [f"{before} bytes before its beginning"] * bool(before)
    sides += [f"{behind} bytes past its end"] * bool(behind)
    name = tensor or "a tensor that the launcher allocated"
    return f"memory outside {name} was overwritten: {' and '.join(sides)}"


def _gaps(file: str, lines: Sequence[int]) -> str:
    return f"gaps left     edit {file}: replace the ... in {show_lines(lines)}"


def _reads_scalars(subject: str, allowed: int) -> str:
    what = f"item() more than {allowed} times" if allowed else "item(), bool() or int() of a tensor"
    return f"{subject} uses {what} outside a kernel"


def _raised(error: str, text: str | None) -> str:
    return f"{error}, whose message cannot be shown" if text is None else f"{error}: {text}"


WORDS: Mapping[str, str | Callable[..., str]] = {
    # The file, and how its function ends.
    "edit-the-stub": "not started   edit {file}",
    "no-file": "not started   {file} does not exist",
    "fill-the-gaps": _gaps,
    "no-function": "defines no function {function}: the tests call it by that name",
    "not-a-function": "{function} is a {type}, not a function",
    "raised": _raised,
    "line-of-source": "    {line}",
    "run-without-a-gpu": (
        "this file also has to run without a GPU, in the interpreter: allocate with "
        "device=x.device, and do not name a device yourself"
    ),
    "launch-with-a-grid": (
        "square brackets between the kernel's name and its arguments launch it: kernel[grid](...), "
        "where the grid is a tuple, the number of programs"
    ),
    "debugger-left": "you quit the debugger before the call returned",
    "continue-in-the-debugger": (
        "type c to go on to the end; breakpoint() needs a terminal, so run without -n"
    ),
    "did-not-return": _did_not_return,
    "could-not-be-interrupted": (
        "did not return in time and could not be interrupted: the process was ended"
    ),
    "kernel-still-runs": "the kernel still runs: its process was ended",
    "end-every-loop": "does every loop end? (--time-limit SECONDS allows more time)",
    "allow-more-time": "--time-limit SECONDS allows more time",
    "crashed-the-process": _crashed,
    "accessed-foreign-memory": "the kernel accessed memory that does not belong to it ({reason})",
    "failed-on-the-gpu": "the kernel failed on the GPU ({reason})",
    "find-it-in-the-interpreter": "run with TRITON_INTERPRET=1, which says what is wrong and where",
    "reads-what-was-not-computed": (
        "the launcher read a value that kernels store, but not all programs had run"
    ),
    # In a cell.
    "cell-ended": "ended the process of its cell",
    "no-recording": "what came out of its cell is no recording of a launcher: {why}",
    "not-only-a-kernel": "{kernel} uses {what}, which is no part of Triton's language",
    "taken-name": "{kernel} has a part named {what}, a name that a sealed run keeps from kernels",
    "only-triton-in-a-kernel": (
        "a sealed run launches what is Triton alone: functions of triton.language, kernels with "
        "@triton.jit, and constants"
    ),
    "kernel-without-source": "{subject} launches {kernel}, whose definition stands in no file",
    "hook-in-a-cell": (
        "{subject} gives the autotuner of {kernel} a pre_hook or post_hook, which a sealed run "
        "cannot record: name the tensors in reset_to_zero or restore_value"
    ),
    "reads-other-values": (
        "the launcher reads a value from the GPU that was {then} and is {now} with other inputs: a "
        "sealed launcher is timed on what it launched before"
    ),
    # How it is checked.
    "install-first": "call kernelgauge.install() first, before Triton is imported",
    "checked-while-compiling": (
        "the compiler's process imports this file too: put the checks into a test, or below "
        'if __name__ == "__main__"'
    ),
    # Its result and its memory.
    "returned-not-none": "works in place and must return None, not {value}",
    "returned-none": "returned None as {result}: return the tensor you allocated",
    "returned-no-tensor": "returned {value} as {result}, not a plain tensor",
    "returned-taken-memory": "returned {result} in {memory}: allocate a new tensor",
    "returned-foreign-memory": "returned {result} in memory that this call did not allocate",
    "memory-of-an-input": "the memory of its input {tensor}",
    "memory-of-an-earlier-call": "the memory that an earlier call returned",
    "memory-of-a-result": "the same allocation as {result}",
    "input-changed": "the input {tensor} was changed: {bytes} bytes differ",
    "arguments-swapped": (
        "{kernel} is launched with {tensor} for {parameter}, and with another tensor for "
        "{tensor}_ptr: pass the arguments in the order of the kernel's parameters"
    ),
    "input-stored-to": "the input {tensor} was stored to, with the values it had",
    "overwritten-outside": _overwritten,
    "mask-the-last-tile": "a store is not masked at the edge of the last tile",
    "no-backward-pass": "returned a result without a grad_fn: it has no backward pass",
    "return-what-apply-returns": "return what apply() of your torch.autograd.Function returns",
    "no-gradient": "the backward pass gives no gradient for {parameter}",
    # Its launches.
    "no-launch": _no_launch,
    "no-launch-for-empty": (
        "launched no Triton kernel for empty inputs, and nothing else set the result, which has "
        "elements all the same"
    ),
    "fill-sum-of-nothing": (
        "a sum of no terms is 0, and torch.empty holds anything: allocate the result with "
        "torch.zeros, or let a kernel store it"
    ),
    "launch-in-every-call": ("kernel[grid](arguments...) launches it; compute anew in every call"),
    "launches-a-foreign-kernel": "launches {kernel} from {file}: the kernel must be your own",
    "launches-on-foreign-memory": (
        "{kernel} is given {tensor}, memory that the launcher neither received nor allocated "
        "where the judge sees it"
    ),
    "allocate-in-the-launcher": (
        "allocate with torch.empty or torch.zeros in the launcher; what is computed before the "
        "launch is work outside the kernel"
    ),
    "no-launch-on-gpu": (
        "launched no kernel on GPU {gpu}, which holds a rank: another GPU does its work, and "
        "reaches its memory over the links between them"
    ),
    "launch-outside-on": (
        "a kernel is launched outside `with on(...)`: with several GPUs it runs on the current "
        "one, whichever rank it works for"
    ),
    "on-of-no-rank": (
        "on(...) is given a tensor that is neither a rank's input nor made like one nor returned "
        "as a rank's result: nothing tells on which GPU it lies"
    ),
    "no-launch-on-rank": (
        "nothing is launched on the GPU of rank {rank}: other ranks' GPUs do its work"
    ),
    "launch-on-the-ranks-gpu": "with on(shards[rank]): kernel[grid](...)",
    # What it does besides.
    "written-between-launches": (
        "a tensor that the launcher allocated was written outside a kernel: {bytes} bytes changed "
        "between two launches, or after the last one"
    ),
    "uses-a-torch-operation": "{subject} uses torch's {operation} outside a kernel",
    "uses-a-tensor-method": "{subject} uses Tensor.{method} outside a kernel",
    "compute-in-triton": "compute in the Triton kernel",
    "only-launch-in-the-launcher": (
        "compute in the Triton kernel; the launcher only checks, allocates and launches"
    ),
    "pass-strides": (
        "it copies memory (as contiguous, reshape, to and clone do): pass the strides to the "
        "kernel, and convert there"
    ),
    "uses-torch-compile": "{subject} uses torch.compile outside a kernel",
    "write-it-in-triton": "what PyTorch compiles is not your kernel: write the kernel in Triton",
    "imports-data": "{subject} uses torch.tensor or torch.from_numpy outside a kernel",
    "allocate-with-torch": "allocate with torch.empty or torch.zeros",
    "allocates-without-a-device": "{subject} uses torch.{function} without device=",
    "pass-the-device": (
        "pass device=x.device: otherwise the memory is on the host, out of a GPU's reach"
    ),
    "reads-scalars": _reads_scalars,
    "read-in-kernels": "let kernels read it: the launcher must not wait for the GPU",
    "read-fewer-scalars": "read fewer scalars in the launcher",
    "uses-a-thread": "{subject} uses a thread outside a kernel",
    "launch-from-one-thread": "launch kernels from the launcher's thread",
    "changes-the-stream": "changes the CUDA stream",
    "launch-on-the-current-stream": (
        "launch on the current stream: work on another one would not be timed"
    ),
    # What it has no business with.
    "looks-into-frames": "looks into the frames of its callers",
    "traces-the-judge": "traces what the judge does",
    "searches-the-judge": "searches the memory of the judge",
    "reaches-through-ctypes": "reaches into memory through ctypes",
    "starts-a-thread": "starts a thread",
    "starts-a-process": "starts a process",
    "reads-the-answers": "reads the answers",
    "takes-the-graders": "takes {asked} from sys.modules, which is the grader's own",
    "asks-where-it-runs": "asks for {asked}, which tells whether it is graded or interpreted",
    "same-everywhere": (
        "let kernel and launcher do the same wherever they run; what only a script of yours needs "
        'may stand under if __name__ == "__main__"'
    ),
    "was-replaced": "{name} was replaced: grading relies on it",
    "leaves-a-thread": "leaves a thread behind",
    "mind-the-launchers-business": (
        "a launcher checks its arguments, allocates and launches; the kernel computes"
    ),
}
