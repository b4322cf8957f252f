"""What a learner's source code reveals to a diagnosis: names, numbers, and faults by themselves."""

from __future__ import annotations

import ast
import functools
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kernelgauge.diagnosis import dataflow
from kernelgauge.diagnosis.dataflow import Line

EXPONENTIALS = {"exp", "exp2", "softmax"}
# What is subtracted before an exponential is taken: a maximum, or a log-sum-exp.
SHIFTS = {"max", "maximum", "lse", "lse_ptr"}
# Numbers in this range may stand for -inf, but real scores can be lower.
STAND_INS = (-1e30, -1e3)


@dataclass(frozen=True)
class Source:
    """Facts about a learner's code.

    names: all names and attributes in it; None if the code is not known
    stand_in: the largest number in it that lies in the range STAND_INS
    difference_of_squares, nan_replaced, narrow_sum, other_axis, dropped, doubled: what dataflow.py
        finds
    """

    names: frozenset[str] | None = None
    stand_in: float | None = None
    difference_of_squares: Line | None = None
    nan_replaced: Line | None = None
    narrow_sum: Line | None = None
    other_axis: Line | None = None
    dropped: Line | None = None
    doubled: Line | None = None

    @staticmethod
    @functools.lru_cache(maxsize=8)
    def of(code: str) -> Source:
        """Parse the code, ignoring comments and docstrings. Raises SyntaxError."""
        tree = ast.parse(code)
        nodes = list(ast.walk(tree))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        numbers = (
            -node.operand.value
            for node in nodes
            if isinstance(node, ast.UnaryOp)
            and isinstance(node.op, ast.USub)
            and isinstance(node.operand, ast.Constant)
            and isinstance(node.operand.value, (int, float))
        )
        low, high = STAND_INS
        stand_ins = (number for number in numbers if low < number <= high)
        return Source(
            frozenset(names),
            max(stand_ins, default=None),
            dataflow.difference_of_squares(tree),
            dataflow.nan_replaced(tree),
            dataflow.narrow_sum(tree),
            dataflow.other_axis(tree),
            dataflow.dropped(tree),
            dataflow.doubled(tree),
        )

    def uses(self, names: AbstractSet[str], *, otherwise: bool) -> bool:
        """Return whether it uses any of these names; `otherwise` if the code is not known."""
        return otherwise if self.names is None else not names.isdisjoint(self.names)


UNKNOWN = Source()
