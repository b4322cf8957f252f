# puzzle: 01_pointwise/swish
# open: did not return within
# sealed: did not return within
# sealed on a GPU: the same
import time


def swish(x):
    time.sleep(1000)
