# fault: the weight is left out of the mean of the gradient
# cause: weight is left out of
import torch
import triton
import triton.language as tl

ROWS_PER_PROGRAM = 32


@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_parts_ptr, db_parts_ptr,
    M, N, rows_per_program,
    BLOCK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    first = pid * rows_per_program
    for row in range(first, min(first + rows_per_program, M)):
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        x_hat = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        g = dy * weight
        c1 = tl.sum(dy, axis=0) / N
        c2 = tl.sum(g * x_hat, axis=0) / N
        tl.store(dx_ptr + row * N + cols, (g - c1 - x_hat * c2) * rstd, mask=mask)
        dw += dy * x_hat
        db += dy
    tl.store(dw_parts_ptr + pid * N + cols, dw, mask=mask)
    tl.store(db_parts_ptr + pid * N + cols, db, mask=mask)


@triton.jit
def add_parts_kernel(
    dw_parts_ptr, db_parts_ptr, dw_ptr, db_ptr,
    parts, N,
    BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    dw = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    db = tl.zeros([BLOCK_P, BLOCK_N], tl.float32)
    for start in range(0, parts, BLOCK_P):
        rows = start + tl.arange(0, BLOCK_P)
        mask = (rows[:, None] < parts) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(dw_parts_ptr + offs, mask=mask, other=0.0)
        db += tl.load(db_parts_ptr + offs, mask=mask, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)


def layer_norm_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    M, N = x.shape
    parts = triton.cdiv(M, ROWS_PER_PROGRAM)
    dx = torch.empty_like(x)
    dweight, dbias = torch.empty_like(weight), torch.empty_like(weight)
    dw_parts = torch.empty(parts, N, dtype=torch.float32, device=x.device)
    db_parts = torch.empty_like(dw_parts)
    BLOCK = triton.next_power_of_2(N)
    layer_norm_backward_kernel[(parts,)](
        dy, x, weight, mean, rstd, dx, dw_parts, db_parts,
        M, N, ROWS_PER_PROGRAM,
        BLOCK=BLOCK, num_warps=4 if BLOCK < 2048 else 8,
    )  # fmt: skip
    add_parts_kernel[(triton.cdiv(N, 32),)](
        dw_parts, db_parts, dweight, dbias, parts, N, BLOCK_P=32, BLOCK_N=32
    )
    return dx, dweight, dbias
