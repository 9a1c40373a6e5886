"""PyTorch's products of fp8 operands: with one scale for each operand, with scales of rows and columns, and of blocks."""
import torch

import gemmaudit

one = None


def supports(problem):
    if problem.n % 16 or problem.k % 16:
        return "N and K are multiples of 16"


def supports_blocks(problem):
    if problem.m % 4 or problem.raw_scales["ld"] != problem.m:
        return "cuBLASLt takes scales of A for an M that is a multiple of 4: pad it"
    if problem.k % 512:
        return "cuBLASLt takes 4 groups of K at a time: K is a multiple of 512"
    return supports(problem)


@gemmaudit.kernel("gemm", dtypes=["fp8"], layout="nk", supports=supports)
def scaled_mm(a, b):
    global one
    if one is None:
        one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


@gemmaudit.kernel("gemm", dtypes=["fp8"], weights="fp8:column", supports=supports)
def scaled_mm_rows(a, b, scale_a):
    """Scales of rows and columns, without fast accumulation."""
    return torch._scaled_mm(a, b.codes.t(), scale_a=scale_a.contiguous(), scale_b=b.scales.t(), out_dtype=torch.bfloat16,
                            use_fast_accum=False)


@gemmaudit.kernel("gemm", dtypes=["fp8"], weights="fp8:128x128", supports=supports_blocks)
def scaled_mm_blocks(a, b, scale_a):
    """Scales of 1 x 128 and 128 x 128; needs cuBLASLt 12.9."""
    return torch._scaled_mm(a, b.codes.t(), scale_a=scale_a, scale_b=b.scales.t(), out_dtype=torch.bfloat16)
