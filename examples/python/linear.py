"""PyTorch's linear layer, and torch.compile's versions of it."""
import torch

import gemmaudit

# As gemmaudit's own kernels: partial sums of a split K stay in fp32.
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False


@gemmaudit.kernel("gemm", dtypes=["bf16", "fp16", "fp32"], layout="nk")
def linear(a, b):
    return torch.nn.functional.linear(a, b)


gemmaudit.kernel("gemm", name="compiled", dtypes=["bf16", "fp16"])(torch.compile(linear.fn, dynamic=False))
gemmaudit.kernel("gemm", name="max-autotune", dtypes=["bf16", "fp16"])(
    torch.compile(linear.fn, dynamic=False, mode="max-autotune-no-cudagraphs"))
