# Lanes run over the result in one dimension, wherever its rows end, and look their lengths up.
import triton
import triton.language as tl


@triton.jit
def last_tokens_kernel(x_ptr, lengths_ptr, out_ptr, N, D, strides, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    b, d = offs // D, offs % D
    last = tl.load(lengths_ptr + b, mask=mask, other=1).to(tl.int64) - 1
    x = tl.load(x_ptr + b * strides[0] + last * strides[1] + d * strides[2], mask=mask)
    tl.store(out_ptr + offs, x, mask=mask)


def made():
    def launch(x, lengths):
        out = x.new_zeros(x.shape[::2])
        last_tokens_kernel[lambda meta: [triton.cdiv(out.numel(), meta["BLOCK"])]](
            x, lengths, out, out.numel(), x.shape[2], x.stride(), BLOCK=256
        )
        return out

    return launch


last_tokens = made()
