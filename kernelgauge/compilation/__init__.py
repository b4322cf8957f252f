"""Compile kernels ahead of time, for GPUs that are not there: do they compile, and do they fit?

Uses core. The compiler runs in a process of its own (process.py is our end, worker.py the other).

- ahead_of_time: check_compiles, compile_each
- errors: explain
- figures: sheet, and the words of its cells
- targets: find_target
"""
