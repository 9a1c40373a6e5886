"""PyTorch's product of fp8 operands, with one scale for each operand."""
import torch

import gemmaudit

one = None


@gemmaudit.kernel("gemm", dtypes=["fp8"], layout="nk")
def scaled_mm(a, b):
    global one
    if one is None:
        one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
