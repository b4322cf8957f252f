"""The outcomes of a check that did not pass. Each carries the whole message for the learner."""


class Verdict(Exception):
    """Why a check of a puzzle did not pass."""


class Unsolved(Verdict):
    """The stub is untouched."""


class Wrong(Verdict):
    """The subject does not do what its spec says."""


class NotMeasured(Verdict):
    """This machine or this mode cannot decide the check: it neither passed nor failed."""


class NotRun(Verdict):
    """An earlier case of the puzzle hung or crashed, so this one was not tried."""
