# fault: the grid has the heads of one batch
# cause: does the grid have a program for each of the 3 indices of dimension 0
import torch
import triton
import triton.language as tl


@triton.jit
def attention_delta_kernel(
    out_ptr, dout_ptr, delta_ptr,
    S,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    queries = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rows = tl.program_id(1) * S + queries
    inside = queries < S
    offsets = rows[:, None] * D + tl.arange(0, D)[None, :]
    out = tl.load(out_ptr + offsets, mask=inside[:, None], other=0.0).to(tl.float32)
    dout = tl.load(dout_ptr + offsets, mask=inside[:, None], other=0.0).to(tl.float32)
    tl.store(delta_ptr + rows, tl.sum(out * dout, axis=1), mask=inside)


def attention_delta(out: torch.Tensor, dout: torch.Tensor) -> torch.Tensor:
    B, H, S, D = out.shape
    delta = torch.empty((B, H, S), dtype=torch.float32, device=out.device)
    grid = (triton.cdiv(S, 64), H)
    attention_delta_kernel[grid](out, dout, delta, S, D=D, BLOCK_M=64)
    return delta
