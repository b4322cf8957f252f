# puzzle: 01_pointwise/swish
# open: starts a process
# sealed: harmless
# sealed on a GPU: the same
# Leaves a process that goes on writing to the channel once the test is over.
import os
import time

from honest import swish as honest


def swish(x):
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.2)
        while True:
            for descriptor in range(3, 20):
                try:
                    os.write(descriptor, b'["return", 1, [], []]\n')
                except OSError:
                    pass
    return honest(x)
