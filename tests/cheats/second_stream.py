# puzzle: 01_pointwise/swish
# mode: gpu
# rejected with: changes the CUDA stream
# sealed: RuntimeError
# sealed on a GPU: changes the CUDA stream
import torch
from honest import swish as honest


def swish(x):
    with torch.cuda.stream(torch.cuda.Stream()):
        return honest(x)
