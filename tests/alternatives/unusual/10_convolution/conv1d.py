# Taps are a dimension of the tile, padded to a power of two, and summed at the end.
import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, D, L, strides, W: tl.constexpr, SILU: tl.constexpr,
    TAPS: tl.constexpr, CHANNELS: tl.constexpr, TIMES: tl.constexpr,
):  # fmt: skip
    d = (tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS))[None, :, None]
    time = (tl.program_id(2) * TIMES + tl.arange(0, TIMES))[None, None, :]
    tap = tl.arange(0, TAPS)[:, None, None]
    at = time + tap - (W - 1)
    x_ptrs = x_ptr + tl.program_id(0) * strides[0] + d * strides[1] + at * strides[2]
    x = tl.load(x_ptrs, mask=(tap < W) & (d < D) & (at >= 0) & (at < L), other=0).to(tl.float32)
    weight = tl.load(weight_ptr + d * W + tap, mask=(tap < W) & (d < D), other=0).to(tl.float32)
    out = tl.sum(x * weight, 0, keep_dims=True)
    out += tl.load(bias_ptr + d, mask=d < D, other=0).to(tl.float32)
    if SILU:
        out /= 1 + tl.exp(-out)
    out_ptrs = out_ptr + (tl.program_id(0) * D + d) * L + time
    tl.store(out_ptrs, out, mask=(d < D) & (time < L))


def causal_conv1d(x, weight, bias, activation=None):
    (B, D, L), W = x.shape, weight.size(-1)
    out = torch.empty(B * D * L, dtype=x.dtype, device=x.device).view(B, D, L)
    causal_conv1d_kernel[B, triton.cdiv(D, 32), triton.cdiv(L, 32)](
        x, weight, bias, out, D, L, x.stride(), W, activation == "silu",
        TAPS=triton.next_power_of_2(W), CHANNELS=32, TIMES=32,
    )  # fmt: skip
    return out
