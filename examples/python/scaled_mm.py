"""PyTorch's product of fp8 operands, with one scale for each operand."""
import torch

import gemmaudit

one = None


def supports(problem):
    if problem.n % 16 or problem.k % 16:
        return "N and K are multiples of 16"


@gemmaudit.kernel("gemm", dtypes=["fp8"], layout="nk", supports=supports)
def scaled_mm(a, b):
    global one
    if one is None:
        one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
