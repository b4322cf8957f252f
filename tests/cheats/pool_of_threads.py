# puzzle: 01_pointwise/swish
# mode: both
# rejected with: starts a thread|leaves a thread behind
# sealed: memory that this call did not allocate
# sealed on a GPU: the same
from concurrent.futures import ThreadPoolExecutor

import torch
from honest import swish as honest

pool = ThreadPoolExecutor(1)
pool.submit(int).result()


def swish(x):
    honest(x)
    return pool.submit(torch.nn.functional.silu, x).result()
