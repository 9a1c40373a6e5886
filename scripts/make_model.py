#!/usr/bin/env python3
"""Writes a model with random weights in Hugging Face's format: config.json, safetensors shards with an index, and
tokenizer.json. Speed and memory depend on a model's shape, not on its training, so this replaces a download.

    scripts/make_model.py --preset mistral-7b-v0.3 /tmp/mistral
    scripts/make_model.py --preset llama3.1-8b --dtype bf16 /tmp/llama
    scripts/make_model.py --preset tinyllama-1.1b --layers 4 --seed 7 /tmp/small
    scripts/make_model.py --preset tiny --window 128 --vocab 2048 --tokenizer tokenizer.json /tmp/tiny
    gemmaudit mistral bench /tmp/mistral

The seed draws one block of about 4 million normal numbers. Every matrix repeats that block from its own offset, scaled by
1/sqrt(inputs). So 7 billion weights take only the time to write them, and the same arguments give the same bytes. The
generated text has no meaning. Activations stay near 1 through all layers: the two matrices per layer that are added to the
residual stream are also scaled by 1/sqrt(2*layers), and norm weights are near 1.

The default tokenizer is byte-fallback BPE like Mistral's and Llama 2's: control tokens <unk>, <s>, </s>, the 256 bytes,
and letters merged in alphabetical order. It accepts any text, and needs more tokens than a trained one.
"""
import argparse
import itertools
import json
import math
import pathlib
import shutil
import sys
import time

try:
    import numpy as np
except ImportError:
    np = None  # --help works without

LLAMA31 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}
PRESETS = {
    "mistral-7b-v0.1": dict(kind="mistral", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                            vocab=32000, context=32768, window=4096, theta=1e4),
    "mistral-7b-v0.2": dict(kind="mistral", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                            vocab=32000, context=32768, theta=1e6),
    "mistral-7b-v0.3": dict(kind="mistral", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                            vocab=32768, context=32768, theta=1e6),
    "mixtral-8x7b": dict(kind="mixtral", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                         vocab=32000, context=32768, theta=1e6, experts=8, top=2),
    "llama2-7b": dict(kind="llama", hidden=4096, inner=11008, layers=32, heads=32, kv_heads=32, head_dim=128,
                      vocab=32000, context=4096, theta=1e4),
    "llama3-8b": dict(kind="llama", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                      vocab=128256, context=8192, theta=5e5),
    "llama3.1-8b": dict(kind="llama", hidden=4096, inner=14336, layers=32, heads=32, kv_heads=8, head_dim=128,
                        vocab=128256, context=131072, theta=5e5, scaling=LLAMA31),
    "tinyllama-1.1b": dict(kind="llama", hidden=2048, inner=5632, layers=22, heads=32, kv_heads=4, head_dim=64,
                           vocab=32000, context=2048, theta=1e4),
    "tiny": dict(kind="mistral", hidden=256, inner=704, layers=4, heads=4, kv_heads=2, head_dim=64,
                 vocab=1024, context=4096, window=1024, theta=1e4),
}
# safetensors' name, config.json's name, bytes
DTYPES = {"fp16": ("F16", "float16", 2), "bf16": ("BF16", "bfloat16", 2), "fp32": ("F32", "float32", 4)}
BLOCK = 4_194_301  # a prime, so repetitions of the block fall on different columns
CONTROL = ["<unk>", "<s>", "</s>"]
BEGIN, END = 1, 2
# Names of the tokens that begin and end a text.
BEGINNINGS, ENDINGS = ("<s>", "<|begin_of_text|>"), ("</s>", "<|end_of_text|>", "<|eot_id|>")


def tensors(p):
    """Yields name, shape, standard deviation and mean of each tensor, in the order of use."""
    h, inner = p["hidden"], p["inner"]
    q, kv = p["heads"] * p["head_dim"], p["kv_heads"] * p["head_dim"]
    residual = 1 / math.sqrt(2 * p["layers"])

    def matrix(name, rows, columns, gain=1.0):
        return name + ".weight", (rows, columns), gain / math.sqrt(columns), 0.0

    def norm(name):
        return name + ".weight", (h,), 0.05, 1.0

    # Logits have a standard deviation of 2. Rows of an untied embedding are as large as the sums that layers add.
    yield matrix("model.embed_tokens", p["vocab"], h, 2.0 if p["tied"] else math.sqrt(h))
    for i in range(p["layers"]):
        layer = f"model.layers.{i}."
        yield norm(layer + "input_layernorm")
        yield matrix(layer + "self_attn.q_proj", q, h)
        yield matrix(layer + "self_attn.k_proj", kv, h)
        yield matrix(layer + "self_attn.v_proj", kv, h)
        yield matrix(layer + "self_attn.o_proj", h, q, residual)
        yield norm(layer + "post_attention_layernorm")
        if p["kind"] != "mixtral":
            yield matrix(layer + "mlp.gate_proj", inner, h)
            yield matrix(layer + "mlp.up_proj", inner, h)
            yield matrix(layer + "mlp.down_proj", h, inner, residual)
            continue
        layer += "block_sparse_moe."
        yield matrix(layer + "gate", p["experts"], h)
        for e in range(p["experts"]):
            yield matrix(layer + f"experts.{e}.w1", inner, h)
            yield matrix(layer + f"experts.{e}.w3", inner, h)
            yield matrix(layer + f"experts.{e}.w2", h, inner, residual)
    yield norm("model.norm")
    if not p["tied"]:
        yield matrix("lm_head", p["vocab"], h, 2.0)


class Block:
    """The random numbers as bytes by scale; a model uses few scales."""

    def __init__(self, seed, dtype):
        self.normals = np.random.default_rng(seed).standard_normal(BLOCK, dtype=np.float32)
        self.dtype, self.scaled = dtype, {}

    def bytes(self, deviation, mean):
        if (deviation, mean) not in self.scaled:
            x = self.normals * np.float32(deviation) + np.float32(mean)
            if self.dtype == "fp16":
                x = x.astype("<f2")
            elif self.dtype == "bf16":  # to nearest, ties to even
                bits = x.view(np.uint32)
                x = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
            else:
                x = x.astype("<f4")
            self.scaled[deviation, mean] = memoryview(x).cast("B")
        return self.scaled[deviation, mean]


def write_shard(path, shard, block, size):
    """Writes one safetensors file. shard is a list of (index, name, shape, deviation, mean)."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for _, name, shape, _, _ in shard:
        begin, end = end, end + math.prod(shape) * size
        header[name] = {"dtype": DTYPES[block.dtype][0], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb", buffering=0) as f:
        write_all(f, len(text).to_bytes(8, "little") + text)
        for index, _, shape, deviation, mean in shard:
            source = block.bytes(deviation, mean)
            at, left = index * 999_983 % BLOCK * size, math.prod(shape) * size
            while left:
                part = source[at:at + left]
                write_all(f, part)
                at, left = 0, left - len(part)


def write_all(f, data):
    """Writes all of it: one write takes at most 2 GiB on Linux."""
    data = memoryview(data)
    while data:
        data = data[f.write(data):]


def tokenizer(vocab):
    """A byte-fallback BPE tokenizer of that many tokens."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    printable = [chr(c) for c in range(33, 127)]
    tokens = CONTROL + [f"<0x{b:02X}>" for b in range(256)] + ["▁", "\n"] + printable
    if vocab < len(tokens):
        sys.exit(f"--vocab {vocab}: the built-in tokenizer has at least {len(tokens)} tokens; give one with --tokenizer")
    pairs = [a + b for a, b in itertools.product(letters, letters)]
    # Each word merges two earlier words.
    merges = itertools.islice(itertools.chain(
        (("▁", a) for a in letters),
        ((a[0], a[1]) for a in pairs),
        (("▁" + a[0], a[1]) for a in pairs),
        itertools.product(pairs, letters),
        itertools.product(pairs, pairs),
        ((a, b) for a, b in itertools.product(("".join(t) for t in itertools.product(pairs, letters)), pairs)),
    ), vocab - len(tokens))
    merges = [" ".join(m) for m in merges]
    tokens += [m.replace(" ", "") for m in merges]
    piece = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    second = [{"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}]
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
                         for i, c in enumerate(CONTROL)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {"type": "TemplateProcessing", "single": piece, "pair": piece + second,
                           "special_tokens": {"<s>": {"id": "<s>", "ids": [BEGIN], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges},
    }


def read_tokenizer(path, vocab):
    """A tokenizer's text, and its tokens that begin and end a text, or None."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        parsed = json.loads(text)
        ids = dict(parsed["model"]["vocab"]) | {t["content"]: t["id"] for t in parsed["added_tokens"]}
        largest = max(ids.values())
    except (OSError, ValueError, KeyError, TypeError) as err:
        sys.exit(f"--tokenizer {path}: not a tokenizer.json: {err!r}")
    if largest >= vocab:
        sys.exit(f"--tokenizer {path}: token {largest} is beyond a vocabulary of {vocab}; give --vocab {largest + 1} or more")
    return text, *(next((ids[name] for name in names if name in ids), None) for names in (BEGINNINGS, ENDINGS))


def config(p, dtype, begin, end):
    c = {
        "architectures": [p["kind"].capitalize() + "ForCausalLM"],
        "attention_dropout": 0.0, "bos_token_id": begin, "eos_token_id": end, "head_dim": p["head_dim"], "hidden_act": "silu",
        "hidden_size": p["hidden"], "initializer_range": 0.02, "intermediate_size": p["inner"],
        "max_position_embeddings": p["context"], "model_type": p["kind"], "num_attention_heads": p["heads"],
        "num_hidden_layers": p["layers"], "num_key_value_heads": p["kv_heads"], "rms_norm_eps": 1e-5, "rope_theta": p["theta"],
        "tie_word_embeddings": p["tied"], "torch_dtype": DTYPES[dtype][1], "use_cache": True, "vocab_size": p["vocab"],
    }
    if p["kind"] != "llama":
        c["sliding_window"] = p["window"] or None
    if p["kind"] == "mixtral":
        c |= {"num_local_experts": p["experts"], "num_experts_per_tok": p["top"]}
    if p["kind"] == "llama":
        c |= {"attention_bias": False, "mlp_bias": False, "pretraining_tp": 1, "rope_scaling": p["scaling"]}
    return c


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder to write")
    parser.add_argument("--preset", choices=PRESETS, default="tiny", help="the shape; the options below change it (default: tiny)")
    parser.add_argument("--dtype", choices=DTYPES, default="fp16", help="type of all weights (default: fp16)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights (default: 1)")
    for name, what in {
        "hidden": "columns of the residual stream", "inner": "columns of the gated unit", "layers": "number of layers",
        "heads": "query heads", "kv-heads": "heads of keys and values", "head-dim": "elements of a head", "vocab": "tokens",
        "context": "longest sequence", "window": "tokens that attention sees, 0 for all (not llama)",
        "experts": "experts of a layer (mixtral only)", "top": "experts of a token (mixtral only)",
    }.items():
        parser.add_argument("--" + name, type=int, metavar="N", help=what)
    parser.add_argument("--theta", type=float, metavar="X", help="base of the rotary frequencies")
    parser.add_argument("--tied", action="store_true", help="use the embedding as output projection")
    parser.add_argument("--tokenizer", metavar="FILE", help="tokenizer.json to copy instead of making one")
    parser.add_argument("--shard-gb", type=float, default=5.0, metavar="X", help="largest file, in 10^9 bytes; one tensor at least (default: 5)")
    parser.add_argument("--force", action="store_true", help="replace an existing model")
    args = parser.parse_args()
    p = {"window": 0, "scaling": None, "experts": None, "top": None, **PRESETS[args.preset], "tied": args.tied}
    for name in ("hidden", "inner", "layers", "heads", "kv_heads", "head_dim", "vocab", "context", "window", "theta", "experts", "top"):
        value = getattr(args, name)
        if value is None:
            continue
        if not (value > 0 or name == "window" and value == 0):
            parser.error(f"--{name.replace('_', '-')} {value}: expected more than 0")
        if name in ("experts", "top") and p["kind"] != "mixtral":
            parser.error(f"--{name} {value}: a {p['kind']} model has no experts")
        p[name] = value
    if p["kind"] == "mixtral" and p["top"] > p["experts"]:
        parser.error(f"--top {p['top']}: expected at most the {p['experts']} experts")
    if p["heads"] % p["kv_heads"]:
        parser.error(f"{p['heads']} query heads do not divide evenly among {p['kv_heads']} heads of keys and values")
    if p["head_dim"] % 2:
        parser.error(f"--head-dim {p['head_dim']}: expected an even number")
    if p["kind"] == "llama" and p["window"]:
        parser.error(f"--window {p['window']}: a llama model has none")
    if args.shard_gb <= 0:
        parser.error(f"--shard-gb {args.shard_gb}: expected more than 0")
    if args.seed < 0:
        parser.error(f"--seed {args.seed}: expected 0 or more")
    return args, p


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    args, p = parse()
    if np is None:
        sys.exit("make_model.py needs numpy: pip install numpy")
    started = time.monotonic()
    size = DTYPES[args.dtype][2]
    listed = [(i, *tensor) for i, tensor in enumerate(tensors(p))]
    parameters = sum(math.prod(shape) for _, _, shape, _, _ in listed)
    total = parameters * size

    if args.tokenizer:
        text, begin, end = read_tokenizer(args.tokenizer, p["vocab"])
    else:
        text, begin, end = json.dumps(tokenizer(p["vocab"]), ensure_ascii=False), BEGIN, END

    shards, filled = [[]], 0
    for tensor in listed:
        n = math.prod(tensor[2]) * size
        if shards[-1] and filled + n > args.shard_gb * 1e9:
            shards.append([])
            filled = 0
        shards[-1].append(tensor)
        filled += n

    folder = args.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        old = [f for f in folder.iterdir() if f.name.startswith("model") and ".safetensors" in f.name or f.name in ("config.json", "tokenizer.json")]
        if old and not args.force:
            sys.exit(f"{folder}: {old[0].name} exists; --force replaces it")
        free = shutil.disk_usage(folder).free + sum(f.stat().st_size for f in old)
        if free < total:
            sys.exit(f"{folder}: the model needs {total / 1e9:.1f} GB, only {free / 1e9:.1f} GB are free")
        for f in old:
            f.unlink()
        block = Block(args.seed, args.dtype)
        index = {"metadata": {"total_size": total}, "weight_map": {}}
        for i, shard in enumerate(shards):
            name = "model.safetensors" if len(shards) == 1 else f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
            write_shard(folder / name, shard, block, size)
            index["weight_map"] |= {tensor[1]: name for tensor in shard}
        if len(shards) > 1:
            write_json(folder / "model.safetensors.index.json", index)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        write_json(folder / "config.json", config(p, args.dtype, begin, end))  # last: it marks the model as complete
    except OSError as err:
        sys.exit(f"{folder}: {err}")
    print(f"{folder}: {p['kind']} of {parameters:,} parameters in {args.dtype}, {total / 1e9:.2f} GB in {len(shards)} "
          f"file{'s' if len(shards) > 1 else ''}, {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
