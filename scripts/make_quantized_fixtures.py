#!/usr/bin/env python3
"""Makes the fixtures of quantized checkpoints with numpy: kernels/mistral/checkpoint/testdata/<name>/ with config.json,
model.safetensors and expected.json.

Weights are random integers w [out, in] with scales and zero points [out, groups]; a weight's value is
(w - zero) * scale. They are packed as these projects write them:

  gptq, gptq-v2, gptq-8bit       AutoGPTQ's QuantLinear.pack: a word of qweight [in*bits/32, out] has consecutive inputs,
                                 a word of qzeros [groups, out*bits/32] consecutive outputs, minus 1 except in gptq_v2
  awq                            AutoAWQ's WQLinear_GEMM.from_linear: place i of a word of qweight [in, out/8] and qzeros
                                 [groups, out/8] has output 0, 2, 4, 6, 1, 3, 5, 7 [i] of eight
  packed, packed-zeros,          compressed-tensors' pack-quantized: a word of weight_packed [out, in*bits/32] has
  packed-rows                    consecutive inputs, of weight_zero_point [out*bits/32, groups] consecutive outputs;
                                 half of the range is added to signed integers

expected.json has SHA-256 per weight of the integers (bytes), zero points (16 bits), scales (fp32) and values (fp32), each
[out, in] or [out, groups], row by row, little-endian.
"""

import hashlib
import json
import pathlib

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent.parent / "kernels" / "mistral" / "checkpoint" / "testdata"
HIDDEN, INNER, HEADS, DIM, VOCAB = 64, 96, 2, 32, 32
LINEAR = {"self_attn.q_proj": (HEADS * DIM, HIDDEN), "self_attn.k_proj": (DIM, HIDDEN), "self_attn.v_proj": (DIM, HIDDEN),
          "self_attn.o_proj": (HIDDEN, HEADS * DIM), "mlp.gate_proj": (INNER, HIDDEN), "mlp.up_proj": (INNER, HIDDEN),
          "mlp.down_proj": (HIDDEN, INNER)}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def words(values, bits, order=None):
    """Packs the last axis: value i of a word is shifted by i*bits."""
    per = 32 // bits
    values = values.astype(np.uint32).reshape(*values.shape[:-1], -1, per)
    out = np.zeros(values.shape[:-1], np.uint32)
    for place in range(per):
        out |= values[..., place if order is None else order[place]] << np.uint32(place * bits)
    return out.view(np.int32)


def bf16(x):
    """Rounds to bf16, ties to even: bits, and value as fp32."""
    b = np.asarray(x, np.float32).view(np.uint32)
    b = (b + 0x7FFF + ((b >> 16) & 1)) >> 16
    return b.astype(np.uint16), (b << 16).astype(np.uint32).view(np.float32)


def gptq(base, w, zero, scale, bits, case):
    groups = scale.shape[1]
    out = {base + ".qweight": words(w.T.reshape(w.shape[1] // (32 // bits), 32 // bits, -1).transpose(0, 2, 1), bits)[..., 0],
           base + ".qzeros": words(zero.T - case.get("lag", 1), bits),
           base + ".scales": scale.T.astype(np.float16),
           base + ".g_idx": (np.arange(w.shape[1]) // (w.shape[1] // groups)).astype(np.int32)}
    if case.get("bias"):
        out[base + ".bias"] = np.zeros(w.shape[0], np.float16)
    return out


def awq(base, w, zero, scale, bits, case):
    return {base + ".qweight": words(w.T, bits, AWQ_ORDER), base + ".qzeros": words(zero.T, bits, AWQ_ORDER),
            base + ".scales": scale.T.astype(np.float16)}


def packed(base, w, zero, scale, bits, case):
    out = {base + ".weight_packed": words(w, bits), base + ".weight_shape": np.array(w.shape, np.int64),
           base + ".weight_scale": ("BF16", bf16(scale)[0]) if case["dtype"] == "bfloat16" else scale.astype(np.float16)}
    if case["zeros"]:
        out[base + ".weight_zero_point"] = words(zero.T, bits).T
    return out


def scheme(**weights):
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head"], "kv_cache_scheme": None,
            "quantization_status": "compressed", "global_compression_ratio": None, "version": "0.10.2",
            "sparsity_config": {}, "transform_config": {},
            "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": None, "output_activations": None, "format": None, "weights": {
                "type": "int", "dynamic": False, "block_structure": None, "actorder": None, "observer": "minmax", "observer_kwargs": {}, **weights}}}}


CASES = {
    "gptq": dict(pack=gptq, bits=4, group=32, zeros=False, bias=True, dtype="float16", config={
        "bits": 4, "group_size": 32, "damp_percent": 0.1, "desc_act": False, "static_groups": False, "sym": True, "true_sequential": True,
        "model_name_or_path": None, "model_file_base_name": "model", "quant_method": "gptq"}),
    "gptq-v2": dict(pack=gptq, bits=4, group=32, zeros=True, lag=0, dtype="float16", config={
        "bits": 4, "group_size": 32, "desc_act": True, "sym": False, "lm_head": False, "quant_method": "gptq", "checkpoint_format": "gptq_v2",
        "pack_dtype": "int32", "meta": {"quantizer": ["gptqmodel:2.2.0"]}}),
    "gptq-8bit": dict(pack=gptq, bits=8, group=None, zeros=True, dtype="float16", config={
        "bits": 8, "group_size": -1, "desc_act": False, "sym": False, "quant_method": "gptq", "checkpoint_format": "gptq", "is_marlin_format": False}),
    "awq": dict(pack=awq, bits=4, group=32, zeros=True, dtype="float16", config={
        "quant_method": "awq", "zero_point": True, "group_size": 32, "bits": 4, "version": "gemm", "modules_to_not_convert": None}),
    "packed": dict(pack=packed, bits=4, group=32, zeros=False, head=True, dtype="bfloat16",
                   config=scheme(num_bits=4, symmetric=True, strategy="group", group_size=32)),
    "packed-zeros": dict(pack=packed, bits=4, group=16, zeros=True, dtype="float16",
                         config=scheme(num_bits=4, symmetric=False, strategy="group", group_size=16)),
    "packed-rows": dict(pack=packed, bits=8, group=None, zeros=True, dtype="bfloat16",
                        config=scheme(num_bits=8, symmetric=False, strategy="channel", group_size=None)),
}


def safetensors(tensors):
    names = {"float16": "F16", "int32": "I32", "int64": "I64"}
    header, data = {}, b""
    for name, array in sorted(tensors.items()):
        dtype, array = array if isinstance(array, tuple) else (names[array.dtype.name], array)
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def sha(array, dtype):
    return hashlib.sha256(np.ascontiguousarray(array).astype(dtype).tobytes()).hexdigest()


def main():
    for seed, (name, case) in enumerate(CASES.items()):
        rng = np.random.default_rng(seed)

        def stored(x):
            return ("BF16", bf16(x)[0]) if case["dtype"] == "bfloat16" else x.astype(np.float16)

        tensors = {"model.embed_tokens.weight": stored(rng.normal(size=(VOCAB, HIDDEN))), "model.norm.weight": stored(np.ones(HIDDEN)),
                   "model.layers.0.input_layernorm.weight": stored(np.ones(HIDDEN)),
                   "model.layers.0.post_attention_layernorm.weight": stored(np.ones(HIDDEN))}
        linear = {f"model.layers.0.{part}": shape for part, shape in LINEAR.items()}
        if case.get("head"):
            linear["lm_head"] = VOCAB, HIDDEN
        else:
            tensors["lm_head.weight"] = stored(rng.normal(size=(VOCAB, HIDDEN)))
        expected, bits = {}, case["bits"]
        for base, (out, into) in linear.items():
            groups = into // (case["group"] or into)
            w = rng.integers(0, 1 << bits, (out, into))
            zero = rng.integers(1 if case.get("lag", 1) else 0, 1 << bits, (out, groups)) if case["zeros"] else np.full((out, groups), 1 << bits - 1)
            scale = rng.uniform(0.5, 1.5, (out, groups)) / (1 << bits - 1) / np.sqrt(into)
            tensors |= case["pack"](base, w, zero, scale, bits, case)
            exact = bf16(scale)[1] if case["dtype"] == "bfloat16" else scale.astype(np.float16).astype(np.float32)
            spread = into // groups
            dense = (w - zero.repeat(spread, 1)).astype(np.float32) * exact.repeat(spread, 1)
            expected[base + ".weight"] = {
                "shape": [out, into], "bits": bits, "group": spread, "values": sha(w, np.uint8), "zeros": sha(zero, "<i2") if case["zeros"] else None,
                "scales": sha(exact, "<f4"), "dense": sha(dense, "<f4")}
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER,
                  "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": 1, "head_dim": DIM, "vocab_size": VOCAB,
                  "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
                  "torch_dtype": case["dtype"], "quantization_config": case["config"]}
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
