# fault: the sigmoid is that of -gate
# cause: exp\(gate\) instead of exp\(-gate\)

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(
    gate_ptr, up_ptr, y_ptr,
    N,
    BLOCK: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    gate = tl.load(gate_ptr + offs, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + offs, mask=mask).to(tl.float32)
    y = gate / (1 + tl.exp(gate)) * up
    tl.store(y_ptr + offs, y, mask=mask)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(gate)
    N, BLOCK = gate.numel(), 1024
    swiglu_kernel[(triton.cdiv(N, BLOCK),)](gate, up, y, N, BLOCK=BLOCK)
    return y
