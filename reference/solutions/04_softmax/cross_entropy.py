"""04.4  Cross entropy: one good answer.

Maximum and sum are carried through one pass over the vocabulary, and the logit of the target is
loaded by itself. Rows that count for nothing are masked off, so that nothing of them is loaded.
Where the vocabulary is short, several rows share a program of 2 warps.
"""

import torch
import triton
import triton.language as tl

TILE = 4096


@triton.jit
def cross_entropy_kernel(
    logits_ptr, targets_ptr, loss_ptr,
    M, V,
    stride_lm, stride_lv, stride_t,
    BLOCK_M: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    lanes = tl.arange(0, BLOCK_V)[None, :]
    target = tl.load(targets_ptr + rows * stride_t, mask=rows < M, other=-100).to(tl.int64)
    used = target != -100
    logits_ptrs = logits_ptr + rows * stride_lm
    at_target = tl.load(logits_ptrs + target * stride_lv, mask=used, other=0.0).to(tl.float32)
    largest = tl.full((BLOCK_M, 1), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M, 1), tl.float32)
    for start in range(0, V, BLOCK_V):
        cols = (start + lanes).to(tl.int64)
        # A row whose loss is 0 anyway is not loaded.
        x = tl.load(logits_ptrs + cols * stride_lv, mask=used & (cols < V), other=float("-inf"))
        x = x.to(tl.float32)
        new = tl.maximum(largest, tl.max(x, axis=1, keep_dims=True))
        # As long as all is -inf nothing may be subtracted: -inf - -inf is NaN.
        shift = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(x - shift), axis=1, keep_dims=True)
        largest = new
    loss = largest + tl.log(total) - at_target
    tl.store(loss_ptr + rows, tl.where(used, loss, 0.0), mask=rows < M)


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    if logits.dim() != 2 or not logits.is_floating_point():
        raise ValueError(
            f"logits must be 2-D and floating point, not {logits.dtype} {tuple(logits.shape)}"
        )
    M, V = logits.shape
    if targets.shape != (M,) or targets.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"targets must be int32 or int64 ({M},), not {targets.dtype} {tuple(targets.shape)}"
        )
    loss = torch.empty(M, dtype=logits.dtype, device=logits.device)
    BLOCK_V = min(triton.next_power_of_2(V), TILE)
    BLOCK_M = min(triton.next_power_of_2(M), TILE // BLOCK_V)
    cross_entropy_kernel[(triton.cdiv(M, BLOCK_M),)](
        logits, targets, loss, M, V, logits.stride(0), logits.stride(1), targets.stride(0),
        BLOCK_M=BLOCK_M, BLOCK_V=BLOCK_V, num_warps=2,
    )  # fmt: skip
    return loss
