#!/usr/bin/env python3
"""Compares gemmaudit's perplexity of a long text with transformers'.

    scripts/check_model.py ./model --gemmaudit bin/gemmaudit --tokens 4096 --dtype fp16

gemmaudit samples the text from the model at temperature 1. Both programs then compute its perplexity on the same device in
the same type. Needs PyTorch and transformers, and a GPU with room for the model twice, or the CPU for small ones.

Exit code 0 if the two agree within the bound, else 1.
"""
import argparse
import json
import subprocess
import sys
import tempfile

import torch
import transformers

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def run(args, *command):
    """Runs gemmaudit and returns its JSON output."""
    line = [args.gemmaudit, "mistral", *command, "--device", args.device, "--dtype", args.dtype]
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)


def perplexity(model, tokens):
    """exp of the mean negative log-likelihood of each token but the first."""
    ids = torch.tensor([tokens], device=model.device)
    with torch.inference_mode():
        logits = model(ids).logits[0, :-1].float()
    loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="mean")
    return loss.double().exp().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--gemmaudit", default="bin/gemmaudit")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--dtype", choices=DTYPES, default="fp16")
    parser.add_argument("--device", default="cuda:0", help="device in gemmaudit's notation")
    parser.add_argument("--bound", type=float, default=0.005, help="bound of the relative difference")
    args = parser.parse_args()

    with tempfile.NamedTemporaryFile("w", suffix=".json") as text:
        drawn = run(args, "generate", args.model, "--prompt", "a", "--tokens", str(args.tokens - 8), "--temperature", "1",
                    "--ignore-eos", "--json")
        tokens = [1, *drawn["tokens"]]
        json.dump(tokens, text)
        text.flush()
        ours = run(args, "perplexity", args.model, "--token-ids", text.name, "-o", "json")["perplexity"]

    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=DTYPES[args.dtype], attn_implementation="sdpa")
    model.to("cpu" if args.device == "cpu" else args.device).eval()
    theirs = perplexity(model, tokens)
    difference = ours / theirs - 1
    print(f"{args.model} {args.dtype}, {len(tokens)} tokens: gemmaudit {ours:.5g}, transformers {transformers.__version__} {theirs:.5g}, "
          f"{100 * difference:+.3f} % (allowed {100 * args.bound:g} %)")
    return 0 if abs(difference) <= args.bound else 1


if __name__ == "__main__":
    sys.exit(main())
