"""pytest's side of the judge: the mode of a run, its hooks, and what a learner sees after it.

Others may use:
- ladder: the puzzles in order, their two levels, and the kinds of check
- session: begin, require_measurable, for code that runs a puzzle's tests in-process
"""
