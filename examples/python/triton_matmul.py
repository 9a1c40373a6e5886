"""A matrix product in Triton with autotuning."""
import torch
import triton
import triton.language as tl

import gemmaudit

CONFIGS = [triton.Config({"BM": bm, "BN": bn, "BK": bk}, num_stages=stages, num_warps=warps)
           for bm, bn, bk, stages, warps in [(16, 64, 128, 4, 4), (16, 128, 128, 4, 4), (64, 64, 64, 4, 4), (64, 128, 64, 4, 4),
                                             (128, 64, 64, 4, 4), (128, 128, 64, 4, 8), (128, 256, 64, 3, 8)]]


def short_bench(call, quantiles):
    return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"], do_bench=short_bench)
@triton.jit
def product(a, b, c, m, n, k, lda, ldb, ldc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    columns = tl.cdiv(n, BN)
    rm = tile // columns * BM + tl.arange(0, BM)
    rn = tile % columns * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    at_a = a + rm[:, None] * lda + rk[None, :]
    at_b = b + rn[None, :] * ldb + rk[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = rk < k - start
        x = tl.load(at_a, mask=(rm[:, None] < m) & left[None, :], other=0.0)
        y = tl.load(at_b, mask=(rn[None, :] < n) & left[:, None], other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK
        at_b += BK
    tl.store(c + rm[:, None] * ldc + rn[None, :], total.to(c.dtype.element_ty), mask=(rm[:, None] < m) & (rn[None, :] < n))


def chosen(problem):
    """What the autotuner keeps for a problem."""
    for key, config in product.cache.items():
        if key[:3] == (problem.m, problem.n, problem.k):
            tile = "x".join(str(config.kwargs[side]) for side in ("BM", "BN", "BK"))
            return f"{tile} {config.num_warps} warps {config.num_stages} stages"
    return None


@gemmaudit.kernel("gemm", dtypes=["bf16", "fp16"], layout="nk", out=True, label=chosen)
def triton_matmul(a, b, out):
    m, k = a.shape
    n = b.shape[0]
    grid = lambda config: (triton.cdiv(m, config["BM"]) * triton.cdiv(n, config["BN"]),)
    product[grid](a, b, out, m, n, k, a.stride(0), b.stride(0), out.stride(0))
