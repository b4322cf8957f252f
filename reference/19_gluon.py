"""References of chapter 19."""


def barrier_ring(x):
    return x * 2
