"""Make Triton's interpreter compute what a GPU would.

The interpreter runs a kernel as plain Python on NumPy arrays. This package patches it: the numbers,
the reductions, how a kernel's Python is read, libdevice, and what makes it slow. It knows nothing
of the judge. For other packages:

patches.install             patch the interpreter of this process
selftest.failures           patches that have no effect on this version of Triton
overflow.overflow_errors    a context in which integer overflow in a kernel is an error
overflow.IntegerOverflow    that error
arithmetic.make_tensor      a `tl.tensor` of the interpreter from a NumPy array
"""
