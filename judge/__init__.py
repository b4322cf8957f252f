"""How right is told from wrong: the judge of the puzzles.

`challenge` and `inputs` are what a puzzle's test file imports, and `grading` is what they rest on.
The packages are rooms of one concern each; docs/judge.md is the map, and pyproject.toml holds the
order of their imports.
"""
