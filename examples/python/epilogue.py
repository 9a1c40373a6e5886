"""PyTorch's linear layer with an activation: separate operators, and torch.compile's fusion of them."""
import functools

import torch
from torch.nn import functional

import gemmaudit

# As gemmaudit's own kernels: partial sums of a split K stay in fp32.
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

ACTIVATIONS = {
    "": lambda x: x,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu-tanh": functools.partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


@gemmaudit.kernel("fused", name="linear-separate", dtypes=["bf16", "fp16", "fp32"], layout="nk")
def separate(a, b, bias, activation):
    return ACTIVATIONS[activation](functional.linear(a, b, bias))


@functools.cache
def compiled_for(activation):
    return torch.compile(lambda a, b, bias: ACTIVATIONS[activation](functional.linear(a, b, bias)), dynamic=False)


@gemmaudit.kernel("fused", name="linear", dtypes=["bf16", "fp16"], layout="nk")
def compiled(a, b, bias, activation):
    return compiled_for(activation)(a, b, bias)
