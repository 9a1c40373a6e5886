"""PyTorch's softmax."""
import torch

import gemmaudit


@gemmaudit.kernel("softmax", dtypes=["fp32", "fp16", "bf16"])
def torch_softmax(x):
    return torch.softmax(x, dim=-1)
