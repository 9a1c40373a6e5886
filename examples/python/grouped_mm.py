"""The products of experts with PyTorch: one grouped launch, in bf16 or fp8, and a product for each expert."""
import torch

import gemmaudit

# As gemmaudit's own kernels: partial sums of a split K stay in fp32.
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


def aligned(problem):
    """What PyTorch refuses, it says only in a call."""
    least = 16 if problem.dtype == "fp8" else 8
    return None if problem.n % least == 0 and problem.k % least == 0 else f"PyTorch needs n and k that are multiples of {least}"


def scaled(problem):
    return aligned(problem) if torch.cuda.is_available() else "torch._scaled_grouped_mm runs on GPUs only"


def ones(*shape, device, made={}):
    """The scales of fp8 operands; making them is no part of the product."""
    if (shape, device) not in made:
        made[shape, device] = torch.ones(shape, device=device)
    return made[shape, device]


@gemmaudit.kernel("grouped", dtypes=["bf16"], layout="nk", supports=aligned)
def grouped_mm(a, b, offsets):
    return torch._grouped_mm(a, b.transpose(-2, -1), offs=offsets)


@gemmaudit.kernel("grouped", dtypes=["fp8"], layout="nk", supports=scaled)
def scaled_grouped_mm(a, b, offsets):
    scale_a, scale_b = ones(len(a), device=a.device), ones(len(b), b.shape[1], device=a.device)
    return torch._scaled_grouped_mm(a, b.transpose(-2, -1), scale_a, scale_b, offs=offsets, out_dtype=torch.bfloat16)


@gemmaudit.kernel("grouped", dtypes=["bf16", "fp16", "fp32"], layout="nk", out=True)
def mm_loop(a, b, sizes, out):
    row = 0
    for weights, rows in zip(b, sizes):
        if rows:
            torch.mm(a[row:row + rows], weights.t(), out=out[row:row + rows])
        row += rows
