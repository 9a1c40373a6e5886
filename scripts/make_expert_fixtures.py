#!/usr/bin/env python3
"""Makes the fixtures of models with experts in kernels/mistral with Hugging Face's transformers.

Writes a folder for each of eight small Mixtral models into kernels/mistral/testdata, or the given folder: config.json, weights
as safetensors, and reference.json:

  prompt      token ids
  logits      base64 of the logits [tokens, vocab] that transformers computes in float64, little-endian
  gap         the smallest distance of a chosen expert's router logit to the next one, relative to the spread of the logits

Weights have four values per matrix, or are integers of 4 bits, so they compress well. numpy computes each model in float64 as
well, once correctly and once with each of several mistakes (another expert, weights that do not add up to 1, gate and up
swapped). The script stops if numpy and transformers differ. It picks a seed with which every mistake is visible, and no
expert is chosen so narrowly that rounding to bf16 could change the choice.

Needs torch (CPU), transformers, numpy and safetensors (used: 2.11.0, 5.23.0, 2.2.6, 0.8.0).
"""
import base64
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

import make_model_fixtures as dense
from make_quantized_fixtures import gptq, safetensors

LEAST_GAP = 0.05   # of routers
LEAST_FAULT = 0.1  # what a mistake does to the logits, relative to their range: five times the bound of tests in 16 bits
GROUP = 32         # of integers
QUANTIZED = {"bits": 4, "group_size": GROUP, "desc_act": False, "sym": True, "quant_method": "gptq"}


def config(experts, top, **fields):
    """The common part of config.json, as transformers 4 writes it."""
    return {
        "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
        "head_dim": 64, "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48, "max_position_embeddings": 1024,
        "model_type": "mixtral", "num_attention_heads": 4, "num_experts_per_tok": top, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_local_experts": experts, "output_router_logits": False, "rms_norm_eps": 1e-5,
        "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 96, **fields,
    }


def newer(c):
    """config.json as transformers 5 writes it."""
    c = dict(c, dtype=c["torch_dtype"], rope_parameters={"rope_theta": c["rope_theta"], "rope_type": "default"}, pad_token_id=None,
             transformers_version=transformers.__version__)
    del c["torch_dtype"], c["rope_theta"]
    return c


# By experts and experts per token.
MODELS = {
    "mixtral-8x2": dict(config=config(8, 2), stored="bf16", shards=2, prompt=16),
    "mixtral-8x2-window": dict(config=config(8, 2, sliding_window=7, num_attention_heads=2, num_key_value_heads=1, torch_dtype="float16"),
                               stored="fp16", shards=1, prompt=24),
    "mixtral-8x2-int4": dict(config=config(8, 2, hidden_size=64, intermediate_size=64, torch_dtype="float16",
                                           quantization_config=QUANTIZED), stored="fp16", shards=1, prompt=16),
    "mixtral-4x1": dict(config=config(4, 1, num_attention_heads=2, tie_word_embeddings=True, torch_dtype="float32"),
                        stored="fp32", shards=1, prompt=16),
    "mixtral-4x4": dict(config=config(4, 4, num_attention_heads=3, num_key_value_heads=1), stored="bf16", shards=1, prompt=16),
    "mixtral-6x3": dict(config=newer(config(6, 3, intermediate_size=40, hidden_size=48, torch_dtype="float16")),
                        stored="fp16", shards=1, prompt=16),
    "mixtral-16x2": dict(config=config(16, 2, num_hidden_layers=1, head_dim=128, num_key_value_heads=1), stored="bf16", shards=1,
                         prompt=20),
    "mixtral-16x4": dict(config=newer(config(16, 4, intermediate_size=32)), stored="bf16", shards=1, prompt=14),
}


def weights(c, rng):
    """Tensors by name: those of a dense model, with experts instead of its gated units."""
    out = dense.weights(c, rng)
    h, inner = c["hidden_size"], c["intermediate_size"]

    def matrix(rows, columns, gain):
        return rng.choice(dense.LEVELS, (rows, columns)) * gain / np.sqrt(columns)

    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        for name in ("gate", "up", "down"):
            del out[p + f"mlp.{name}_proj.weight"]
        p += "block_sparse_moe."
        out[p + "gate.weight"] = matrix(c["num_local_experts"], h, 1.5)
        for e in range(c["num_local_experts"]):
            out |= {p + f"experts.{e}.w1.weight": matrix(inner, h, 1.5), p + f"experts.{e}.w3.weight": matrix(inner, h, 1.5),
                    p + f"experts.{e}.w2.weight": matrix(h, inner, 2)}
    return out


def quantize(tensors, rng):
    """Draws integers for the linear layers of a quantized checkpoint: its tensors, and the dequantized weights by name."""
    packed, values = {}, {}
    for name, w in tensors.items():
        if w.ndim < 2 or "embed" in name or "lm_head" in name or name.endswith("moe.gate.weight"):
            packed[name] = values[name] = w.astype(np.float16)
            continue
        out, columns = w.shape
        codes = rng.integers(0, 16, w.shape)
        scale = (rng.uniform(0.8, 1.2, (out, columns // GROUP)) * w.std() / np.sqrt(21.5)).astype(np.float16)
        zero = np.full(scale.shape, 8)
        packed |= gptq(name.removesuffix(".weight"), codes, zero, scale, 4, {})
        values[name] = (codes - 8).astype(np.float64) * scale.astype(np.float64).repeat(GROUP, 1)
    return packed, values


def experts(c, w, prefix, y, *, wrong=False, renormalized=True, swapped=False, gaps=None):
    """The gated units of a layer in float64, or with one thing wrong. Appends the gaps of the router's choices to gaps."""
    p, top = prefix + "block_sparse_moe.", c["num_experts_per_tok"]
    logits = y @ w[p + "gate.weight"].T
    order = np.argsort(-logits, -1, kind="stable")
    if gaps is not None and top < logits.shape[1]:
        ranked = np.take_along_axis(logits, order, -1)
        gaps.extend((ranked[:, top - 1] - ranked[:, top]) / logits.std())
    share = np.exp(logits - logits.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    out = np.zeros_like(y)
    for i, chosen in enumerate(order[:, :top]):
        total = share[i, chosen].sum() if renormalized else 1
        for e in chosen:
            at = p + f"experts.{(e + 1) % logits.shape[1] if wrong else e}."
            gate, up = y[i] @ w[at + "w1.weight"].T, y[i] @ w[at + "w3.weight"].T
            if swapped:
                gate, up = up, gate
            out[i] += share[i, e] / total * ((gate / (1 + np.exp(-gate)) * up) @ w[at + "w2.weight"].T)
    return out


def float64(c, w, ids, *, window_off=0, **how):
    return dense.float64(c, w, ids, window_off=window_off, feed_forward=lambda *a: experts(*a, **how))


def mistakes(c, w, prompt):
    """How far each mistake moves the logits after the prompt."""
    kinds = {"the expert after the chosen one": dict(wrong=True), "gate and up swapped": dict(swapped=True)}
    if c["num_experts_per_tok"] < c["num_local_experts"]:
        kinds["weights that do not add up to 1"] = dict(renormalized=False)
    if c["sliding_window"]:
        kinds["a window one too wide"] = dict(window_off=1)
    right = float64(c, w, prompt)
    return {kind: round(dense.distance(float64(c, w, prompt, **how)[-1], right[-1]), 3) for kind, how in kinds.items()}


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                             experts_implementation="eager").eval()


def write(folder, spec, packed, values):
    """Writes the model, and its dequantized twin, which transformers can read without further packages, to a folder of its own."""
    if packed is None:
        dense.write(folder, spec, values)
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(spec["config"], indent=2) + "\n")
    (folder / "model.safetensors").write_bytes(safetensors(packed))
    twin = pathlib.Path(tempfile.mkdtemp())
    plain = {k: v for k, v in spec["config"].items() if k != "quantization_config"}
    dense.write(twin, dict(config=dict(plain, torch_dtype="float32"), stored="fp32", shards=1), values)
    return twin


def make(folder, spec):
    c = spec["config"]
    for seed in range(1, 100000):
        rng = np.random.default_rng(seed)
        tensors, packed = weights(c, rng), None
        if "quantization_config" in c:
            packed, tensors = quantize(tensors, rng)
        prompt = [1] + rng.integers(dense.CONTROL, c["vocab_size"], spec["prompt"] - 1).tolist()
        stored = dense.DTYPES["fp32" if packed else spec["stored"]]
        exact = {name: torch.from_numpy(np.asarray(w, np.float64)).to(stored).double().numpy() for name, w in tensors.items()}
        gaps = []
        want = float64(c, exact, prompt, gaps=gaps)
        if min(gaps, default=1) < LEAST_GAP or min(mistakes(c, exact, prompt).values()) < LEAST_FAULT:
            continue
        readable = write(folder, spec, packed, tensors)
        rounded = dense.run(load(readable, torch.bfloat16), prompt).double().numpy()
        if dense.distance(rounded, want) < dense.BF16_BOUND:
            break
    else:
        sys.exit(f"{folder.name}: no seed gives a model with clear differences")

    got = dense.run(load(readable, torch.float64), prompt).numpy()
    off = dense.distance(got, want)
    if got.dtype != np.float64 or off > 2e-6:
        sys.exit(f"{folder.name}: transformers differs from numpy by {off:.1e} of the range")
    reference = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "prompt": prompt,
                 "gap": round(float(min(gaps, default=0)), 4), "logits": base64.b64encode(got.astype("<f8").tobytes()).decode()}
    (folder / "reference.json").write_text(json.dumps(reference) + "\n")
    print(f"{folder.name}: seed {seed}, least gap {reference['gap']}, numpy off by {off:.1e}, bf16 by {dense.distance(rounded, want):.1e}")
    print("  what a mistake does, of the range:", ", ".join(f"{k} {v}" for k, v in mistakes(c, exact, prompt).items()), flush=True)


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__ + "\nusage: make_expert_fixtures.py [FOLDER]")
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # gives sums a fixed order
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else dense.OUT
    for name, spec in MODELS.items():
        make(out / name, spec)


if __name__ == "__main__":
    main()
