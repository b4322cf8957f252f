# puzzle: 01_pointwise/swish
# mode: both
# rejected with: torch's sigmoid outside a kernel
def swish(x):
    return x.sigmoid().mul_(x)
