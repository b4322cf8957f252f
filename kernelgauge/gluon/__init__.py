"""Runs Gluon kernels on a CPU: shared memory, barriers, asynchronous copies, warp specialisation.

`gluon.jit` makes a function that Triton's interpreter runs, with the functions of Gluon's language
replaced. Partitions are threads of which one runs at a time, and what a GPU does later happens
later here too, in an order that a seed chooses. An access to shared memory is compared with those
before it by vector clocks, so what is not ordered by a barrier, a wait or a fence is found in
nearly every order, not only in the one that would spoil a result.

Layouts are transparent here: whether they fit the hardware and each other is for the compiler.

For other packages:
    executor.install: make `gluon.jit` and Gluon's language run here
"""
