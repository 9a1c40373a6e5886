#!/usr/bin/env python3
"""Compares the shapes that `--model` plans with those of transformers' models.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python scripts/check_shapes.py [--only NAME ...]

Reads sweep/architecture/testdata/configs/NAME.json and testdata/shapes.tsv, the golden table of
`go test ./sweep/architecture -run TestShapes` (-update rewrites it). For each configuration it builds
the model on the meta device, where weights have shapes and no memory, and collects every weight
matrix of the language model by its place in a layer: [rows, columns], how many layers have it, and
how many experts. Each has to be in the table with the same numbers, and each row of the table has to
be in the model. Rows that engines fuse of several must have the sum of their rows.

Where transformers lacks a model:
- mimo derives its classes from Qwen2's decoder, and kimi_k2 names DeepSeek-V3's class. Those classes are built instead.
- Heads of EAGLE-3 are compared with the names and shapes in testdata/tensors/NAME.json, which the published
  class LlamaForCausalLMEagle3 declares. `--tensors FILE.safetensors` prints them for your checkpoint.

Prints one line for each configuration. Exits 1 if one differs, and 77 if transformers is missing.
"""

import argparse
import collections
import csv
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "sweep" / "architecture" / "testdata"

# Types with another name in transformers.
ALIASES = {"mimo": "qwen2", "kimi_k2": "deepseek_v3"}

# Modules outside the language model, and modules without weight matrices.
ELSEWHERE = re.compile(r"vision|visual|audio|multi_modal|projector|embed|conv1d|norm|_bias$|\.bias$|A_log|position_bias|sinks")


def tensors_of(path):
    """Names and shapes in the header of a safetensors file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return {name: t["shape"] for name, t in header.items() if name != "__metadata__"}


def model_tensors(config):
    """Names and shapes of the parameters of a model of transformers."""
    import torch
    import transformers

    fields = dict(config)
    kind = fields.pop("model_type")
    text = fields.get("text_config")
    if text and text.get("model_type") in ALIASES:
        fields["text_config"] = dict(text, model_type=ALIASES[text["model_type"]])
    made = transformers.AutoConfig.for_model(ALIASES.get(kind, kind), **fields)
    for auto in ("AutoModelForCausalLM", "AutoModelForImageTextToText", "AutoModelForMultimodalLM"):
        auto = getattr(transformers, auto, None)
        if auto is None or type(made) not in auto._model_mapping:
            continue
        with torch.device("meta"):
            model = auto.from_config(made)
        out = {name: list(p.shape) for name, p in model.named_parameters()}
        head = model.get_output_embeddings()
        if head is not None:  # a tied head is a parameter of the embedding
            out["lm_head.weight"] = list(head.weight.shape)
        return out
    raise ValueError(f"transformers has no model of type {kind}")


def place(name):
    """The place of a tensor in its layer, as in column `of`."""
    name = re.sub(r"\.weight$", "", name)
    name = re.sub(r"^.*?(layers\.\d+|midlayer)\.", "", name)
    return re.sub(r"^(model\.)?(language_model\.)?", "", name)


def matrices(tensors):
    """The number of layers by matrix (of, n, k, experts)."""
    out = collections.Counter()
    for name, shape in tensors.items():
        if len(shape) < 2 or ELSEWHERE.search(name):
            continue
        of, experts = place(name), 0
        if len(shape) == 3:
            experts, n, k = shape
        else:
            n, k = shape
        out[of, n, k, experts] += 1
    return out


def same(got, want):
    """Differences of two tables. Some models store the weights of experts [in, out]."""
    for key in list(got):
        of, n, k, experts = key
        if experts and key not in want and (of, k, n, experts) in want:
            got[of, k, n, experts] += got.pop(key)
    lines = []
    for key in sorted(set(got) | set(want)):
        if got.get(key) != want.get(key):
            of, n, k, experts = key
            lines.append(f"  {of} n{n} k{k} experts {experts}: the model has {got.get(key, 0)}, the table {want.get(key, 0)}")
    return lines


def fused(rows):
    """Rows of fused matrices that are not the sum of their parts."""
    lines = []
    for row in rows:
        if not row["fuses"]:
            continue
        parts = row["fuses"].split("+")
        sums = {0}
        for part in parts:
            sums = {s + int(r["n"]) for s in sums for r in rows if r["part"] == part and r["k"] == row["k"]}
        if int(row["n"]) not in sums:
            lines.append(f"  {row['part']} n{row['n']} k{row['k']} is no sum of {row['fuses']}")
    return lines


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--only", nargs="+", metavar="NAME", help="configurations to check")
    arguments.add_argument("--tensors", metavar="FILE", help="print the names and shapes of a safetensors file")
    options = arguments.parse_args()
    if options.tensors:
        json.dump(tensors_of(options.tensors), sys.stdout, indent=1, sort_keys=True)
        return 0
    try:
        from transformers.utils import logging

        logging.set_verbosity_error()
        import torch  # noqa: F401
    except ImportError as error:
        print(f"check_shapes: {error}", file=sys.stderr)
        return 77
    table = collections.defaultdict(list)
    with open(ROOT / "shapes.tsv", newline="") as f:
        for row in csv.DictReader(f, delimiter="\t"):
            table[row["config"]].append(row)
    failed = 0
    for name, rows in table.items():
        if options.only and name not in options.only:
            continue
        config = json.loads((ROOT / "configs" / f"{name}.json").read_text())
        published = ROOT / "tensors" / f"{name}.json"
        try:
            tensors = json.loads(published.read_text()) if published.exists() else model_tensors(config)
        except Exception as error:  # any error of a library about a configuration
            print(f"{name}: can't be built: {type(error).__name__}: {error}")
            failed += 1
            continue
        want = collections.Counter()
        for row in rows:
            if row["of"]:
                want[row["of"], int(row["n"]), int(row["k"]), int(row["experts"])] += int(row["layers"])
        lines = same(matrices(tensors), want) + fused(rows)
        print(f"{name}: {'differs' if lines else 'the same'}, {len(want)} matrices")
        print("\n".join(lines), end="\n" if lines else "")
        failed += bool(lines)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
