# puzzle: 01_pointwise/swish
# sealed: did not return within
import time


def swish(x):
    time.sleep(1000)
