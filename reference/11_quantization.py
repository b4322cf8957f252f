"""References of chapter 11: what each puzzle computes, in plain PyTorch."""

import torch


def divided(x, number):
    """x / number, rounded to nearest. On a GPU PyTorch multiplies by 1 / number instead."""
    return x / torch.full_like(x, number)


def quantize_rows(x):
    # In float32 whatever x is: that defines q and scale to the bit.
    x = x.float()
    largest = x.abs().amax(1)
    scale = torch.where(largest == 0, 1.0, divided(largest, 127))
    q = (x / scale[:, None]).round().nan_to_num(0.0)
    return q.to(torch.int8), scale


def quantize_blocks(x, block=(1, 128)):
    (M, N), (rows, columns) = x.shape, block
    x = torch.nn.functional.pad(x.float(), (0, -N % columns, 0, -M % rows))
    # (blocks along M, rows, blocks along N, columns)
    blocks = x.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    largest = blocks.abs().amax((1, 3))
    scale = torch.where(largest == 0, 1.0, divided(largest, 448))
    q = (blocks / scale[:, None, :, None]).flatten(2).flatten(0, 1)[:M, :N]
    # Before torch 2.12 the cast makes NaN of numbers beyond 464.
    return q.clamp(-448, 448).to(torch.float8_e4m3fn), scale


def int8_matmul(x, weight, x_scale, weight_scale, out_dtype=torch.bfloat16):
    # Exact in float64. The truth, whose scales are float64 too, is not rounded.
    total = (x.double() @ weight.double().mT).to(x_scale.dtype)
    out = total * x_scale[:, None] * weight_scale
    return out.to(out_dtype) if x_scale.dtype == torch.float32 else out


def int8_matmul_in_bfloat16(x, weight, x_scale, weight_scale, out_dtype=torch.bfloat16):
    """What the race is against: the formula in eager PyTorch, without products of integers."""
    total = x.bfloat16() @ weight.bfloat16().mT
    return (total * x_scale[:, None] * weight_scale).to(out_dtype)


def int4_matmul(x, weight, scale, zero):
    # Byte j holds k = 2j in its low four bits and k = 2j + 1 in its high four.
    q = torch.stack((weight & 15, weight >> 4), -1).flatten(1)
    groups = q.to(scale.dtype).unflatten(1, (scale.shape[1], -1))
    dequantized = (groups - zero.to(scale.dtype)[..., None]) * scale[..., None]
    return x @ dequantized.flatten(1).mT


def scaled_by_blocks(x, weight, x_scale, weight_scale):
    """Both factors of 11.5, each element multiplied by the scale of its block."""
    N, K = weight.shape
    rows = x_scale.repeat_interleave(128, 1)[:, :K]
    squares = weight_scale.repeat_interleave(128, 0)[:N].repeat_interleave(128, 1)[:, :K]
    return x.to(rows.dtype) * rows, weight.to(squares.dtype) * squares


def fp8_matmul(x, weight, x_scale, weight_scale, out_dtype=torch.bfloat16):
    x, weight = scaled_by_blocks(x, weight, x_scale, weight_scale)
    out = x @ weight.mT
    # The truth, whose scales are float64, is not rounded.
    return out.to(out_dtype) if x_scale.dtype == torch.float32 else out


def fp8_matmul_in_bfloat16(x, weight, x_scale, weight_scale, out_dtype=torch.bfloat16):
    """What the race is against: the formula in eager PyTorch, multiplied in bfloat16."""
    x, weight = scaled_by_blocks(x, weight, x_scale, weight_scale)
    return (x.bfloat16() @ weight.bfloat16().mT).to(out_dtype)
