"""Results of the puzzles of chapter 10 with one step done wrong."""

import functools

import torch
from torch.nn import functional

from kernelgauge.diagnosis.mistakes import half_precisions, named
from kernelgauge.words.fault import note

# Sums of more steps than this are not rounded step by step.
MAX_STEPS = 64


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def size_of(x, weight, stride, padding, dilation):
    """The height and the width of the result of a convolution."""
    return tuple(
        (x.shape[2 + i] + 2 * padding[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i]
        + 1
        for i in range(2)
    )


def windows(x, window, size, stride, padding, dilation, wrap=False):
    """The elements of each window, (N, C, R, S, P, Q), and 0 for those outside x (N, C, H, W).

    wrap: an address inside the plane counts as inside, so that rows run into their neighbours
    """
    places = []
    for i in range(2):
        tap = torch.arange(window[i])[:, None] * dilation[i]
        places.append(torch.arange(size[i]) * stride[i] - padding[i] + tap)
    h, w = places[0][:, None, :, None], places[1][None, :, None, :]
    flat = h * x.shape[3] + w
    within = (flat >= 0) & (flat < x.shape[2] * x.shape[3])
    if not wrap:
        within = (h >= 0) & (h < x.shape[2]) & (w >= 0) & (w < x.shape[3])
    return torch.where(within, x.flatten(2)[..., flat.where(within, 0)], 0.0)


def causal_conv1d(x, weight, bias, activation, blocks):
    D, W = weight.shape
    L = x.shape[2]
    activate = functional.silu if activation == "silu" else torch.clone

    def filtered(padded, weight=weight):
        """The sums of the L windows that begin with the first of padded (B, D, L + W - 1)."""
        return functional.conv1d(padded, weight[:, None], groups=D)

    def out(sums):
        return (activate(sums + bias[:, None]),)

    padded = functional.pad(x, (W - 1, 0))
    sums = filtered(padded)
    first = x[..., :1].expand(-1, -1, W - 1)
    repeated = filtered(torch.cat([first, x], -1))
    yield "times before the first count as the first element instead of 0", out(repeated)
    cause = "the filter is turned around: its last tap must meet the newest element"
    yield cause, out(filtered(padded, weight.flip(1)))
    rows = functional.pad(x.flatten(), (W - 1, 0))
    cause = (
        "the first elements of a row see the end of the row before: mask by the time, not by the "
        "address"
    )
    yield cause, out(filtered(rows.unfold(0, L + W - 1, L).reshape(*x.shape[:2], L + W - 1)))
    for ahead in range(1, W):
        cause = named(
            "the window is late by {ahead}: it sees elements that come after its own", ahead=ahead
        )
        yield cause, out(filtered(functional.pad(x, (W - 1 - ahead, ahead))))
    cause = "the window is early by 1: it ends before its own element"
    yield cause, out(filtered(functional.pad(x, (W, 0))[..., :-1]))
    for tap, which in ((0, "first"), (W - 1, "last")):
        kept = weight.clone()
        kept[:, tap] = 0
        yield f"the {which} tap of the filter is left out", out(filtered(padded, kept))
    yield "the bias is added for each tap", (activate(sums + W * bias[:, None]),)
    yield "the bias is added for each tap", (activate(sums + (W + 1) * bias[:, None]),)
    for name, cast in half_precisions():
        total = torch.zeros_like(x)
        for tap in range(W):
            total = total + cast(weight[:, tap, None] * padded[..., tap : tap + L])
        yield f"products are rounded to {name} before they are added", out(total)
        cause = f"the sum is rounded to {name} before the bias is added"
        yield cause, (activate(cast(sums) + bias[:, None]),)
        if activation:
            cause = f"the sum is rounded to {name} before silu"
            yield cause, (activate(cast(sums + bias[:, None])),)
    if activation:
        wide = sums + bias[:, None]
        yield "the bias is added after silu instead of before", (activate(sums) + bias[:, None],)
        yield "the activation is left out", (wide,)
        yield "the sigmoid is not multiplied by its argument", (torch.sigmoid(wide),)


def max_pool2d(x, kernel_size, stride, padding, blocks):
    height, width = x.shape[2:]
    kernel, step, pad = (
        it if isinstance(it, tuple) else (it, it)
        for it in (kernel_size, kernel_size if stride is None else stride, padding)
    )
    lowest = float("-inf")

    def windows(padded, kernel=kernel, step=step):
        """The elements of each window, (N, C, P, Q, kernel_h * kernel_w)."""
        return padded.unfold(2, kernel[0], step[0]).unfold(3, kernel[1], step[1]).flatten(4)

    def place(tap, tall=kernel[0], wide=kernel[1], width=width, apart=1):
        """h * W + w of each window's tap of this number, with columns so far apart."""
        rows = torch.arange(tap.shape[2])[:, None] * step[0] - pad[0] + tap // wide
        columns = torch.arange(tap.shape[3]) * step[1] - pad[1] + tap % wide
        return rows * width + columns * apart

    sides = (pad[1], pad[1], pad[0], pad[0])
    inside = windows(functional.pad(x, sides, value=lowest))
    out = inside.amax(-1)
    first = (inside == out[..., None]).long().argmax(-1)
    with_zeros = windows(functional.pad(x, sides))
    cause = "padding counts as 0 in the maximum: it must count as -inf"
    yield cause, (with_zeros.amax(-1), place(with_zeros.argmax(-1)))
    yield cause, (with_zeros.amax(-1), None)
    last = inside.shape[-1] - 1 - (inside == out[..., None]).flip(-1).long().argmax(-1)
    cause = "of equal elements the last one wins instead of the first: compare with > instead of >="
    yield cause, (None, place(last))
    equal = (inside == out[..., None]).unflatten(-1, kernel).transpose(-1, -2).flatten(-2)
    turned = equal.long().argmax(-1)
    by_columns = turned % kernel[0] * kernel[1] + turned // kernel[0]
    cause = "of equal elements the first by columns wins: the window is walked row by row"
    yield cause, (None, place(by_columns))
    yield "the index counts within the window", (None, first)
    cause = "the index counts in the padded image: subtract the padding"
    padded_width = width + 2 * pad[1]
    rows = torch.arange(out.shape[2])[:, None] * step[0] + first // kernel[1]
    columns = torch.arange(out.shape[3]) * step[1] + first % kernel[1]
    yield cause, (None, rows * padded_width + columns)
    yield cause, (None, rows * width + columns)
    yield (
        "the index is multiplied by the height instead of the width",
        (None, place(first, width=height)),
    )
    cause = "the index is multiplied by the width of the result instead of that of x"
    yield cause, (None, place(first, width=out.shape[3]))
    cause = "the index is made with the strides of x, as its place in memory, instead of h * W + w"
    yield cause, (None, place(first, width=x.stride(2), apart=x.stride(3)))
    planes = torch.arange(out.shape[0] * out.shape[1]).view(*out.shape[:2], 1, 1)
    cause = "the index counts from the start of x instead of the plane's"
    yield cause, (None, place(first) + planes * height * width)
    yield (
        "the smallest element is taken instead of the largest",
        (
            windows(functional.pad(x, sides, value=-lowest)).amin(-1),
            None,
        ),
    )
    yield "the mean is taken instead of the maximum", (with_zeros.mean(-1), None)
    taps = torch.arange(kernel[0] * kernel[1]).expand(*inside.shape)
    flat = place(taps.movedim(-1, 0).flatten(0, 1)).unflatten(0, (-1, x.shape[0])).movedim(0, -1)
    within = (flat >= 0) & (flat < height * width)
    addressed = x.flatten(2).gather(2, flat.where(within, 0).flatten(2)).view(flat.shape)
    wrapped = addressed.where(within, lowest)
    cause = "rows run into their neighbours at the left and right edge: mask w, not the address"
    yield cause, (wrapped.amax(-1), flat.gather(-1, wrapped.argmax(-1, True))[..., 0])
    yield cause, (wrapped.amax(-1), None)
    yield "kernel_size is used for stride", (functional.max_pool2d(x, kernel, kernel, pad), None)
    shifted = functional.pad(x, (0, 2 * pad[1], 0, 2 * pad[0]), value=lowest)
    yield "the window begins at p * stride: subtract the padding", (windows(shifted).amax(-1), None)


def conv2d(x, weight, stride, padding, dilation, groups, blocks):
    stride, padding, dilation = map(pair, (stride, padding, dilation))
    K, C, R, S = weight.shape
    size = size_of(x, weight, stride, padding, dilation)

    def conv(x=x, weight=weight):
        return functional.conv2d(x, weight, None, stride, padding, dilation, groups)

    def of_windows(seen, weight=weight):
        """The result of windows (N, groups * C, R, S, P, Q)."""
        seen = seen.view(x.shape[0], groups, C, *seen.shape[2:])
        filters = weight.view(groups, K // groups, C, R, S)
        return torch.einsum("ngcrspq,gkcrs->ngkpq", seen, filters).flatten(1, 2)

    def seen(stride=stride, padding=padding, dilation=dilation, **how):
        return windows(x, (R, S), size, stride, padding, dilation, **how)

    yield "the filter is turned around: it must not be flipped", (conv(weight=weight.flip(2, 3)),)
    yield "stride and dilation are exchanged", (of_windows(seen(dilation, padding, stride)),)
    minus = tuple(-it for it in padding)
    yield "padding is added instead of subtracted", (of_windows(seen(padding=minus)),)
    yield "padding is left out of the window's place", (of_windows(seen(padding=(0, 0))),)
    strided = tuple(one * other for one, other in zip(padding, stride, strict=True))
    yield "padding is subtracted before stride multiplies", (of_windows(seen(padding=strided)),)
    yield "stride is left out of the window's place", (of_windows(seen(stride=(1, 1))),)
    yield "dilation is left out of the window", (of_windows(seen(dilation=(1, 1))),)
    cause = "rows run into their neighbours at the left and right edge: mask w, not the address"
    yield cause, (of_windows(seen(wrap=True)),)
    number = torch.arange(x.shape[0] * size[0] * size[1]).view(-1, *size)
    width = x.shape[3]
    wide = (size[0], max(width, size[1]))
    further = of_windows(windows(x, (R, S), wide, stride, padding, dilation)).movedim(1, -1)
    image = torch.arange(x.shape[0])[:, None, None]
    pixels = further[image, number // width % size[0], number % width].movedim(-1, 1)
    yield "pixels are taken apart by the width of x instead of the width of the result", (pixels,)
    across = tuple(it[::-1] for it in (stride, padding, dilation))
    for name, swapped in (("stride", 0), ("padding", 1), ("dilation", 2)):
        given = [stride, padding, dilation]
        given[swapped] = across[swapped]
        cause = f"{name} of the height is used for the width, and that of the width for the height"
        yield cause, (of_windows(seen(*given)),)
    if groups > 1:
        first = x[:, :C].repeat(1, groups, 1, 1)
        yield "every group reads the channels of the first group", (conv(first),)
        own = weight[: K // groups].repeat(groups, 1, 1, 1)
        yield "every group takes the filters of the first group", (conv(weight=own),)
        dealt = x.view(x.shape[0], C, groups, *x.shape[2:]).transpose(1, 2).reshape(x.shape)
        yield "channels are dealt out to the groups one by one, not in blocks", (conv(dealt),)
    terms = seen().view(x.shape[0], groups, C, R * S, *size)
    filters = weight.view(groups, K // groups, C, R * S)
    for block in blocks:
        if C * R * S / block > MAX_STEPS:
            continue
        for order in ((2, 3), (3, 2)):
            rows = terms.movedim((2, 3), order).flatten(2, 3).split(block, 2)
            columns = filters.movedim((2, 3), order).flatten(2, 3).split(block, 2)
            for name, cast in half_precisions():
                products = [
                    torch.einsum("ngcpq,gkc->ngkpq", part, other)
                    for part, other in zip(rows, columns, strict=True)
                ]
                cause = note("sum-in-few-bits", dtype=name)
                for each in (lambda product: product, cast):
                    total = 0.0
                    for product in products:
                        total = cast(total + each(product))
                    yield cause, (total.flatten(1, 2),)


def conv2d_dweight(dy, x, kernel_size, stride, padding, dilation, blocks):
    window, stride, padding, dilation = map(pair, (kernel_size, stride, padding, dilation))
    size = tuple(dy.shape[2:])

    def seen(stride=stride, padding=padding, dilation=dilation, **how):
        return windows(x, window, size, stride, padding, dilation, **how)

    def summed(seen, dy=dy):
        return torch.einsum("nkpq,ncrspq->kcrs", dy, seen)

    right = seen()
    dweight = summed(right)
    cause = "the window is turned around: its first element belongs to r = 0 and s = 0"
    yield cause, (dweight.flip(2, 3),)
    yield "rows and columns of the window are swapped", (summed(right.transpose(2, 3)),)
    yield "stride and dilation are exchanged", (summed(seen(dilation, padding, stride)),)
    minus = tuple(-it for it in padding)
    yield "padding is added instead of subtracted", (summed(seen(padding=minus)),)
    yield "padding is left out of the window's place", (summed(seen(padding=(0, 0))),)
    strided = tuple(one * other for one, other in zip(padding, stride, strict=True))
    yield "padding is subtracted before stride multiplies", (summed(seen(padding=strided)),)
    yield "stride is left out of the window's place", (summed(seen(stride=(1, 1))),)
    yield "dilation is left out of the window", (summed(seen(dilation=(1, 1))),)
    cause = "rows run into their neighbours at the left and right edge: mask w, not the address"
    yield cause, (summed(seen(wrap=True)),)
    for number, name in enumerate(("stride", "padding", "dilation")):
        given = [stride, padding, dilation]
        given[number] = given[number][::-1]
        cause = f"{name} of the height is used for the width, and that of the width for the height"
        yield cause, (summed(seen(*given)),)
    yield "the sum is divided by the number of pixels", (dweight / dy[:, 0].numel(),)
    for image in {0, x.shape[0] - 1}:
        one = slice(image, image + 1)
        yield named("only image {image} is summed", image=image), (summed(right[one], dy[one]),)
    flat_dy, flat = dy.movedim(1, 0).flatten(1), right.movedim(0, 3).flatten(3)
    pixels = flat_dy.shape[1]

    def along_pixels(flat_dy, flat):
        return torch.einsum("km,crsm->kcrs", flat_dy, flat)

    def overrun_by(pixels_more, share):
        index = torch.arange(pixels)
        twice = (index >= share) & (index % share < pixels_more)
        return (dweight + along_pixels(flat_dy[:, twice], flat[..., twice]),)

    for share in sorted({-(-pixels // parts) for parts in range(2, MAX_STEPS)}):
        for more in sorted({-share % block for block in blocks} - {0}):
            cause = "the last block of a program's share runs on into the share of the next one"
            yield cause, functools.partial(overrun_by, more, share)
    shares = {block * steps for block in blocks for steps in (1, 2, 4, 8, 16)}
    for share in sorted(shares):
        if not 1 < share < pixels:
            continue
        parts = [
            along_pixels(part, other)
            for part, other in zip(flat_dy.split(share, 1), flat.split(share, 3), strict=True)
        ]
        yield "only the first share of the pixels is summed", (parts[0],)
        yield "the last share of the pixels is left out", (dweight - parts[-1],)
        for name, cast in half_precisions():
            cause = f"partial sums are rounded to {name} before they are added"
            yield cause, (sum(map(cast, parts)),)
            total = 0.0
            for part in parts[:MAX_STEPS]:
                total = cast(total + part)
            if len(parts) <= MAX_STEPS:
                yield note("sum-in-few-bits", dtype=name), (total,)
