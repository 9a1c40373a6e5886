#!/usr/bin/env python3
"""Makes the fixtures of models with fp8 weights in kernels/mistral with Hugging Face's transformers.

Writes a folder for each of two small Qwen3 models into kernels/mistral/testdata, or the given folder: config.json, weights as
safetensors, and reference.json with the prompt and base64 of the logits [tokens, vocab] that transformers computes in float64 from
dequantized weights, little-endian.

qwen3-fp8          scales of blocks of 128 x 128 (weight_scale_inv), as Qwen3-8B-FP8 has them; some modules are not converted
qwen3-fp8-channel  a scale for each output (weight_scale), as compressed-tensors stores them

The script stops if a missing norm of heads, or the scales of neighbors, change the logits by less than five times the bound of tests.

Needs torch (CPU), transformers and safetensors (used: 2.11.0, 5.23.0, 0.8.0).
"""
import base64
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

LEAST_FAULT = 0.1  # relative to the range of the logits
BLOCKS = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128],
          "modules_to_not_convert": ["lm_head", "model.layers.1.mlp.down_proj"]}
CHANNELS = {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
            "ignore": ["lm_head"], "global_compression_ratio": None, "kv_cache_scheme": None,
            "config_groups": {"group_0": {
                "targets": ["Linear"], "output_activations": None,
                "weights": {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "dynamic": False, "group_size": None,
                            "block_structure": None, "actorder": None, "observer": "minmax", "observer_kwargs": {}},
                "input_activations": {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True,
                                      "group_size": None, "block_structure": None, "actorder": None, "observer": None,
                                      "observer_kwargs": {}}}}}


def config(**fields):
    return {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
        "head_dim": 64, "hidden_act": "silu", "hidden_size": 144, "initializer_range": 0.02, "intermediate_size": 272,
        "max_position_embeddings": 1024, "max_window_layers": 2, "model_type": "qwen3", "num_attention_heads": 3,
        "num_hidden_layers": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "rope_scaling": None, "rope_theta": 1000000,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 96, **fields,
    }


MODELS = {
    "qwen3-fp8": config(quantization_config=BLOCKS),
    "qwen3-fp8-channel": config(quantization_config=CHANNELS, num_hidden_layers=1),
}


def quantize(w, rows, columns):
    """fp8 elements, scales, and the values that they stand for."""
    n, k = w.shape
    padded = torch.nn.functional.pad(w, (0, -k % columns, 0, -n % rows))
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    scale = (blocks.abs().amax(dim=(1, 3)) / 448).float()
    codes = (blocks / scale.double()[:, None, :, None]).to(torch.float8_e4m3fn)
    values = (codes.double() * scale.double()[:, None, :, None]).reshape(padded.shape)[:n, :k]
    return codes.reshape(padded.shape)[:n, :k].contiguous(), scale, values


def logits(c, weights, prompt):
    plain = {k: v for k, v in c.items() if k != "quantization_config"}
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**plain, attn_implementation="eager")).double()
    model.load_state_dict(weights)
    with torch.no_grad():
        return model(torch.tensor([prompt])).logits[0]


def main():
    to = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "kernels/mistral/testdata"
    for seed, (name, c) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        q = c["quantization_config"]
        empty = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**{k: v for k, v in c.items() if k != "quantization_config"}))
        stored, values, faulty = {}, {}, {}
        for tensor, like in empty.state_dict().items():
            module = tensor.removesuffix(".weight")
            if like.ndim == 1:
                w = torch.rand(like.shape).double() + 0.5
            else:
                w = torch.randn(like.shape).double() * (1.5 / like.shape[1] ** 0.5 if "embed" not in tensor else 1)
                for part in w.split(128):  # scales that differ
                    for block in part.split(128, 1):
                        block *= 2 ** torch.randint(-2, 2, ()).double()
            if like.ndim == 1 or "proj" not in tensor or module in q.get("modules_to_not_convert", []):
                stored[tensor] = w.bfloat16()
                values[tensor] = faulty[tensor] = stored[tensor].double()
                continue
            block = q.get("weight_block_size")
            codes, scale, values[tensor] = quantize(w, *(block or (1, w.shape[1])))
            stored[tensor] = codes
            stored[module + (".weight_scale_inv" if block else ".weight_scale")] = scale if block else scale.bfloat16()
            if not block:
                values[tensor] = codes.double() * scale.bfloat16().double()
            size = block[0] if block else 1
            wide = scale.double().roll(1, 0).repeat_interleave(size, 0)[:w.shape[0]]
            faulty[tensor] = codes.double() * wide.repeat_interleave(block[1] if block else w.shape[1], 1)[:, :w.shape[1]]
        prompt = [1] + torch.randint(3, c["vocab_size"], (11,)).tolist()
        right = logits(c, values, prompt)
        span = (right.max() - right.min()).item()
        ones = dict(values, **{k: torch.ones_like(v) for k, v in values.items() if k.endswith(("q_norm.weight", "k_norm.weight"))})
        for fault, wrong in {"scales of neighbors": faulty, "norms of heads without weights": ones}.items():
            off = ((logits(c, wrong, prompt) - right).abs().max() / span).item()
            print("%s: %s change the logits by %.2f of their range" % (name, fault, off))
            if off < LEAST_FAULT:
                sys.exit("too little to show")
        folder = to / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(c, indent=2) + "\n")
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "model.safetensors").chmod(0o644)
        reference = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "prompt": prompt,
                     "logits": base64.b64encode(right.numpy().astype("<f8").tobytes()).decode()}
        (folder / "reference.json").write_text(json.dumps(reference) + "\n")


if __name__ == "__main__":
    main()
