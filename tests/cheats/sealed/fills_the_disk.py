# puzzle: 01_pointwise/swish
# open: reached
# sealed: harmless
# sealed on a GPU: the same
import contextlib

from honest import swish as honest


def swish(x):
    written = 0
    with contextlib.suppress(OSError):
        for number in range(200):
            with open(f"/tmp/{number}", "wb") as file:
                written += file.write(bytes(2**20))
    assert written < 2**26
    return honest(x)
