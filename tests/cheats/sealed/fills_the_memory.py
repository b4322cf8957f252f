# puzzle: 01_pointwise/swish
# open: MemoryError|did not return within
# sealed: MemoryError|ended the process
# sealed on a GPU: the same
from honest import swish as honest


def swish(x):
    blocks = [bytearray(2**31) for _ in range(50)]
    return honest(x[: len(blocks)])
