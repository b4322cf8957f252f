"""References of chapter 19."""


def barrier_ring(x):
    return x * 2


def gluon_copy(x):
    return x.clone()
