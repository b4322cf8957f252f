# All tensors in one tuple, all numbers of the step in another, and an operator of torch's library.
import torch
import triton
import triton.language as tl


@triton.jit
def adam_step_kernel(tensors, numbers, N, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    beta1, beta2, eps, keep, rate, root = numbers
    for block in range(BLOCKS):
        offs = (tl.program_id(0) * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        mask = offs < N
        param = tl.load(tensors[0] + offs, mask=mask).to(tl.float32)
        grad = tl.load(tensors[1] + offs, mask=mask).to(tl.float32)
        m = tl.load(tensors[2] + offs, mask=mask).to(tl.float32)
        v = tl.load(tensors[3] + offs, mask=mask).to(tl.float32)
        m = m * beta1[0] + grad * beta1[1]
        v = v * beta2[0] + grad * grad * beta2[1]
        update = m / (tl.sqrt(v) * root + eps)
        tl.store(tensors[2] + offs, m, mask=mask)
        tl.store(tensors[3] + offs, v, mask=mask)
        tl.store(tensors[0] + offs, param * keep - rate * update, mask=mask)


@torch.library.custom_op(
    "unusual::adam_step", mutates_args=("param", "exp_avg", "exp_avg_sq"), device_types=None
)
def operator(
    param: torch.Tensor, grad: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor,
    step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: float,
) -> None:  # fmt: skip
    N, root = param.numel(), (1 - beta2**step) ** -0.5
    pairs = (beta1, 1 - beta1), (beta2, 1 - beta2)
    numbers = (*pairs, eps, 1 - lr * weight_decay, lr / (1 - beta1**step), root)
    adam_step_kernel[(triton.cdiv(N, 512),)](
        (param, grad, exp_avg, exp_avg_sq), numbers, N, BLOCK=256, BLOCKS=2
    )


def adam_step(*arguments, **options):
    operator(*arguments, **options)
