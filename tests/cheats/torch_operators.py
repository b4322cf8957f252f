# puzzle: 01_pointwise/swish
# mode: both
# rejected with: torch's neg outside a kernel
# sealed on a GPU: the same
def swish(x):
    return x / (1 + (-x).exp())
