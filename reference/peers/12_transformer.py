"""What a user would take instead of the solutions of chapter 12."""

import math

import torch
from torch.nn import functional
from torch.optim.adamw import adamw

from course.benchmark.libraries import liger
from course.benchmark.peers import COMPILED, Benchmark, Peer
from course.benchmark.workloads import HALF, matmul_bytes, matmul_operations
from course.loader import load_reference


def rotary(B, H, Hkv, S, D, dtype):
    angles = torch.rand(S, D // 2) * 6.28
    q, k = torch.randn(B, H, S, D, dtype=dtype), torch.randn(B, Hkv, S, D, dtype=dtype)
    return q, k, angles.cos(), angles.sin()


def liger_rope(kernel, q, k, cos, sin):
    # It turns (B, S, H, D) memory in place, and takes tables of whole rows.
    whole = (torch.cat((table, table), dim=1)[None] for table in (cos, sin))
    return kernel.apply(q.clone(), k.clone(), *whole)


def gated(M, N, dtype):
    return tuple(torch.randn(M, N, dtype=dtype) for _ in range(3))


def both_ways(function):
    """The function with its backward pass: the inputs are gate, up and the gradient of y."""

    def call(gate, up, dy):
        leaves = [x.detach().requires_grad_() for x in (gate, up)]
        y = function(*leaves)
        return y.detach(), *torch.autograd.grad(y, leaves, dy)

    return call


def grouped(B, C, L, dtype):
    x = torch.randn(B, C, L, dtype=dtype)
    return x, 32 if C % 32 == 0 else 1, torch.randn(C, dtype=dtype), torch.randn(C, dtype=dtype)


def native_group_norm(x, groups, weight, bias):
    B, C, L = x.shape
    return torch.ops.aten.native_group_norm(x, weight, bias, B, C, L, groups, 1e-5)


def normed_layer(M, N, K, dtype):
    sizes = (M, K), (K,), (K,), (N, K), (N,)
    return tuple(torch.randn(*size, dtype=dtype) for size in sizes)


def norm_and_linear(x, norm_weight, norm_bias, weight, bias):
    normed = functional.layer_norm(x, (x.shape[1],), norm_weight, norm_bias)
    return functional.linear(normed, weight, bias)


def linear_alone(x, norm_weight, norm_bias, weight, bias):
    return functional.linear(x, weight, bias)


def logits(M, V, dtype):
    x = torch.randn(M, V, dtype=dtype)
    dloss = torch.full((1,), 1 / M).expand(M)
    return dloss, x, torch.randint(V, (M,)), torch.logsumexp(x.float(), 1)


def last_layer(M, V, D, dtype):
    x, weight = torch.randn(M, D, dtype=dtype), torch.randn(V, D, dtype=dtype) / math.sqrt(D)
    return x, weight, torch.randint(V, (M,))


def liger_fused(kernel, x, weight, targets):
    loss, *_, dx, dweight, _ = _with_unpacked(kernel(x, weight, targets))
    return loss, dx, dweight


def _with_unpacked(results):
    """(loss, ..., dx, dweight, dbias), whatever else this version of Liger returns."""
    loss, *rest = results
    gradients = [value for value in rest if value is None or value.dim() == 2]
    return loss, *(gradients + [None] * (3 - len(gradients)))


def autograd_cross_entropy(x, weight, targets):
    leaves = [tensor.detach().requires_grad_() for tensor in (x, weight)]
    loss = functional.cross_entropy(leaves[0] @ leaves[1].T, targets)
    return loss.detach().float(), *torch.autograd.grad(loss, leaves)


OPTIONS = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.1}


def training(B, S, heads, E, F, V, dtype):
    D = heads * E
    R = 2 + 4 * D + 3 * F + V
    angles = torch.rand(S, E // 2) * 6.28
    params = torch.randn(R, D, dtype=dtype) / math.sqrt(D)
    moments = torch.randn(R, D) / 100, torch.rand(R, D) / 1e4
    targets = torch.randint(V, (B, S))
    x, loss = torch.randn(B, S, D, dtype=dtype), torch.zeros(1)
    tables = angles.cos(), angles.sin()
    return x, targets, *tables, params, *moments, loss, heads, F, 3, *OPTIONS.values()


def training_operations(B, S, heads, E, F, V):
    """The products of the weights, three each, and those of causal attention, 3.5 times forward."""
    D = heads * E
    weights = 3 * 2 * B * S * (4 * D + 3 * F + V) * D
    return weights + 3.5 * 4 * B * heads * S * S * E / 2


def torch_step(compiled):
    """A block of PyTorch's own kernels, and its fused AdamW."""

    def prepare(reference):
        rope, split_params = (
            load_reference("12_transformer", name) for name in ("rope", "split_params")
        )

        def losses(x, targets, cos, sin, params, heads, hidden):
            B, S, D = x.shape
            w = split_params(params, hidden)
            normed = functional.rms_norm(x, (D,), w["norm_1"][0], 1e-6)
            qkv = functional.linear(normed, w["qkv"]).view(B, S, 3, heads, D // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            q, k = rope(q, k, cos, sin)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = x + functional.linear(mixed.transpose(1, 2).reshape(B, S, D), w["out"])
            normed = functional.rms_norm(h, (D,), w["norm_2"][0], 1e-6)
            gate, up = functional.linear(normed, w["gate_up"]).chunk(2, dim=-1)
            y = h + (functional.silu(gate) * up) @ w["down"]
            logits = functional.linear(y, w["head"]).flatten(0, 1)
            return functional.cross_entropy(logits.float(), targets.flatten())

        forward = torch.compile(losses, dynamic=False) if compiled else losses

        def call(x, targets, cos, sin, params, m, v, loss, heads, hidden, step, *options):
            leaf = params.detach().requires_grad_()
            mean = forward(x, targets, cos, sin, leaf, heads, hidden)
            (grad,) = torch.autograd.grad(mean, leaf)
            count = torch.full((), step - 1.0, device=params.device)
            chosen = dict(zip(OPTIONS, options, strict=True))
            # Fused, it takes all of one dtype, and the moments are float32.
            weights = params.float()
            adamw(
                [weights], [grad.float()], [m], [v], [], [count],
                fused=True, amsgrad=False, maximize=False, **chosen,
            )  # fmt: skip
            params.copy_(weights)
            loss.copy_(mean.detach())

        return call

    name = "compiled, SDPA, fused AdamW" if compiled else "SDPA, fused AdamW"
    return Peer(name, prepare=prepare)


BENCHMARKS = {
    "rope": Benchmark(
        "rope",
        make=rotary,
        sizes=((1, 32, 8, 4096, 128), (4, 32, 8, 4096, 128), (3, 31, 1, 5003, 96)),
        dtypes=HALF,
        peers=(COMPILED, liger("LigerRopeFunction", liger_rope)),
        bytes_moved=lambda B, H, Hkv, S, D, itemsize: (
            2 * B * (H + Hkv) * S * D * itemsize + 4 * S * D
        ),
    ),
    "geglu": Benchmark(
        "geglu",
        make=gated,
        sizes=((4096, 8192), (16384, 11008), (20_011, 11_007)),
        peers=(COMPILED, liger("LigerGELUMulFunction", lambda f, a, b: f.apply(a, b))),
        bytes_moved=lambda M, N, itemsize: 8 * M * N * itemsize,
        timed=both_ways,
    ),
    "group_norm": Benchmark(
        "group_norm",
        make=grouped,
        sizes=((4, 512, 4096), (16, 512, 4096), (7, 320, 5003)),
        peers=(
            Peer("native_group_norm", native_group_norm),
            COMPILED,
        ),
        bytes_moved=lambda B, C, L, itemsize: 2 * B * C * L * itemsize,
    ),
    "layer_norm_linear": Benchmark(
        "layer_norm_linear",
        make=normed_layer,
        sizes=((4096, 4096, 4096), (8192, 4096, 4096), (4003, 4001, 4007)),
        dtypes=HALF,
        peers=(
            Peer("layer_norm, linear", norm_and_linear),
            COMPILED,
        ),
        bytes_moved=matmul_bytes,
        operations=matmul_operations,
    ),
    "cross_entropy_backward": Benchmark(
        "cross_entropy_backward",
        make=logits,
        sizes=((4096, 32768), (8192, 32768), (4001, 128_255)),
        peers=(COMPILED,),
        bytes_moved=lambda M, V, itemsize: 2 * M * V * itemsize,
        varied=True,
    ),
    "fused_linear_cross_entropy": Benchmark(
        "fused_linear_cross_entropy",
        make=last_layer,
        sizes=((4096, 32768, 2048), (8192, 32768, 2048), (4003, 50_257, 1600)),
        dtypes=HALF,
        peers=(
            Peer("cross_entropy, autograd", autograd_cross_entropy),
            COMPILED,
            liger("fused_linear_cross_entropy_forward", liger_fused),
        ),
        operations=lambda M, V, D: 6 * M * V * D,
        varied=True,
    ),
    "train_step": Benchmark(
        "train_step",
        make=training,
        sizes=(
            (1, 2048, 16, 128, 8192, 32768),
            (4, 2048, 16, 128, 5632, 32768),
            (3, 1511, 12, 64, 2048, 50_257),
        ),
        dtypes=("bfloat16",),
        peers=(torch_step(compiled=False), torch_step(compiled=True)),
        operations=training_operations,
        varied=True,
    ),
}
