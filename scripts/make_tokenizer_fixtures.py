#!/usr/bin/env python3
"""Makes the fixtures of kernels/mistral/tokenizer with Hugging Face's tokenizers library.

Writes into kernels/mistral/tokenizer/testdata:

  normalizer.json  a tokenizer.json like Mistral v0.1 and Llama 2: the normalizer prepends and replaces, merges are strings
  metaspace.json   the same vocabulary like Mistral v0.3: a Metaspace pre-tokenizer, merges are pairs
  expected.gz      the library's tokens of 10 000 strings with both files
  variants.gz      its tokens of some of these strings after parts of the files were changed

The strings come from pieces.json. tokenizer_test.go has the same generator.
Needs tokenizers (used: 0.23.3); the same version gives the same files.
"""

import copy
import gzip
import json
import pathlib

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "kernels" / "mistral" / "tokenizer" / "testdata"
STRINGS = 10_000
VOCABULARY = 1_536


def strings(kinds, count):
    """The test strings: string i has up to `most` pieces or code points of kind i mod len(kinds)."""
    state = 1

    def below(n):  # splitmix64
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return (z ^ z >> 31) % n

    for i in range(count):
        kind = kinds[i % len(kinds)]
        pieces, ranges = kind.get("pieces", []), kind.get("ranges", [])
        text = ""
        for _ in range(below(kind["most"] + 1)):
            choice = below(len(pieces) + len(ranges))
            if choice < len(pieces):
                text += pieces[choice]
            else:
                first, last = ranges[choice - len(pieces)]
                text += chr(first + below(last - first + 1))
        yield text


def train(kinds):
    """A BPE vocabulary of the same layout as Mistral's: unknown, begin, end, 256 bytes, then pieces."""
    control = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([  # pieces are words, digits, blanks or signs
        pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
        pre_tokenizers.Split(Regex(r"▁*\p{L}+|▁*\d|▁+|[^▁\p{L}\d]+"), "isolated"),
    ])
    lines = (ROOT / "LICENSE").read_text().splitlines()
    for kind in kinds:
        if kind["name"] in ("prose", "code"):
            lines += [text for text in strings([kind], 400)]
    lines += [" " * n for n in range(2, 17) for _ in range(20)]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=control, show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    return json.loads(tokenizer.to_str())["model"]


def added(model):
    """Added tokens: Mistral's, then one per flag, and overlapping or nested matches."""
    tokens = []

    def add(content, special=True, normalized=False, **flags):
        at = model["vocab"].get(content)
        if at is None:
            at = len(model["vocab"]) + sum(t["id"] >= len(model["vocab"]) for t in tokens)
        tokens.append({"id": at, "content": content, "single_word": False, "lstrip": False,
                       "rstrip": False, "normalized": normalized, "special": special, **flags})

    add("<unk>")
    add("<s>")
    add("</s>")
    add("<pad>")
    add("[INST]")
    add("[/INST]")
    add("<tool>", lstrip=True)
    add("<|im_end|>", rstrip=True)
    add("<mask>", lstrip=True, rstrip=True)
    add("<tag", special=False)
    add("<tag><", special=False)
    add("GPU", special=False, single_word=True)
    add("big token", special=False, normalized=True)
    return tokens


def document(model, style):
    model = copy.deepcopy(model)
    prepend = [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
    if style == "normalizer":
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added(model),
        "normalizer": {"type": "Sequence", "normalizers": prepend} if style == "normalizer" else None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
                         if style == "metaspace" else None,
        "post_processor": template(before=["<s>"], after=[], ids=model["vocab"]),
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": model,
    }


def template(before, after, ids):
    def special(token, type_id):
        return {"SpecialToken": {"id": token, "type_id": type_id}}

    def one(sequence, type_id):
        return ([special(t, type_id) for t in before] + [{"Sequence": {"id": sequence, "type_id": type_id}}] +
                [special(t, type_id) for t in after])

    return {"type": "TemplateProcessing", "single": one("A", 0), "pair": one("A", 0) + one("B", 1),
            "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in before + after}}


def variants(documents):
    """Name, style, and replacements in the file: pairs of old and new."""
    replacing = documents["normalizer"]["normalizer"]["normalizers"][1]

    def field(style, *path, becomes):
        part = documents[style]
        for key in path:
            part = part[key]
        return f'"{path[-1]}":{compact(part)}', f'"{path[-1]}":{compact(becomes)}'

    def metaspace(**fields):
        return field("metaspace", "pre_tokenizer", becomes={"type": "Metaspace", **{"replacement": "▁", **fields}})

    def lost(style, byte):
        at = documents[style]["model"]["vocab"][byte]
        return f'"{byte}":{at}', f'"{byte[:-1]}":{at}'

    def model(style, **fields):
        return [field(style, "model", name, becomes=value) for name, value in fields.items()]

    def blanks(style, **flags):
        pad = next(a for a in documents[style]["added_tokens"] if a["content"] == "<pad>")
        return compact(pad), compact({**pad, "content": "  ", "special": False, **flags})

    ids = documents["metaspace"]["model"]["vocab"]
    yield "metaspace-always", "metaspace", [metaspace(prepend_scheme="always", split=False)]
    yield "metaspace-never", "metaspace", [metaspace(prepend_scheme="never", split=False)]
    yield "metaspace-first-split", "metaspace", [metaspace(prepend_scheme="first", split=True)]
    yield "metaspace-always-split", "metaspace", [metaspace(prepend_scheme="always", split=True)]
    yield "metaspace-old", "metaspace", [metaspace(add_prefix_space=True)]
    yield "metaspace-old-never", "metaspace", [metaspace(add_prefix_space=False, prepend_scheme="never")]
    yield "metaspace-other", "metaspace", [metaspace(replacement="a", prepend_scheme="first")]
    yield "blanks", "metaspace", [blanks("metaspace")]
    yield "blanks-left", "normalizer", [blanks("normalizer", lstrip=True)]
    yield "blanks-right", "metaspace", [blanks("metaspace", rstrip=True)]
    yield "blanks-both", "normalizer", [blanks("normalizer", lstrip=True, rstrip=True)]
    yield "blanks-word", "metaspace", [blanks("metaspace", single_word=True)]
    yield "no-normalizer", "normalizer", [field("normalizer", "normalizer", becomes=None)]
    yield "replace-only", "normalizer", [field("normalizer", "normalizer", becomes=replacing)]
    yield "unknown-fused", "normalizer", model("normalizer", byte_fallback=False)
    yield "unknown-single", "metaspace", model("metaspace", byte_fallback=False, fuse_unk=False)
    yield "unknown-dropped", "normalizer", model("normalizer", byte_fallback=False, unk_token=None)
    yield "bytes-lost", "normalizer", [lost("normalizer", "<0x8F>"), lost("normalizer", "<0xE2>")]
    yield "bytes-lost-single", "metaspace", [lost("metaspace", "<0x8F>")] + model("metaspace", fuse_unk=False)
    yield "ignore-merges", "metaspace", [metaspace(prepend_scheme="first", split=True)] + model("metaspace", ignore_merges=True)
    yield "begin-end", "metaspace", [field("metaspace", "post_processor", becomes=template(["<s>"], ["</s>"], ids))]
    yield "no-template", "normalizer", [field("normalizer", "post_processor", becomes=None)]
    yield "no-strip", "normalizer", [field("normalizer", "decoder", "decoders",
                                           becomes=documents["normalizer"]["decoder"]["decoders"][:3])]


def edited(text, edits):
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def results(file, texts):
    """For each text the ids separated by spaces, and the decoded text as JSON, or = if equal."""
    tokenizer = Tokenizer.from_str(file)
    for text in texts:
        ids = tokenizer.encode(text).ids
        decoded = tokenizer.decode(ids)
        yield " ".join(map(str, ids)), "=" if decoded == text else json.dumps(decoded)


def write(name, text):
    with open(DATA / name, "wb") as out, gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as z:
        z.write(text.encode())


def main():
    kinds = json.loads((DATA / "pieces.json").read_text())
    model = train(kinds)
    documents = {style: document(model, style) for style in ("normalizer", "metaspace")}
    files = {style: compact(content) + "\n" for style, content in documents.items()}
    for style, file in files.items():
        (DATA / f"{style}.json").write_text(file)

    texts = list(strings(kinds, STRINGS))
    lines = zip(*(results(file, texts) for file in files.values()))
    write("expected.gz", "".join("\t".join(a + b) + "\n" for a, b in lines))

    lines = []
    for name, style, edits in variants(documents):
        lines.append(json.dumps({"name": name, "style": style, "edits": edits}))
        lines += ["\t".join(r) for r in results(edited(files[style], edits), texts[: 25 * len(kinds)])]
        lines.append("")
    write("variants.gz", "\n".join(lines))


if __name__ == "__main__":
    main()
