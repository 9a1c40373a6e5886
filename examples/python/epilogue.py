"""PyTorch's linear layer with an activation, gates or a residual: separate operators, and torch.compile's fusion of them."""
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


def layer(a, b, bias, activation, gated, residual):
    c = functional.linear(a, b, bias)
    if gated:
        gate, up = c.chunk(2, dim=-1)
        return ACTIVATIONS[activation](gate) * up
    return ACTIVATIONS[activation](c) if residual is None else c + residual


gemmaudit.kernel("fused", name="linear-separate", dtypes=["bf16", "fp16", "fp32"], layout="nk")(layer)


@functools.cache
def compiled_for(activation, gated):
    return torch.compile(lambda a, b, bias, residual: layer(a, b, bias, activation, gated, residual), dynamic=False)


@gemmaudit.kernel("fused", name="linear", dtypes=["bf16", "fp16"], layout="nk")
def compiled(a, b, bias, activation, gated, residual):
    return compiled_for(activation, gated)(a, b, bias, residual)
