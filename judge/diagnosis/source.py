"""What a learner's code says of itself, for diagnoses: names that it uses, numbers in it."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

EXPONENTIALS = {"exp", "exp2", "softmax"}
# What is subtracted before an exponential is taken: a maximum, or a log-sum-exp.
SHIFTS = {"max", "maximum", "lse", "lse_ptr"}
# Of numbers that may stand for -inf: scores pass them.
STAND_INS = (-1e30, -1e3)


@dataclass(frozen=True)
class Source:
    """names: and attributes, None where the code is not known; stand_in: its number in STAND_INS"""

    names: frozenset[str] | None = None
    stand_in: float | None = None

    @classmethod
    def of(cls, code: str) -> Source:
        """Comments and docstrings do not count. Raises SyntaxError."""
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
        """Whether it uses one of these names; otherwise: what to say where it is not known."""
        return otherwise if self.names is None else not names.isdisjoint(self.names)


UNKNOWN = Source()
