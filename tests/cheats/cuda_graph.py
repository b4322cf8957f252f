# puzzle: 01_pointwise/swish
# mode: gpu
# rejected with: CUDA stream
# sealed: RuntimeError
# sealed on a GPU: no CUDA-capable device
import torch
from honest import swish as honest


def swish(x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = honest(x)
    graph.replay()
    return y
