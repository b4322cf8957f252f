"""References of chapter 09: what each puzzle computes, in plain PyTorch."""

import torch


def split_k_matmul(a, b):
    return a @ b


def stream_k_matmul(a, b):
    return a @ b


def gram_matrix(a):
    return a @ a.T


def grouped_matmul(a, b, ends):
    start, parts = 0, []
    for group, end in enumerate(ends.tolist()):
        parts.append(a[start:end] @ b[group])
        start = end
    return torch.cat(parts)


def pruned_matmul(a, b):
    return a @ b
