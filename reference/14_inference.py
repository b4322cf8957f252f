"""References of chapter 14: what each puzzle computes, in plain PyTorch."""


def kv_cache_append(key, value, key_cache, value_cache, slots, dropped):
    P, page = key_cache.shape[:2]
    late = slots >= P * page
    keep = (slots >= 0) & ~late
    place = slots[keep].long()
    key_cache[place // page, place % page] = key[keep]
    value_cache[place // page, place % page] = value[keep]
    dropped += late.sum()
