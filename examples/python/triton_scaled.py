"""A product of fp8 with scales of blocks in Triton. The sums of each 128 of K are promoted to fp32 registers."""
import torch
import triton
import triton.language as tl

import gemmaudit


@triton.jit
def product(a, b, c, sa, sb, m, n, k, lda, ldc, ldsa, groups, BM: tl.constexpr, BN: tl.constexpr):
    tile = tl.program_id(0)
    columns = tl.cdiv(n, BN)
    rm = tile // columns * BM + tl.arange(0, BM)
    rn = tile % columns * BN + tl.arange(0, BN)
    rk = tl.arange(0, 128)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for group in range(0, groups):
        left = rk < k - group * 128
        x = tl.load(a + rm[:, None] * lda + (group * 128 + rk)[None, :], mask=(rm[:, None] < m) & left[None, :], other=0.0)
        y = tl.load(b + rn[None, :] * k + (group * 128 + rk)[:, None], mask=(rn[None, :] < n) & left[:, None], other=0.0)
        rows = tl.load(sa + group * ldsa + rm, mask=rm < m, other=0.0)
        scale = tl.load(sb + rn // 128 * groups + group, mask=rn < n, other=0.0)
        total += tl.dot(x, y) * (rows[:, None] * scale[None, :])
    tl.store(c + rm[:, None] * ldc + rn[None, :], total.to(tl.bfloat16), mask=(rm[:, None] < m) & (rn[None, :] < n))


@gemmaudit.kernel("gemm", dtypes=["fp8"], weights="fp8:128x128", out=True)
def triton_scaled(a, b, scale_a, out):
    m, k = a.shape
    n = b.codes.shape[0]
    tall = 16 if m <= 16 else 64
    grid = (triton.cdiv(m, tall) * triton.cdiv(n, 128),)
    product[grid](a, b.codes, out, scale_a, b.scales, m, n, k, a.stride(0), out.stride(0), scale_a.stride(1), b.scales.shape[1],
                  BM=tall, BN=128, num_warps=4, num_stages=4)
