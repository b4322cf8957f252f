"""References of chapter 11: what each puzzle computes, in plain PyTorch."""

import torch


def quantize_rows(x):
    # In float32 whatever x is: that defines q and scale to the bit.
    x = x.float()
    largest = x.abs().amax(1)
    scale = torch.where(largest == 0, 1.0, largest / 127)
    q = (x / scale[:, None]).round().nan_to_num(0.0)
    return q.to(torch.int8), scale


def quantize_blocks(x, block=(1, 128)):
    (M, N), (rows, columns) = x.shape, block
    x = torch.nn.functional.pad(x.float(), (0, -N % columns, 0, -M % rows))
    # (blocks along M, rows, blocks along N, columns)
    blocks = x.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    largest = blocks.abs().amax((1, 3))
    scale = torch.where(largest == 0, 1.0, largest / 448)
    q = (blocks / scale[:, None, :, None]).flatten(2).flatten(0, 1)[:M, :N]
    # Before torch 2.12 the cast makes NaN of numbers beyond 464.
    return q.clamp(-448, 448).to(torch.float8_e4m3fn), scale
