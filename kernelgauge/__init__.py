"""An instrument that holds Triton kernels to a reference: memory, numerics, traffic, compilation.

It knows kernels, and neither puzzles nor pytest: the course is built on it. The packages are rooms
of one concern each; docs/judge.md is the map, and pyproject.toml holds the order of their imports.
"""
