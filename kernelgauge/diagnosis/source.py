"""What a learner's source code reveals to a diagnosis: the names and the numbers in it."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

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
    """

    names: frozenset[str] | None = None
    stand_in: float | None = None

    @classmethod
    def of(cls, code: str) -> Source:
        """Parse the code, ignoring comments and docstrings. Raises SyntaxError."""
        nodes = list(ast.walk(ast.parse(code)))
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
        return cls(frozenset(names), max(stand_ins, default=None))

    def uses(self, names: AbstractSet[str], *, otherwise: bool) -> bool:
        """Return whether it uses any of these names; `otherwise` if the code is not known."""
        return otherwise if self.names is None else not names.isdisjoint(self.names)


UNKNOWN = Source()
