#!/usr/bin/env python3
"""Compares decoding and prompts of `gemmaudit mistral bench` on a CPU with llama.cpp, in turns.

    scripts/check_llama.py --llama-bench build/bin/llama-bench [--program bin/gemmaudit] [--rounds 5] [--isa avx2]

llama-bench comes from the source archive of llama-cpp-python on PyPI: unpack it, then
`cmake -B build -DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON vendor/llama.cpp`, with -DGGML_AVX512=ON
-DGGML_AVX512_VNNI=ON for AVX-512, and `cmake --build build --target llama-bench`. --isa caps our instruction set
(GEMMAUDIT_ISA); give the llama-bench that was built for the same one.

Both run TinyLlama's shape with random weights. Each round runs every program once, in an order that turns. It prints the
median of each rate with its extremes, and exits with 1 if a target is missed: decoding 1.1 times llama.cpp's Q4_0 and 2.5
times our own fp16, prompts 1.2 times llama.cpp's, where only the row that is named may round activations to 8 bits, as
llama.cpp does. It needs the Python packages gguf and numpy.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

SHAPE = dict(hidden=2048, inner=5632, layers=22, heads=32, kv_heads=4, head_dim=64, vocab=32000, context=2048)
LLAMA = {"F16": "f16.gguf", "Q4_0": "q4_0.gguf"}
OURS = {  # arguments of mistral bench
    "fp16": ["--weights", "plain"],
    "int4:32": ["--weights", "int4:32"],
    "int4:128": ["--weights", "int4:128"],
    "int4:32, int8-activations": ["--weights", "int4:32", "--kernel", "int8-activations"],
}


def write_config(path, layers):
    s = SHAPE
    with open(path, "w", encoding="utf-8") as f:
        json.dump(dict(
            architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=s["hidden"], intermediate_size=s["inner"],
            num_hidden_layers=layers, num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"], head_dim=s["head_dim"],
            vocab_size=s["vocab"], max_position_embeddings=s["context"], rms_norm_eps=1e-5, rope_theta=1e4, hidden_act="silu",
            tie_word_embeddings=False, torch_dtype="float16"), f)


def write_gguf(path, kind, layers):
    """Writes random weights. All tensors of products have the kind's type, as in our formats."""
    import gguf
    import numpy as np

    s, rng = SHAPE, np.random.default_rng(1)
    w = gguf.GGUFWriter(path, "llama")
    w.add_context_length(s["context"])
    w.add_embedding_length(s["hidden"])
    w.add_block_count(layers)
    w.add_feed_forward_length(s["inner"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv_heads"])
    w.add_rope_dimension_count(s["head_dim"])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(s["vocab"])
    w.add_file_type(1 if kind == "F16" else 2)
    w.add_tokenizer_model("no_vocab")

    def product(name, rows, columns):
        x = (rng.standard_normal((rows, columns), dtype=np.float32) * columns ** -0.5)
        if kind == "F16":
            w.add_tensor(name, x.astype(np.float16))
        else:
            t = gguf.GGMLQuantizationType.Q4_0
            w.add_tensor(name, gguf.quants.quantize(x, t), raw_dtype=t)

    def norm(name):
        w.add_tensor(name, np.ones(s["hidden"], dtype=np.float32))

    product("token_embd.weight", s["vocab"], s["hidden"])
    for i in range(layers):
        b = f"blk.{i}."
        norm(b + "attn_norm.weight")
        product(b + "attn_q.weight", s["heads"] * s["head_dim"], s["hidden"])
        product(b + "attn_k.weight", s["kv_heads"] * s["head_dim"], s["hidden"])
        product(b + "attn_v.weight", s["kv_heads"] * s["head_dim"], s["hidden"])
        product(b + "attn_output.weight", s["hidden"], s["heads"] * s["head_dim"])
        norm(b + "ffn_norm.weight")
        product(b + "ffn_gate.weight", s["inner"], s["hidden"])
        product(b + "ffn_up.weight", s["inner"], s["hidden"])
        product(b + "ffn_down.weight", s["hidden"], s["inner"])
    norm("output_norm.weight")
    product("output.weight", s["vocab"], s["hidden"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def output_of(command, environment=None):
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def llama(a, path):
    """Tokens per second: decoding after a.context tokens, and of a prompt."""
    common = [a.llama_bench, "-m", path, "-t", str(a.threads), "-ngl", "0", "-o", "json", "-r", "1"]
    rows = json.loads(output_of(common + ["-p", str(a.prompt), "-n", "0"])) + \
        json.loads(output_of(common + ["-p", "0", "-n", str(a.tokens), "-d", str(a.context)]))
    return {"decode": rows[1]["avg_ts"], "prompt": rows[0]["avg_ts"]}


def ours(a, config, arguments):
    command = [a.program, "mistral", "bench", "--model", config, "--device", "cpu", "--dtype", "fp16", "--threads", str(a.threads),
               "--context", f"{a.context},{a.prompt}", "--tokens", str(a.tokens), "--rounds", "6", "-o", "json", *arguments]
    rates = {r["context"]: r for r in json.loads(output_of(command, {"GEMMAUDIT_ISA": a.isa} if a.isa else None))["rates"]}
    return {"decode": rates[a.context]["decode_tokens_per_second"]["mid"], "prompt": rates[a.prompt]["prefill_tokens_per_second"]["mid"]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-bench", required=True, help="path of llama.cpp's llama-bench")
    p.add_argument("--program", default="bin/gemmaudit", help="path of gemmaudit")
    p.add_argument("--folder", default="/tmp/check-llama", help="where the models are kept: 3 GB")
    p.add_argument("--isa", default="", help="value of GEMMAUDIT_ISA")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--layers", type=int, default=SHAPE["layers"])
    p.add_argument("--vocab", type=int, default=SHAPE["vocab"], help="fewer with few layers: our last product stays in fp16")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--context", type=int, default=128, help="tokens before those that are decoded")
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--tokens", type=int, default=32, help="tokens to decode")
    a = p.parse_args()

    SHAPE["vocab"] = a.vocab
    os.makedirs(a.folder, exist_ok=True)
    config = os.path.join(a.folder, "config.json")
    write_config(config, a.layers)
    runs = {}
    for kind, name in LLAMA.items():
        path = os.path.join(a.folder, f"{a.layers}-{a.vocab}-{name}")
        if not os.path.exists(path):
            write_gguf(path + ".part", kind, a.layers)
            os.replace(path + ".part", path)
        runs["llama.cpp " + kind] = lambda path=path: llama(a, path)
    for name, arguments in OURS.items():
        runs["gemmaudit " + name] = lambda arguments=arguments: ours(a, config, arguments)

    rates = {name: {"decode": [], "prompt": []} for name in runs}
    names = list(runs)
    for i in range(a.rounds):
        for name in names[i % len(names):] + names[:i % len(names)]:
            for what, rate in runs[name]().items():
                rates[name][what].append(rate)
            print(f"round {i + 1}: {name}: " + ", ".join(f"{what} {v[-1]:.1f}" for what, v in rates[name].items()), file=sys.stderr)

    mid = {name: {what: statistics.median(v) for what, v in of.items()} for name, of in rates.items()}
    print(f"{'tokens/s':38} decode after {a.context:<6} prompt of {a.prompt}")
    for name, of in rates.items():
        print(f"{name:38} " + "  ".join(f"{mid[name][what]:6.1f} [{min(v):.1f}, {max(v):.1f}]" for what, v in of.items()))
    missed = False
    peer, plain = mid["llama.cpp Q4_0"], mid["gemmaudit fp16"]
    for name in ("int4:32", "int4:32, int8-activations"):
        of = mid["gemmaudit " + name]
        for text, ratio, target in (("decode / llama.cpp Q4_0", of["decode"] / peer["decode"], 1.1),
                                    ("decode / our fp16", of["decode"] / plain["decode"], 2.5),
                                    ("prompt / llama.cpp Q4_0", of["prompt"] / peer["prompt"], 1.2)):
            missed |= ratio < target
            print(f"{name}: {text}: {ratio:.2f}, target {target}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
