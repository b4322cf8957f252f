"""Variants beside today's solutions and a library, most valuable first, within a time budget."""

import json, math, os, statistics, subprocess, sys, time
from pathlib import Path

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor as TD

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
BEGAN = time.monotonic()
OUT = Path(os.environ.get("OUT", "/tmp/out"))
BUDGET = float(os.environ.get("BUDGET", "400"))
WORKERS = int(os.environ.get("WORKERS", "14"))

import mm as MM, attn as A, attnws as AW, rows as R  # noqa: E402
from course import loader, paths  # noqa: E402
from kernelgauge.core.settings import settings  # noqa: E402

settings.subjects = paths.SOLUTIONS.resolve()
SMS = torch.cuda.get_device_properties(0).multi_processor_count


def today(chapter, file, function):
    return loader.load_subject(chapter, file, function)


def before(file, function):
    import importlib.util

    spec = importlib.util.spec_from_file_location("before_" + file, HERE / "before" / f"{file}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


def rnd(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def desc(x, rows, cols):
    return TD.from_tensor(x, [1] * (x.dim() - 2) + [rows, cols])


def product(
    a, b, BM=128, BN=256, P=False, WS=False, ST=0, w=8, s=3, wide=True, flat=False, group=8, BK=64
):
    """a (M, K) or (B, M, K) @ b, by descriptors; a and b contiguous or transposed views."""

    def call():
        batch = a.shape[0] if a.dim() == 3 else 1
        M, K = a.shape[-2:]
        N = b.shape[-1]
        c = torch.empty(*a.shape[:-1], N, dtype=a.dtype, device=a.device)
        at, bt = a.stride(-1) != 1, b.stride(-1) != 1
        da = desc(a.mT, BK, BM) if at else desc(a, BM, BK)
        db = desc(b.mT, BN, BK) if bt else desc(b, BK, BN)
        dc = TD.from_tensor(c, [BM, BN // 2 if ST == 2 else BN]) if ST else c
        tiles = triton.cdiv(M, BM) * triton.cdiv(N, BN) * batch
        MM.mm[(min(tiles, SMS) if P else tiles,)](
            da,
            db,
            c,
            dc,
            M,
            N,
            K,
            AT=at,
            BT=bt,
            BLOCK_M=BM,
            BLOCK_N=BN,
            BLOCK_K=BK,
            GROUP_M=group,
            PERSISTENT=P,
            WS=WS,
            STORE=ST,
            BATCH=batch,
            WIDE=wide,
            FLAT=flat,
            num_warps=w,
            num_stages=s,
        )
        return c

    return call


MM_VARIANTS = {
    "np s3": dict(),
    "np s4": dict(s=4),
    "np s4 g16": dict(s=4, group=16),
    "P s3 st1": dict(P=True, ST=1),
    "P s4 st2": dict(P=True, ST=2, s=4),
    "P s3 flat": dict(P=True, ST=1, flat=True),
    "WS s3": dict(WS=True, w=4, s=3, wide=False),
    "WS s4": dict(WS=True, w=4, s=4, wide=False),
    "WS P s4": dict(P=True, WS=True, w=4, s=4, wide=False),
    "256x128 s4": dict(BM=256, BN=128, s=4),
    "128x128 w4 s4": dict(BN=128, w=4, s=4),
    "128x128 w8 s4": dict(BN=128, w=8, s=4),
}


def products(a, b, names, extra, reference=None):
    calls = dict(extra)
    calls |= {n: product(a, b, **MM_VARIANTS[n]) for n in names}
    return calls, reference or (lambda: torch.matmul(a, b)), 0.02


def linear(S, names):
    def setup():
        x, w, bias = rnd(S, S), rnd(S, S), torch.zeros(S, dtype=torch.bfloat16, device="cuda")
        solution = today("07_matmul", "linear", "linear")
        return products(
            x,
            w.T,
            names,
            {
                "new": lambda: solution(x, w, bias, None),
                "cublas": lambda: x @ w.T,
                "today": lambda f=before("linear", "linear"): f(x, w, bias, None),
            },
        )

    return setup


def tiled(S, names):
    def setup():
        a, b = rnd(S, S), rnd(S, S)
        t, s = (
            today("07_matmul", "tiled", "tiled_matmul"),
            today("07_matmul", "swizzled", "swizzled_matmul"),
        )
        return products(
            a,
            b,
            names,
            {"today": lambda: t(a, b), "swizzled": lambda: s(a, b), "cublas": lambda: a @ b},
        )

    return setup


def batched(B, S, names):
    def setup():
        a, b = rnd(B, S, S), rnd(B, S, S)
        solution = today("07_matmul", "batched", "batched_matmul")
        return products(
            a,
            b,
            names,
            {
                "new": lambda: solution(a, b),
                "cublas": lambda: torch.bmm(a, b),
                "today": lambda f=before("batched", "batched_matmul"): f(a, b),
            },
        )

    return setup


def realigned(x, kernel, BM, BN, w):
    rows, cols = x.shape
    pitch = triton.cdiv(cols, 8) * 8
    y = torch.empty(rows, pitch, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(rows, BM) * triton.cdiv(pitch, BN),)
    kernel[grid](x, y, rows, cols, x.stride(0), pitch, BLOCK_M=BM, BLOCK_N=BN, num_warps=w)
    return y[:, :cols]


def realign():
    x = rnd(4003, 4007)
    calls = {
        f"{k.fn.__name__} {bm}x{bn} w{w}": (
            lambda k=k, bm=bm, bn=bn, w=w: realigned(x, k, bm, bn, w)
        )
        for k in (R.realign, R.realign_all)
        for bm, bn, w in (
            (1, 2048, 4),
            (1, 4096, 8),
            (4, 512, 4),
            (4, 1024, 8),
            (16, 256, 8),
            (8, 256, 4),
        )
    }
    calls["pad"] = lambda: torch.nn.functional.pad(x, (0, 1))[:, :4007]
    return calls, lambda: x, 1e-9


def odd(turned, M=4003, N=4001, K=4007):
    def setup():
        a = rnd(M, K)
        b = rnd(N, K).T if turned else rnd(K, N)
        bias = torch.zeros(N, dtype=torch.bfloat16, device="cuda")
        old = before("linear", "linear")
        lin, sw = (
            today("07_matmul", "linear", "linear"),
            today("07_matmul", "swizzled", "swizzled_matmul"),
        )

        def padded(**o):
            def call():
                x = realigned(a, R.realign_all, 4, 1024, 8)
                y = (
                    realigned(b.T, R.realign_all, 4, 1024, 8).T
                    if turned
                    else realigned(b, R.realign_all, 4, 1024, 8)
                )
                return product(x, y, **o)()

            return call

        calls = {
            "today": (lambda: lin(a, b.T, bias, None)) if turned else (lambda: sw(a, b)),
            "cublas": lambda: a @ b,
        }
        if turned:
            calls["before"] = lambda: old(a, b.T, bias, None)
        calls |= {n: padded(**MM_VARIANTS[n]) for n in ("np s4", "np s3", "128x128 w8 s4")}
        if turned:
            f = torch.compile(lambda a, b: a @ b, dynamic=False)
            calls["compile"] = lambda: f(a, b)
        return calls, lambda: a @ b, 0.02

    return setup


def attention(B, H, S, D, causal, names):
    def setup():
        q, k, v = (rnd(B, H, S, D) for _ in range(3))
        f = today(
            "13_attention",
            "causal_attention" if causal else "flash_attention",
            "causal_attention" if causal else "flash_attention",
        )
        p = today("17_persistent", "persistent_attention", "persistent_attention")
        scale = D**-0.5 * math.log2(math.e)

        def cudnn():
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def first(x):
            return x[0] if isinstance(x, tuple) else x

        calls = {
            "today flash": lambda: first(f(q, k, v)),
            "new persistent": lambda: p(q, k, v, causal=causal),
            "today persistent": lambda f=before("persistent_attention", "persistent_attention"): f(q, k, v, causal=causal),
            "cudnn": cudnn,
        }

        def plain(BM, BN, w, s, P=False, AH=False):
            def call():
                out = torch.empty_like(q)
                tiles = triton.cdiv(S, BM) * B * H
                A.attention[(min(tiles, SMS) if P else tiles,)](
                    desc(q, BM, D),
                    desc(k, BN, D),
                    desc(v, BN, D),
                    out,
                    B,
                    H,
                    1,
                    S,
                    S,
                    scale,
                    D=D,
                    CAUSAL=causal,
                    BLOCK_M=BM,
                    BLOCK_N=BN,
                    PERSISTENT=P,
                    WS=False,
                    AHEAD=AH,
                    LONGEST_FIRST=causal,
                    num_warps=w,
                    num_stages=s,
                )
                return out

            return call

        def flat(BM, BN, s, P=False, MK=0, w=4, ws=True):
            def call():
                out = torch.empty_like(q)
                tiles = triton.cdiv(S, BM) * B * H
                m = lambda x, r: TD.from_tensor(x.view(B * H * S, D), [r, D])
                AW.flat[(min(tiles, SMS) if P else tiles,)](
                    m(q, BM),
                    m(k, BN),
                    m(v, BN),
                    out,
                    B,
                    H,
                    1,
                    S,
                    S,
                    scale,
                    D=D,
                    CAUSAL=causal,
                    BLOCK_M=BM,
                    BLOCK_N=BN,
                    PERSISTENT=P,
                    WS=ws,
                    ALL=False,
                    MASK=MK,
                    num_warps=w,
                    num_stages=s,
                )
                return out

            return call

        every = {
            "128x64 w4 s2": plain(128, 64, 4, 2),
            "64x128 w4 s2": plain(64, 128, 4, 2),
            "64x128 w4 s3": plain(64, 128, 4, 3),
            "64x64 w4 s3": plain(64, 64, 4, 3),
            "P 128x64 w8 s3": plain(128, 64, 8, 3, P=True),
            "128x128 w8 s2": plain(128, 128, 8, 2),
            "128x64 w8 s3": plain(128, 64, 8, 3),
            "ahead 128x128 w8": plain(128, 128, 8, 2, AH=True),
            "ahead 128x64 w8": plain(128, 64, 8, 3, AH=True),
            "P 128x128 w8 s2": plain(128, 128, 8, 2, P=True),
            "P ahead 128x128 w8": plain(128, 128, 8, 2, P=True, AH=True),
            "P 256x64 w16 s3": plain(256, 64, 16, 3, P=True),
            "P 256x64 w16 s2": plain(256, 64, 16, 2, P=True),
            "P 256x64 w8 s3": plain(256, 64, 8, 3, P=True),
            "128x128 w8 s3": plain(128, 128, 8, 3),
            "WS 128x128 s2": flat(128, 128, 2),
            "WS 128x64 s3": flat(128, 64, 3),
            "WS 128x128 s3": flat(128, 128, 3),
            "WS P 128x128 s2": flat(128, 128, 2, P=True),
            "WS P 128x64 s3": flat(128, 64, 3, P=True),
            "WS P 128x128 s3": flat(128, 128, 3, P=True),
            "WS 128x128 s2 mask": flat(128, 128, 2, MK=1),
            "WS P 128x64 s4": flat(128, 64, 4, P=True),
        }
        return calls | {n: every[n] for n in names}, cudnn, 0.02

    return setup


WSA = ("WS 128x128 s2", "WS P 128x128 s2")


def softmax(M, N, dtype):
    def setup():
        x = rnd(M, N, dtype=dtype)
        f = today("17_persistent", "persistent_softmax", "persistent_softmax")
        kernel = f.__globals__["persistent_softmax_kernel"]
        plain = today("04_softmax", "softmax", "softmax")

        def variant(tile, w, stages):
            def call():
                y = torch.empty_like(x)
                BN = triton.next_power_of_2(N)
                row = BN * x.element_size()
                BM = max(1, tile // row)
                room = (SHARED - 2048) // (BM * row)
                ahead = min(stages, room)
                kernel[(min(triton.cdiv(M, BM), SMS),)](
                    x,
                    y,
                    M,
                    N,
                    x.stride(0),
                    x.stride(1),
                    BLOCK_M=BM,
                    BLOCK_N=BN,
                    VECTOR=math.gcd(N, x.stride(0), 16 // x.element_size()),
                    STAGES=1 + ahead if ahead > 1 else 1,
                    num_warps=w,
                )
                return y

            return call

        calls = {
            "today": lambda: f(x),
            "04.1": lambda: plain(x),
            "torch": lambda: torch.softmax(x, 1),
        }
        for tile in (2**14, 2**15, 2**16):
            for w in (8, 16, 32):
                for stages in (2, 3, 4):
                    if (tile, stages) in (
                        (2**14, 4),
                        (2**15, 3),
                        (2**15, 2),
                        (2**16, 2),
                        (2**15, 4),
                    ):
                        calls[f"{tile} w{w} s{stages}"] = variant(tile, w, stages)
        return calls, lambda: torch.softmax(x.float(), 1), 0.01

    return setup


SHARED = torch.cuda.get_device_properties(0).shared_memory_per_block_optin


def rms(M, N, dtype):
    def setup():
        x, w = rnd(M, N, dtype=dtype), rnd(N, dtype=dtype)
        f = today("05_normalization", "rms_norm", "rms_norm")
        BN = triton.next_power_of_2(N)

        def variant(warps, evict, BM=1):
            def call():
                y = torch.empty_like(x)
                R.rms[(triton.cdiv(M, BM),)](
                    x, w, y, M, N, 1e-6, BLOCK_M=BM, BLOCK_N=BN, EVICT=evict, num_warps=warps
                )
                return y

            return call

        def twice(block, warps):
            def call():
                y = torch.empty_like(x)
                R.rms_twice[(M,)](x, w, y, M, N, 1e-6, BLOCK=block, num_warps=warps)
                return y

            return call

        g = torch.compile(
            lambda x, w: (
                x.float()
                * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
                * w.float()
            ).to(x.dtype),
            dynamic=False,
        )
        calls = {"today": lambda: f(x, w), "compile": lambda: g(x, w)}
        for evict in ("", "evict_first"):
            for warps in (4, 8, 16, 32):
                if BN // warps // 32 <= 64:
                    calls[f"w{warps} {evict}"] = variant(warps, evict)
        calls["twice 4096 w8"] = twice(4096, 8)
        calls["twice 8192 w16"] = twice(8192, 16)
        return (
            calls,
            lambda: (
                x.float()
                * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
                * w.float()
            ),
            0.01,
        )

    return setup


def row_sum(M, N, dtype):
    def setup():
        x = rnd(M, N, dtype=dtype)
        f, g = (
            today("03_reductions", "row_sum", "row_sum"),
            today("03_reductions", "row_argmax", "row_argmax"),
        )
        kernel = g.__globals__["row_argmax_kernel"]

        def variant(tile, warps, evict):
            def call():
                y = torch.empty(M, dtype=dtype, device="cuda")
                BN = min(triton.next_power_of_2(N), tile)
                R.row_sum[(M,)](x, y, M, N, BLOCK_M=1, BLOCK_N=BN, EVICT=evict, num_warps=warps)
                return y

            return call

        def arg(tile, warps):
            def call():
                y = torch.empty(M, dtype=torch.int64, device="cuda")
                kernel[(M,)](x, y, M, N, N, 1, BLOCK_M=1, BLOCK_N=tile, num_warps=warps)
                return x.gather(1, y[:, None])[:, 0] if CHECKING else y

            return call

        calls = {"today": lambda: f(x), "torch.sum": lambda: x.sum(1)}
        for tile, warps in ((2048, 4), (4096, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16)):
            calls[f"{tile} w{warps} evict"] = variant(tile, warps, "evict_first")
        calls["8192 w8"] = variant(8192, 8, "")
        if CHECKING:
            return calls, lambda: x.double().sum(1), 0.02
        calls |= {"argmax today": lambda: g(x), "torch.max": lambda: x.max(1)[1]}
        for tile, warps in ((512, 1), (1024, 2), (2048, 4), (4096, 4), (4096, 8), (8192, 8)):
            calls[f"argmax {tile} w{warps}"] = arg(tile, warps)
        return calls, lambda: x.double().sum(1), 0.02

    return setup


CHECKING = False


def layer_norm(M, N, dtype):
    def setup():
        x, w, b = rnd(M, N, dtype=dtype), rnd(N, dtype=dtype), rnd(N, dtype=dtype)
        f = today("05_normalization", "layer_norm", "layer_norm")
        kernel = f.__globals__["layer_norm_kernel"]
        BN = triton.next_power_of_2(N)

        def sweep(warps):
            def call():
                y = torch.empty_like(x)
                mean, rstd = (torch.empty(M, device="cuda") for _ in range(2))
                kernel[(M,)](
                    x,
                    w,
                    b,
                    y,
                    mean,
                    rstd,
                    M,
                    N,
                    1e-5,
                    N,
                    1,
                    1,
                    1,
                    BLOCK_M=1,
                    BLOCK_N=BN,
                    num_warps=warps,
                )
                return y

            return call

        def middle(warps):
            def call():
                y = torch.empty_like(x)
                mean, rstd = (torch.empty(M, device="cuda") for _ in range(2))
                R.layer_norm_middle[(M,)](
                    x,
                    w,
                    b,
                    y,
                    mean,
                    rstd,
                    N,
                    1e-5,
                    BLOCK_N=BN,
                    VEC=16 // x.element_size(),
                    num_warps=warps,
                )
                return y

            return call

        ref = lambda: torch.nn.functional.layer_norm(x.float(), (N,), w.float(), b.float())
        calls = {
            "today": lambda: f(x, w, b)[0],
            "torch": lambda: torch.nn.functional.layer_norm(x, (N,), w, b),
        }
        for warps in (4, 8, 16, 32):
            if BN // warps // 32 <= 64:
                calls[f"w{warps}"] = sweep(warps)
                calls[f"middle w{warps}"] = middle(warps)
        return calls, ref, 0.01

    return setup


def sweep_rows(chapter, file, function, kernel_name, M, N, dtype, launch):
    """Another num_warps for a kernel that holds a row of x."""

    def setup():
        x = rnd(M, N, dtype=dtype)
        f = today(chapter, file, function)
        kernel = f.__globals__[kernel_name]
        first = lambda r: r[0] if isinstance(r, tuple) else r
        calls = {"today": lambda: first(f(x))}
        for warps in (8, 16, 32):
            calls[f"w{warps}"] = lambda warps=warps: launch(kernel, x, warps)
        return calls, lambda: first(f(x)).float(), 0.02

    return setup


def launch_quantize(kernel, x, warps):
    M, N = x.shape
    q, scale = torch.empty(M, N, dtype=torch.int8, device="cuda"), torch.empty(M, device="cuda")
    kernel[(M,)](
        x, q, scale, M, N, N, 1, BLOCK_M=1, BLOCK_N=triton.next_power_of_2(N), num_warps=warps
    )
    return q


def launch_variance(kernel, x, warps):
    M, N = x.shape
    y = torch.empty(M, dtype=x.dtype, device="cuda")
    kernel[(M,)](x, y, M, N, N, 1, BLOCK_M=1, BLOCK_N=triton.next_power_of_2(N), num_warps=warps)
    return y


def outer(M, N):
    def setup():
        x, y = rnd(M, dtype=torch.float32), rnd(N, dtype=torch.float32)
        f = today("02_indexing", "outer_add", "outer_add")
        kernel = f.__globals__["outer_add_kernel"]
        g = torch.compile(lambda x, y: x[:, None] + y[None, :], dynamic=False)

        def variant(BM, BN, w, turn):
            def call():
                z = torch.empty(M, N, device="cuda")
                kernel[(triton.cdiv(M, BM), triton.cdiv(N, BN))](
                    x, y, z, M, N, 1, 1, BLOCK_M=BM, BLOCK_N=BN, num_warps=w
                )
                return z

            return call

        calls = {"today": lambda: f(x, y), "compile": lambda: g(x, y)}
        for BM, BN, w in (
            (1, 1024, 4),
            (1, 4096, 8),
            (2, 2048, 8),
            (4, 1024, 4),
            (4, 2048, 8),
            (8, 512, 4),
            (16, 512, 8),
            (16, 128, 4),
            (32, 256, 8),
            (16, 256, 4),
        ):
            calls[f"{BM}x{BN} w{w}"] = variant(BM, BN, w, 0)
        return calls, lambda: x[:, None] + y[None, :], 1e-6

    return setup


def branch(N, dtype):
    def setup():
        x = rnd(N, dtype=dtype)
        f = today("01_pointwise", "swish", "swish")

        def variant(block, w):
            def call():
                y = torch.empty_like(x)
                R.swish_branch[(triton.cdiv(N, block),)](x, y, N, BLOCK=block, num_warps=w)
                return y

            return call

        calls = {
            "today": lambda: f(x),
            "torch": lambda: torch.nn.functional.silu(x),
            "1024 w4": variant(1024, 4),
            "2048 w4": variant(2048, 4),
        }
        return calls, lambda: torch.nn.functional.silu(x.float()), 0.01

    return setup


def scaled(M, N, dtype):
    def setup():
        x = rnd(M, N, dtype=dtype)
        f = today("02_indexing", "scale", "scale")

        def variant(block, w):
            def call():
                y = torch.empty_like(x)
                R.scale_branch[(triton.cdiv(M * N, block),)](
                    x, y, M * N, 0.5, BLOCK=block, num_warps=w
                )
                return y

            return call

        calls = {
            "today": lambda: f(x, 0.5),
            "torch": lambda: x * 0.5,
            "1024 w4": variant(1024, 4),
            "2048 w4": variant(2048, 4),
            "4096 w4": variant(4096, 4),
        }
        return calls, lambda: x * 0.5, 1e-3

    return setup


def fp8(M, N, K):
    def setup():
        x, w = (torch.randn(*s, device="cuda").to(torch.float8_e4m3fn) for s in ((M, K), (N, K)))
        xs, ws = (
            torch.rand(M, K // 128, device="cuda"),
            torch.rand(N // 128, K // 128, device="cuda"),
        )
        f = today("11_quantization", "fp8_matmul", "fp8_matmul")

        def variant(BM, BN, WS, w_, s):
            def call():
                out = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
                R.fp8[(triton.cdiv(M, BM) * triton.cdiv(N, BN),)](
                    TD.from_tensor(x, [BM, 128]),
                    TD.from_tensor(w, [BN, 128]),
                    xs,
                    ws,
                    out,
                    M,
                    N,
                    K,
                    xs.stride(0),
                    ws.stride(0),
                    BLOCK_M=BM,
                    BLOCK_N=BN,
                    GROUP_M=16,
                    WS=WS,
                    num_warps=w_,
                    num_stages=s,
                )
                return out

            return call

        calls = {"today": lambda: f(x, w, xs, ws)}
        try:
            wt = w.T
            from torch.nn.functional import scaled_mm  # noqa: F401
        except ImportError:
            pass
        one_x, one_w = torch.rand(M, 1, device="cuda"), torch.rand(1, N, device="cuda")
        calls["_scaled_mm rows (other work)"] = lambda: torch._scaled_mm(
            x, w.T, one_x, one_w, out_dtype=torch.bfloat16
        )
        for name, o in {
            "64x128 w4 s3": (64, 128, False, 4, 3),
            "64x128 w4 s4": (64, 128, False, 4, 4),
            "128x128 w8 s4": (128, 128, False, 8, 4),
        }.items():
            calls[name] = variant(*o)
        return calls, lambda: f(x, w, xs, ws), 0.02

    return setup


def scheduled(M, N, K):
    def setup():
        a, b = rnd(M, K), rnd(K, N)
        calls = {"cublas": lambda: a @ b}
        for file, function in (("split_k", "split_k_matmul"), ("stream_k", "stream_k_matmul")):
            new, old = today("09_scheduling", file, function), before(file, function)
            calls |= {f"{file} new": lambda f=new: f(a, b), f"{file} today": lambda f=old: f(a, b)}
        return calls, lambda: a @ b, 0.02

    return setup


def gram(M, K):
    def setup():
        a = rnd(M, K)
        new, old = (
            today("09_scheduling", "triangular", "gram_matrix"),
            before("triangular", "gram_matrix"),
        )
        return (
            {"new": lambda: new(a), "today": lambda: old(a), "cublas": lambda: a @ a.T},
            lambda: a @ a.T,
            0.02,
        )

    return setup


def batched_odd():
    a, b = rnd(17, 2001, 2003), rnd(17, 2003, 1999)
    new, old = today("07_matmul", "batched", "batched_matmul"), before("batched", "batched_matmul")
    return (
        {"new": lambda: new(a, b), "today": lambda: old(a, b), "cublas": lambda: a @ b},
        lambda: a @ b,
        0.02,
    )


def pair(chapter, file, make, library=None, pick=lambda r: r):
    def setup():
        torch.manual_seed(0)
        inputs = make()
        new, old = today(chapter, file, file), before(file, file)
        calls = {"new": lambda: pick(new(*inputs)), "today": lambda: pick(old(*inputs))}
        if library:
            calls["library"] = lambda: pick(library(*inputs))
        return calls, lambda: pick(old(*inputs)), 0.02
    return setup


def norm_layer(M, N, K):
    return rnd(M, K), rnd(K), rnd(K), rnd(N, K), rnd(N)


def norm_then_linear(x, g, h, w, b):
    F = torch.nn.functional
    return F.linear(F.layer_norm(x, (x.shape[1],), g, h), w, b)


def head(M, V, D):
    return rnd(M, D), rnd(V, D) / D**0.5, torch.randint(0, V, (M,), device="cuda")


def eager_head(x, w, t):
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x @ w.T, t)
    loss.backward()
    return loss, x.grad, w.grad


def eight(M, N, K, kind):
    x, w = (torch.randn(n, K, device="cuda") for n in (M, N))
    if kind == "int8":
        x, w = (t.mul(30).clamp(-127, 127).to(torch.int8) for t in (x, w))
        return x, w, torch.rand(M, device="cuda"), torch.rand(N, device="cuda")
    blocks = -(-K // 128)
    x, w = (t.to(torch.float8_e4m3fn) for t in (x, w))
    return x, w, torch.rand(M, blocks, device="cuda"), torch.rand(-(-N // 128), blocks, device="cuda")


def stream_parts():
    a, b = rnd(1400, 8007), rnd(8007, 3001)
    ra, rb = realigned(a, R.realign_all, 4, 1024, 8), realigned(b, R.realign_all, 4, 1024, 8)
    new = today("09_scheduling", "stream_k", "stream_k_matmul")
    wide = rnd(8007, 3008)
    wide[:, :3001] = b
    calls = {"new": lambda: new(a, b), "cublas": lambda: a @ b, "on aligned": product(ra, rb), "on aligned s4": product(ra, rb, s=4),
             "realign a": lambda: realigned(a, R.realign_all, 4, 1024, 8) if not CHECKING else a @ b,
             "realign b": lambda: realigned(b, R.realign_all, 4, 1024, 8) if not CHECKING else a @ b,
             "realign b 1x4096": lambda: realigned(b, R.realign_all, 1, 4096, 8) if not CHECKING else a @ b,
             "aligned c": lambda: product(ra, wide)() if not CHECKING else a @ b}
    return calls, lambda: a @ b, 0.02


f32, bf16 = torch.float32, torch.bfloat16
ALL = tuple(MM_VARIANTS)
PERSISTENT = ("P 128x128 w8 s2", "P 128x64 w8 s3", "P 256x64 w16 s3", "P 256x64 w8 s3")
PLAIN = ("128x64 w4 s2", "128x128 w8 s2", "128x64 w8 s3", "ahead 128x128 w8", "ahead 128x64 w8")
RACES = {
    "linear 4096": linear(4096, ("np s3", "np s4", "np s4 g16", "P s3 st1", "P s4 st2", "P s3 flat", "256x128 s4")),
    "odd linear 4003": odd(True),
    "attention 4x32x4096x128": attention(4, 32, 4096, 128, False, (*PLAIN, "P 128x128 w8 s2", "P 128x64 w8 s3", "P 256x64 w16 s2")),
    "attention 4x32x4096x64": attention(4, 32, 4096, 64, False, (*PLAIN, "64x128 w4 s2", "64x128 w4 s3", "128x128 w8 s3", *PERSISTENT, "P ahead 128x128 w8")),
    "batched 256x512": batched(256, 512, ("np s3", "np s4", "128x128 w4 s4", "128x128 w8 s4", "128x128 w4 s3")),
    "batched 8x4096": batched(8, 4096, ("np s3", "np s4")),
    "batched 32x2048": batched(32, 2048, ("np s3", "np s4", "128x128 w8 s4")),
    "stream 1400x3001x8007 parts": stream_parts,
    "tiled 4096": tiled(4096, ("np s3", "np s4", "P s3 st1", "P s4 st2")),
    "linear 8192": linear(8192, ("np s3", "np s4", "np s4 g16", "P s3 st1", "P s4 st2")),
    "linear 2048": linear(2048, ("np s3", "np s4", "P s3 st1", "128x128 w4 s4", "128x128 w8 s4")),
    "cross entropy 8192x32768x2048": pair("12_transformer", "fused_linear_cross_entropy", lambda: head(8192, 32768, 2048), eager_head, lambda r: r[1]),
    "cross entropy 4003x50257x1600": pair("12_transformer", "fused_linear_cross_entropy", lambda: head(4003, 50257, 1600), eager_head, lambda r: r[1]),
    "norm and linear 4003": pair("12_transformer", "layer_norm_linear", lambda: norm_layer(4003, 4001, 4007), norm_then_linear),
    "int8 4003": pair("11_quantization", "int8_matmul", lambda: eight(4003, 4001, 4007, "int8")),
    "fp8 4003": pair("11_quantization", "fp8_matmul", lambda: eight(4003, 4001, 4007, "fp8")),
    "gram 5003x4001": gram(5003, 4001),
    "gram 8192x8192": gram(8192, 8192),
    "attention causal 4x32x4096x128": attention(4, 32, 4096, 128, True, ("128x64 w4 s2", "128x128 w8 s2", "128x64 w8 s3", "P 128x128 w8 s2", "P 128x64 w8 s3")),
    "attention causal 4x32x4096x64": attention(4, 32, 4096, 64, True, ("128x64 w4 s2", "64x64 w4 s3", "128x128 w8 s2", "P 128x128 w8 s2", "P 128x64 w8 s3", "P 256x64 w16 s3")),
    "rows 1024x524288 bf16": row_sum(1024, 524288, bf16),
    "rms_norm 16384x4096 f32": rms(16384, 4096, f32),
    "rms_norm 4096x32768 bf16": rms(4096, 32768, bf16),
    "layer_norm 20011x6007 bf16": layer_norm(20011, 6007, bf16),
    "layer_norm 20011x6007 f32": layer_norm(20011, 6007, f32),
    "layer_norm 4096x32768 bf16": layer_norm(4096, 32768, bf16),
    "quantize_rows 4096x32768": sweep_rows("11_quantization", "quantize_rows", "quantize_rows", "quantize_rows_kernel", 4096, 32768, bf16, launch_quantize),
    "variance 16384x32768": sweep_rows("03_reductions", "variance", "variance", "variance_kernel", 16384, 32768, bf16, launch_variance),
    "rows 16384x4096 f32": row_sum(16384, 4096, f32),
    "rows 16384x4096 bf16": row_sum(16384, 4096, bf16),
    "fp8 4096x7168x4096": fp8(4096, 7168, 4096),
    "persistent_softmax 20011x6007 bf16": softmax(20011, 6007, bf16),
    "swish 200000003 bf16": branch(200_000_003, bf16),
    "scale 20011x19997 f32": scaled(20011, 19997, f32),
    "WS attention 4x32x4096x128": attention(4, 32, 4096, 128, False, WSA),
}


def error(result, right):
    right = right.double()
    if not torch.isfinite(right).all():
        return "reference not finite"
    return float((result.double() - right).norm() / right.norm())


def warm(index, count):
    global CHECKING
    CHECKING = True
    found = {}
    for number, (race, setup) in enumerate(RACES.items()):
        if number % count != index:
            continue
        print(f"{time.monotonic() - BEGAN:.0f} s: {race}", flush=True)
        torch.manual_seed(0)
        try:
            calls, reference, most = setup()
            right = reference()
        except Exception as problem:
            found[race] = {"setup": f"{type(problem).__name__}: {problem}"[:300]}
            continue
        found[race] = {name: "not reached" for name in calls}
        for name, call in calls.items():
            (OUT / f"warm{index}.part").write_text(json.dumps(found))
            print(f"{time.monotonic() - BEGAN:.0f} s:    {name}", flush=True)
            try:
                result = call()
                torch.cuda.synchronize()
                e = error(result, right)
                found[race][name] = (
                    ""
                    if "other work" in name or isinstance(e, float) and e <= most
                    else f"error {e}"
                )
            except Exception as problem:
                found[race][name] = f"{type(problem).__name__}: {problem}"[:200]
        del calls, right
        torch.cuda.empty_cache()
        (OUT / f"warm{index}.part").write_text(json.dumps(found))
    (OUT / f"warm{index}.part").write_text(json.dumps(found))


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "--warm", str(i), str(WORKERS)],
            stdout=open(OUT / f"warm{i}.part.log", "w"),
            stderr=subprocess.STDOUT,
        )
        for i in range(WORKERS)
    ]
    limit = BEGAN + BUDGET * 0.4
    for worker in workers:
        try:
            worker.wait(max(1, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
    notes = {}
    for i in range(WORKERS):
        part = OUT / f"warm{i}.part"
        if part.exists():
            notes |= json.loads(part.read_text())
            part.unlink()
        log = OUT / f"warm{i}.part.log"
        text = log.read_text()
        if "Error" in text or "error" in text or workers[i].returncode != 0:
            print(f"warm {i}:", text[-600:])
        log.unlink()
    print(f"warm: {time.monotonic() - BEGAN:.0f} s", flush=True)
    from kernelgauge.speed.timer import CudaTimer

    timer = CudaTimer()
    device = torch.cuda.get_device_name()
    table = {
        "device": device,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "races": {},
    }
    for race, setup in RACES.items():
        if time.monotonic() - BEGAN > BUDGET:
            print("time is up before", race)
            break
        known = notes.get(race)
        if not known or "setup" in known:
            print(race, "not checked:", known)
            if known is None:
                continue
            continue
        torch.manual_seed(0)
        torch.compiler.reset()
        began = time.monotonic()
        try:
            calls, _, _ = setup()
        except Exception as problem:
            print(race, problem)
            continue
        good = {n: c for n, c in calls.items() if not known.get(n)}
        times = {n: [] for n in good}
        for n in list(good):
            try:
                good[n]()
            except Exception as problem:
                known[n] = str(problem)[:200]
                del good[n], times[n]
        torch.cuda.synchronize()
        turn = 0
        while turn < 8 or (turn < 24 and time.monotonic() - began < 3.0):
            for n in list(good) if turn % 2 else list(good)[::-1]:
                times[n].append(timer.time(good[n])[0])
            turn += 1
        median = {n: statistics.median(t[2:]) for n, t in times.items()}
        table["races"][race] = {
            "ms": median,
            "least": {n: min(t) for n, t in times.items()},
            "notes": {n: v for n, v in known.items() if v},
        }
        (OUT / "table.json").write_text(json.dumps(table, indent=1))
        print(f"== {race}   [{turn} rounds, {time.monotonic() - began:.1f} s]")
        for n, ms in sorted(median.items(), key=lambda item: item[1]):
            print(f"   {ms:9.4f}  {n}")
        for n, v in known.items():
            if v:
                print(f"   rejected  {n}: {v[:160]}")
        sys.stdout.flush()
        del calls, good
        torch.cuda.empty_cache()
    print(
        f"{device}, torch {torch.__version__}, triton {triton.__version__}: {time.monotonic() - BEGAN:.0f} s"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--warm"]:
        warm(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
