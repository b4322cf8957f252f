"""References of chapter 11: what each puzzle computes, in plain PyTorch."""

import torch


def quantize_rows(x):
    # In float32 whatever x is: that defines q and scale to the bit.
    x = x.float()
    largest = x.abs().amax(1)
    scale = torch.where(largest == 0, 1.0, largest / 127)
    q = (x / scale[:, None]).round().nan_to_num(0.0)
    return q.to(torch.int8), scale
