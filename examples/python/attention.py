"""PyTorch's scaled_dot_product_attention with each of its backends: prompts, and one token after a sequence."""
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import gemmaudit


def attention(backend, causal):
    def call(q, k, v):
        # q [tokens, heads, dim] to [1, heads, tokens, dim]; keys and values have their heads first.
        with sdpa_kernel(backend):
            out = torch.nn.functional.scaled_dot_product_attention(
                q.transpose(0, 1)[None], k[None], v[None], is_causal=causal, enable_gqa=True)
        return out[0].transpose(0, 1).contiguous()
    return call


for name, backend in [("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION),
                      ("efficient", SDPBackend.EFFICIENT_ATTENTION)]:
    gemmaudit.kernel("attention-prefill", name=f"sdpa-{name}", dtypes=["bf16", "fp16"])(attention(backend, True))
    gemmaudit.kernel("attention-decode", name=f"sdpa-{name}", dtypes=["bf16", "fp16"])(attention(backend, False))
