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

    def supports(problem):
        """What a backend refuses, PyTorch says only in a call."""
        dtype = torch.bfloat16 if problem.dtype == "bf16" else torch.float16
        tokens = problem.m if causal else 1
        q = torch.empty(tokens, problem.query_heads, problem.head_dim, dtype=dtype, device="cuda")
        k = torch.empty(problem.kv_heads, problem.m, problem.head_dim, dtype=dtype, device="cuda")
        try:
            call(q, k, k)
        except RuntimeError as e:
            return f"{backend.name}: {str(e).splitlines()[0]}"
        return None

    return call, supports


for name, backend in [("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)]:
    for operation, causal in [("attention-prefill", True), ("attention-decode", False)]:
        call, supports = attention(backend, causal)
        gemmaudit.kernel(operation, name=f"sdpa-{name}", dtypes=["bf16", "fp16"], supports=supports)(call)
