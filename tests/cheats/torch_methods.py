# puzzle: 01_pointwise/swish
# mode: both
# rejected with: torch's sigmoid outside a kernel
# sealed on a GPU: the same
def swish(x):
    return x.sigmoid().mul_(x)
