"""The products of experts with PyTorch: one grouped launch, and a product for each expert."""
import torch

import gemmaudit

# As gemmaudit's own kernels: partial sums of a split K stay in fp32.
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def aligned(problem):
    """What torch._grouped_mm refuses, it says only in a call."""
    return None if problem.n % 8 == 0 and problem.k % 8 == 0 else "torch._grouped_mm needs n and k that are multiples of 8"


@gemmaudit.kernel("grouped", dtypes=["bf16"], layout="nk", supports=aligned)
def grouped_mm(a, b, offsets):
    return torch._grouped_mm(a, b.transpose(-2, -1), offs=offsets)


@gemmaudit.kernel("grouped", dtypes=["bf16", "fp16", "fp32"], layout="nk", out=True)
def mm_loop(a, b, sizes, out):
    row = 0
    for weights, rows in zip(b, sizes):
        if rows:
            torch.mm(a[row:row + rows], weights.t(), out=out[row:row + rows])
        row += rows
