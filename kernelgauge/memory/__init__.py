"""Runs interpreted kernels and watches what they load and store.

Every access is checked before it happens: bounds, races, elements that no program stored, lanes
that were masked off without `other`. What a run moves between memory and programs is counted and
held to a budget.

For other packages:
    executor.install: make Triton's interpreter run its launches here
    executor.KernelError: a kernel raised a Python exception
    watch.Watch: one run of a subject, and what is known of it afterwards
    budgets.Traffic: what a run moved, and its budgets
    nonfinite.Origins: the operations of a program that made NaN or infinity
    selftest.failures: the hooks that this version of Triton has moved
"""
