# fault: silu(gate) and up are added
# cause: added instead of multiplied
import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    offs, mask = row * n_cols + cols, cols < n_cols
    gate = tl.load(gate_ptr + offs, mask=mask).to(tl.float32)
    up = tl.load(up_ptr + offs, mask=mask)
    silu = (gate * tl.sigmoid(gate)).to(up.dtype)
    tl.store(y_ptr + offs, silu + up, mask=mask)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(gate)
    n_rows, n_cols = gate.shape
    BLOCK = triton.next_power_of_2(n_cols)
    num_warps = 4 if BLOCK < 2048 else 8
    swiglu_kernel[(n_rows,)](gate, up, y, n_cols, BLOCK=BLOCK, num_warps=num_warps)
    return y
