#!/usr/bin/env python3
"""Makes the model fixtures of kernels/mistral with Hugging Face's transformers.

Writes a folder for each of four small models into kernels/mistral/testdata, or the given folder: config.json, weights as
safetensors, and reference.json:

  prompt      token ids
  positions   rows of the prompt with logits
  logits      by type (fp32, fp16, bf16): base64 of the logits [positions, vocab], little-endian, in that type
  greedy      the 64 tokens after the prompt in fp32, each the first largest logit
  gap         the smallest distance of a chosen logit to the next one
  text        token ids sampled from the model
  perplexity  of text by type: exp(-mean(log p of each token except the first))

Weights have four values per matrix, so they compress well, and gains that spread the logits. A few lines of numpy compute
each model in float64 as well, once correctly and once with each of several mistakes (window, rotation). The script stops if
numpy and transformers differ, and picks a seed with which every mistake is visible.

Needs torch (CPU), transformers, numpy and safetensors (used: 2.15.0, 5.23.0, 2.4.6, 0.8.0).
"""
import base64
import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "kernels" / "mistral" / "testdata"
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LEVELS = np.array([-1.5, -0.5, 0.5, 1.5]) / math.sqrt(1.25)  # root mean square 1
GREEDY = 64
BF16_BOUND = 0.01  # of transformers' logits in bf16 from float64, relative to their range
CONTROL = 3  # <unk>, <s>, </s>: never among the greedy tokens, so none ends a text


def config(kind, **fields):
    """The common part of config.json."""
    return {
        "architectures": [{"mistral": "MistralForCausalLM", "llama": "LlamaForCausalLM"}[kind]],
        "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64, "max_position_embeddings": 1024,
        "model_type": kind, "num_hidden_layers": 2, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, **fields,
    }


# Mistral's vocabulary is large enough for package tokenizer's fixture. Windows wrap the smallest cache (256 tokens)
# twice. Scaled frequencies differ within a text.
MODELS = {
    "mistral-window": dict(
        config=config("mistral", num_attention_heads=4, num_key_value_heads=2, head_dim=64, intermediate_size=96,
                      vocab_size=320, sliding_window=32, rope_theta=10000.0, torch_dtype="float16"),
        stored="fp16", shards=2, prompt=40, text=700),
    "mistral": dict(
        config=config("mistral", num_attention_heads=2, num_key_value_heads=1, head_dim=128, intermediate_size=96,
                      vocab_size=1552, sliding_window=None, dtype="bfloat16",
                      rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"}),
        stored="bf16", shards=2, prompt=40, text=320),
    "llama-2": dict(
        config=config("llama", num_attention_heads=2, num_key_value_heads=2, head_dim=64, intermediate_size=96,
                      vocab_size=320, rope_theta=10000.0, rope_scaling=None, pretraining_tp=1, torch_dtype="float32"),
        stored="fp32", shards=1, prompt=40, text=320),
    "llama-3.1": dict(
        config=config("llama", hidden_size=96, num_attention_heads=3, num_key_value_heads=1, head_dim=64,
                      intermediate_size=96, vocab_size=320, tie_word_embeddings=True, rope_theta=500000.0, torch_dtype="bfloat16",
                      attention_bias=False, mlp_bias=False,
                      rope_scaling={"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                    "original_max_position_embeddings": 64, "rope_type": "llama3"}),
        stored="bf16", shards=1, prompt=40, text=320),
}


def weights(c, rng):
    """Tensors by name. Queries and keys are large enough for selective attention."""
    h, inner, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d

    def matrix(rows, columns, gain):
        return rng.choice(LEVELS, (rows, columns)) * gain / math.sqrt(columns)

    def norm():
        return 1 + 0.2 * rng.standard_normal(h)

    tied = c["tie_word_embeddings"]
    out = {"model.embed_tokens.weight": matrix(c["vocab_size"], h, 3 if tied else 6)}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        out |= {
            p + "input_layernorm.weight": norm(),
            p + "self_attn.q_proj.weight": matrix(q, h, 1.25),
            p + "self_attn.k_proj.weight": matrix(kv, h, 1.25),
            p + "self_attn.v_proj.weight": matrix(kv, h, 1.5),
            p + "self_attn.o_proj.weight": matrix(h, q, 1.5),
            p + "post_attention_layernorm.weight": norm(),
            p + "mlp.gate_proj.weight": matrix(inner, h, 1.5),
            p + "mlp.up_proj.weight": matrix(inner, h, 1.5),
            p + "mlp.down_proj.weight": matrix(h, inner, 1.5),
        }
    out["model.norm.weight"] = norm()
    if not tied:
        out["lm_head.weight"] = matrix(c["vocab_size"], h, 3)
    return out


def write(folder, spec, tensors):
    """Writes the model in Hugging Face's format."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "config.json").write_text(json.dumps(spec["config"], indent=2) + "\n")
    stored = {name: torch.from_numpy(w).to(DTYPES[spec["stored"]]).contiguous() for name, w in tensors.items()}
    n = spec["shards"]
    if n == 1:
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names = list(stored)
    index = {"metadata": {"total_size": sum(t.nbytes for t in stored.values())}, "weight_map": {}}
    for i in range(n):
        shard = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = names[i * len(names) // n:(i + 1) * len(names) // n]
        save_file({name: stored[name] for name in part}, folder / shard, metadata={"format": "pt"})
        index["weight_map"] |= {name: shard for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def gated_unit(c, w, prefix, y):
    gate, up = y @ w[prefix + "mlp.gate_proj.weight"].T, y @ w[prefix + "mlp.up_proj.weight"].T
    return (gate / (1 + np.exp(-gate)) * up) @ w[prefix + "mlp.down_proj.weight"].T


def float64(c, w, ids, *, window_off=0, interleaved=False, scaling=True, feed_forward=gated_unit):
    """The model in float64, or with one thing wrong."""
    d, heads, groups = c["head_dim"], c["num_attention_heads"], c["num_attention_heads"] // c["num_key_value_heads"]
    rope = c.get("rope_parameters") or {"rope_theta": c["rope_theta"]}
    freq = rope["rope_theta"] ** (-2 * np.arange(d // 2) / d)
    if scaling and (s := c.get("rope_scaling")):
        turns = s["original_max_position_embeddings"] * freq / (2 * np.pi)
        smooth = np.clip((turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"]), 0, 1)
        freq = (1 - smooth) * freq / s["factor"] + smooth * freq
    n = len(ids)
    angle = np.arange(n)[:, None] * freq
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    age = np.arange(n)[:, None] - np.arange(n)  # of the key, seen from the query
    seen = age >= 0
    if c.get("sliding_window"):
        seen &= age < c["sliding_window"] + window_off

    def rms(x, weight):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + c["rms_norm_eps"]) * weight

    def rotate(x):
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :d // 2], x[..., d // 2:])
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][ids]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = rms(x, w[p + "input_layernorm.weight"])
        q, k, v = ((y @ w[p + f"self_attn.{m}_proj.weight"].T).reshape(n, -1, d) for m in "qkv")
        q, k, v = rotate(q), np.repeat(rotate(k), groups, 1), np.repeat(v, groups, 1)
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(d)
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + np.einsum("hij,jhd->ihd", scores, v).reshape(n, heads * d) @ w[p + "self_attn.o_proj.weight"].T
        y = rms(x, w[p + "post_attention_layernorm.weight"])
        x = x + feed_forward(c, w, p, y)
    return rms(x, w["model.norm.weight"]) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def run(model, ids):
    """Logits of all positions, in the model's type."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def distance(got, want):
    """The largest difference relative to the range of the logits."""
    return float(np.abs(got - want).max() / (want.max() - want.min()))


def perplexity(logits, text):
    p = torch.log_softmax(logits.double(), -1)
    return math.exp(-p[torch.arange(len(text) - 1), torch.tensor(text[1:])].mean().item())


def continuation(model, prompt):
    """Greedy tokens, and the least gap between the two largest logits."""
    ids, gap = list(prompt), math.inf
    for _ in range(GREEDY):
        top = run(model, ids)[-1].topk(2)
        gap = min(gap, (top.values[0] - top.values[1]).item())
        ids.append(top.indices[0].item())
    return ids[len(prompt):], gap


def draw(model, length, seed):
    """A likely text: <s>, then tokens drawn from the model."""
    g = torch.Generator().manual_seed(seed)
    ids = [1]
    with torch.no_grad():
        while len(ids) < length:
            p = torch.softmax(run(model, ids)[-1].double(), -1)
            p[:CONTROL] = 0
            ids.append(torch.multinomial(p, 1, generator=g).item())
    return ids


def load(folder, dtype):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[dtype], attn_implementation="eager").eval()


def mistakes(c, w, prompt):
    """How far each mistake moves the logits after the prompt."""
    kinds = {"neighbours rotated together": dict(interleaved=True)}
    if c.get("sliding_window"):
        kinds |= {"a window one too wide": dict(window_off=1), "a window one too narrow": dict(window_off=-1)}
    if c.get("rope_scaling"):
        kinds |= {"unscaled frequencies": dict(scaling=False)}
    right = float64(c, w, prompt)[-1]
    return {kind: round(distance(float64(c, w, prompt, **how)[-1], right), 3) for kind, how in kinds.items()}


def make(folder, spec):
    c = spec["config"]
    for seed in range(1, 300):  # until a mistake would be visible, and the greedy tokens are many and unambiguous
        rng = np.random.default_rng(seed)
        tensors = weights(c, rng)
        prompt = [1] + rng.integers(CONTROL, c["vocab_size"], spec["prompt"] - 1).tolist()
        if min(mistakes(c, tensors, prompt).values()) < 0.05:
            continue
        write(folder, spec, tensors)
        model = load(folder, "fp32")
        greedy, gap = continuation(model, prompt)
        if gap < 0.03 or len(set(greedy)) < GREEDY * 3 // 4 or min(greedy) < CONTROL:
            continue
        exact = {name: t.double().numpy() for name, t in model.state_dict().items()}
        prompt64 = float64(c, exact, prompt)
        rounded = run(load(folder, "bf16"), prompt).double().numpy()
        if distance(rounded, prompt64) < BF16_BOUND:
            break
    else:
        sys.exit(f"{folder.name}: no seed gives a model with clear differences")

    text = draw(model, spec["text"], seed)
    off = distance(run(model, text).double().numpy(), float64(c, exact, text))
    if off > 2e-5:
        sys.exit(f"{folder.name}: transformers differs from float64 by {off:.1e} of the range")

    positions = [len(prompt) // 2, len(prompt) - 1]
    reference = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                 "prompt": prompt, "positions": positions, "logits": {}, "greedy": greedy, "gap": round(gap, 4),
                 "text": text, "perplexity": {}}
    far = {}
    for dtype in DTYPES:
        model = load(folder, dtype)
        rows = run(model, prompt)[positions]
        far[dtype] = distance(rows.double().numpy(), prompt64[positions])
        raw = rows.contiguous().view(torch.uint8).numpy().tobytes()
        reference["logits"][dtype] = base64.b64encode(raw).decode()
        reference["perplexity"][dtype] = perplexity(run(model, text), text)
    (folder / "reference.json").write_text(json.dumps(reference) + "\n")
    print(f"{folder.name}: seed {seed}, least gap {gap:.3f}, {len(set(greedy))} greedy tokens, logits {prompt64.mean():.2f} ± {prompt64.std():.2f}")
    print("  perplexity", ", ".join(f"{k} {v:.4f}" for k, v in reference["perplexity"].items()))
    print("  from float64, of the range:", ", ".join(f"{k} {v:.1e}" for k, v in far.items()))
    print("  what a mistake does, of the range:", ", ".join(f"{k} {v}" for k, v in mistakes(c, exact, prompt).items()), flush=True)


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(__doc__ + "\nusage: make_model_fixtures.py [FOLDER]")
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # gives sums a fixed order
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) == 2 else OUT
    for name, spec in MODELS.items():
        make(out / name, spec)


if __name__ == "__main__":
    main()
