# puzzle: 01_pointwise/swish
# open: starts a process
# sealed: harmless
# sealed on a GPU: the same
import os
import time

from honest import swish as honest


def swish(x):
    for _ in range(200):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            break
    else:
        raise AssertionError("200 processes")
    return honest(x)
