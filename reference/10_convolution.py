"""References of chapter 10: what each puzzle computes, in plain PyTorch."""

from torch.nn import functional, grad


def causal_conv1d(x, weight, bias, activation=None):
    D, W = weight.shape
    padded = functional.pad(x, (W - 1, 0))
    out = functional.conv1d(padded, weight[:, None], bias, groups=D)
    return functional.silu(out) if activation == "silu" else out


def max_pool2d(x, kernel_size, stride=None, padding=0):
    return functional.max_pool2d(x, kernel_size, stride, padding, return_indices=True)


def conv2d(x, weight, stride=1, padding=0, dilation=1, groups=1):
    return functional.conv2d(x, weight, None, stride, padding, dilation, groups)


def conv2d_dweight(dy, x, kernel_size, stride=1, padding=0, dilation=1):
    window = kernel_size if isinstance(kernel_size, tuple) else (kernel_size, kernel_size)
    shape = (dy.shape[1], x.shape[1], *window)
    return grad.conv2d_weight(x, shape, dy, stride, padding, dilation)
