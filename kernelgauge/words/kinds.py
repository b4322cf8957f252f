"""The kinds of faults, in the order in which they are to be fixed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    id: stable; `pytest --explain` prints the page docs/faults/ID.md
    title: what a block of output says of it, in the learner's words; {tensor} and the values of
        the fault's first note may stand in it
    group: which part of the order below it belongs to
    """

    id: str
    title: str
    group: str


STARTS, HONESTY, RUNS, MEMORY = "starts", "honesty", "runs", "memory"
RAISES, RESULTS = "raises", "results"

_TITLES = {
    STARTS: {
        "debugger-left": "you quit the debugger",
        "endless": "it does not finish",
        "process-ended": "it kills the whole process",
        "syntax-error": "the file is not valid Python",
        "no-function": "the function is missing",
    },
    # Where kernels do not do the work, nothing else of them is to be mended yet.
    HONESTY: {
        "tampering": "it interferes with the grading",
        "outside-kernel": "what a launcher may not do",
        "not-own-memory": "a result that this call did not allocate",
        "no-launch": "no kernel was launched",
    },
    RUNS: {
        "not-compiled": "it does not compile for a GPU",
        "does-not-fit": "it does not fit on a GPU",
        "bad-grid": "a grid that cannot be launched",
    },
    MEMORY: {
        "between-elements-load": "a load between the elements of {tensor}",
        "between-elements-store": "a store between the elements of {tensor}",
        "offset-overflow": "an offset that does not fit 32 bits",
        "false-promise": "a promise to the compiler that does not hold",
        "misaligned-access": "a misaligned address",
        "wild-pointer": "an address that belongs to no tensor",
        "out-of-bounds-load": "a load outside {tensor}",
        "out-of-bounds-store": "a store outside {tensor}",
        "race": "programs race for the same element",
        "thread-race": "threads of a program race for the same element",
        "barrier-misuse": "a barrier is misused",
        "wrong-bytes": "a barrier expects other bytes than come",
        "early-read": "a read of shared memory that has not landed",
        "missing-fence": "no fence between a store and an asynchronous read",
        "early-overwrite": "shared memory is overwritten too early",
        "left-in-flight": "the kernel ends before what it started",
        "deadlock": "programs or partitions wait forever",
        "late-rank": "nobody waits for a late rank",
        "wrong-gpu": "a launch on the wrong GPU",
        "early-release": "others may load what is not stored yet",
        "stale-bound": "Triton compiles a loop's bound wrongly",
        "unwritten": "elements that no program stores",
        "unset-atomic": "an atomic on uninitialized memory",
        "input-changed": "an input is changed",
    },
    RAISES: {
        "raises": "it raises {error}",
    },
    RESULTS: {
        "waits-for-gpu": "the launcher waits for the GPU",
        "wrong-result": "a wrong result",
        "wrong-form": "a result with the wrong shape, dtype or strides",
        "unordered-sum": "a sum of floats in an order that nothing fixes",
        "differs-between-runs": "results that differ from run to run",
        "differs-between-ranks": "results that differ from rank to rank",
        "own-rule": "a rule of the spec is broken",
        "register-spills": "it spills registers to memory",
        "too-few-programs": "too few programs share the work",
        "uneven-work": "the work is not shared evenly",
        "idle-programs": "programs without work",
        "too-much-traffic": "more traffic than the spec allows",
        "kept-too-much": "more memory is kept than the spec allows",
        "bad-input": "bad input is neither rejected nor handled",
        "too-slow": "too slow",
        "impossible-time": "faster than a GPU can be",
    },
}

KINDS = {
    id: Kind(id, title, group) for group, titles in _TITLES.items() for id, title in titles.items()
}
ORDER = {id: number for number, id in enumerate(KINDS)}
