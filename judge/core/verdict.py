"""The verdicts that are no pass. Each carries the whole message that a learner reads."""


class Verdict(Exception):
    """Why a puzzle's check did not pass."""


class Unsolved(Verdict):
    """The stub is untouched."""


class Wrong(Verdict):
    """The subject does not do what its spec says."""


class NotMeasured(Verdict):
    """This machine or this mode cannot tell: neither passed nor failed."""


class NotRun(Verdict):
    """An earlier case of the puzzle hung or crashed, so this one was not tried."""
