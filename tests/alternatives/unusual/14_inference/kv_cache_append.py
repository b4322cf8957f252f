# Lanes run over the elements of all tokens; the first lane of each token counts what is dropped.
import triton
import triton.language as tl


@triton.jit
def kv_cache_append_kernel(
    pairs, slots_ptr, dropped_ptr, total, WIDTH, page, capacity, BLOCK: tl.constexpr
):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n, e = offs // WIDTH, offs % WIDTH
    slot = tl.load(slots_ptr + n, mask=offs < total, other=-1)
    lost = (slot >= capacity) & (e == 0)
    tl.atomic_add(dropped_ptr + tl.zeros_like(n), tl.where(lost, 1, 0), mask=lost)
    kept = (slot >= 0) & (slot < capacity)
    for i in tl.static_range(2):
        x_ptr, cache_ptr, strides = pairs[i]
        x = tl.load(x_ptr + n * strides[0] + e, mask=kept)
        place = slot // page * strides[1] + slot % page * strides[2]
        tl.store(cache_ptr + place + e, x, mask=kept)


def kv_cache_append(key, value, key_cache, value_cache, slots, dropped):
    (N, heads, D), (P, page) = key.shape, key_cache.shape[:2]
    pairs = tuple(
        (x, cache, (x.stride(0), *cache.stride()[:2]))
        for x, cache in ((key, key_cache), (value, value_cache))
    )
    grid = (triton.cdiv(N * heads * D, 512),)
    kv_cache_append_kernel[grid](
        pairs, slots, dropped, N * heads * D, heads * D, page, P * page, BLOCK=512
    )
