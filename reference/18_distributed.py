"""References of chapter 18: what each puzzle computes, in plain PyTorch."""

import torch


def all_reduce(shards):
    wide = torch.promote_types(shards[0].dtype, torch.float32)
    return [sum(x.to(own.device, wide) for x in shards).to(own.dtype) for own in shards]


def two_shot_all_reduce(shards):
    return all_reduce(shards)


def average_gradients(grads):
    wide = torch.promote_types(grads[0].dtype, torch.float32)
    faults = [(~torch.isfinite(x)).sum(dtype=torch.int32) for x in grads]
    averages = []
    for own in grads:
        total, healthy = torch.zeros(own.shape, dtype=wide, device=own.device), 0
        for x, count in zip(grads, faults, strict=True):
            x, is_healthy = x.to(own.device, wide), count.to(own.device) == 0
            total += torch.where(is_healthy, x, 0)
            healthy = healthy + is_healthy
        averages.append((total / healthy.clamp(min=1)).to(own.dtype))
    return averages, faults


def all_gather_matmul(shards, weights):
    return [torch.cat([x.to(own.device) for x in shards]) @ own for own in weights]
