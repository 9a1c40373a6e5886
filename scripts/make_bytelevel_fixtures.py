#!/usr/bin/env python3
"""Makes the fixtures of byte-level tokenizers in kernels/mistral/tokenizer with the reference libraries.

Writes into kernels/mistral/tokenizer/testdata. Tokens are trained here; everything else is as published:

  llama3.json, qwen2.json, gpt2.json  tokenizer.json files
  tekken.json                         a tekken.json
  <kind>_expected.gz                  tokens of 10 000 strings by Hugging Face's tokenizers, and by mistral-common
  byte_variants.gz                    tokens of some strings after parts of the files were changed
  patterns.gz                         matches of some strings by Oniguruma, and by Rust's engine

The strings come from byte_pieces.json by the generator of make_tokenizer_fixtures.py.
Needs tokenizers (used: 0.23.3), tiktoken (0.14.0) and mistral-common (1.13.1); the same versions give the same files.
"""

import base64
import copy
import gzip
import json
import tempfile

import tiktoken
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

from make_tokenizer_fixtures import DATA, ROOT, STRINGS, compact, edited, strings, template, write

VOCABULARY = 1_536
SOME = 24  # strings of each kind for a variant

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = CASED % ("", "", r"\p{N}")
O200K = CASED % (2 * (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",) + (r"\p{N}{1,3}",))
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s*[\r\n]|\s+(?!\S)|\s+"
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
DEEPSEEK_CODER = [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"]

# Both engines must agree on these: published expressions, then one per feature.
PATTERNS = [GPT2, LLAMA3, QWEN2, TEKKEN, O200K, CL100K, *DEEPSEEK, *DEEPSEEK_CODER] + r"""
\S+\s?
\s+
.
.+
(?:\p{Lu}\p{Ll}*)+
(\p{L}|\p{N})+?(?!\p{M})
(?>\p{L}+)x|\p{L}
\p{L}+(?=\s)
\p{L}*?[aeiou]
[^\P{L}a-zé]+
[^\S\n]+
[\S\n]
\P{N}{2}
\p{L}{2,}
\p{^L}+|\p{L}
[\p{^L}e]+
(?:a|e|i|o|u){1,2}[^ ]
(?i:gpu|the|k|[s-t])+
(?i:she|'s)
\d+|\D
[\x{1F300}-\x{1FAFF}]+
\u00e9|[\u0300-\u036f]+
[-a]+|[b-]+
[.*+?^$|()]+
\.\*|\/\/|\-|\[|\]|\{|\}
\p{M}+|\p{S}|\p{P}{1,2}|\p{Z}|\p{Sc}|\p{Cf}|\p{Co}
[\p{Lt}\p{Nl}\p{No}]
(?:[^\r\n\p{L}\p{N}]|(?:\p{L}|'))+(?!\S)
\s?+[a-z]++
(?:\s?[a-z])*+.
(?:(?!the)\p{L})+
(?=\p{L})[^a]
 ?(?:\p{L}+?|\p{N}+?)(?= |\p{P})
\t|\f|\v|\r\n?|\n
a??b|e
""".strip("\n").split("\n")


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, trim=True, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}


def sequence(name, *parts):
    return {"type": "Sequence", name: list(parts)}


def corpus(kinds):
    lines = (ROOT / "LICENSE").read_text().splitlines()
    for kind in kinds:
        if kind["name"] in ("prose", "code", "cases", "digits", "contractions"):
            lines += strings([kind], 400)
    return lines + [" " * n for n in range(2, 17) for _ in range(20)]


def train(kinds, pattern, size=VOCABULARY):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train_from_iterator(corpus(kinds), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    return json.loads(tokenizer.to_str())["model"]


def added(model, *special, more=()):
    tokens = []
    for content, flags in [(content, {}) for content in special] + list(more):
        following = len(model["vocab"]) + sum(t["id"] >= len(model["vocab"]) for t in tokens)
        tokens.append({"id": model["vocab"].get(content, following), "content": content, "single_word": False, "lstrip": False,
                       "rstrip": False, "normalized": False, "special": True, **flags})
    return tokens


def documents(kinds):
    """The three tokenizer.json."""
    def document(model, tokens, normalizer, pre, post):
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
                "pre_tokenizer": pre, "post_processor": post, "decoder": byte_level(True), "model": model}

    llama3 = train(kinds, LLAMA3)
    llama3["ignore_merges"] = True
    # Some tokens are not the result of merges.
    llama3["merges"] = [m for i, m in enumerate(llama3["merges"]) if i % 40 or len("".join(m)) < 4]
    tokens = added(llama3, "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|start_header_id|>",
                   "<|end_header_id|>", "<|eot_id|>")
    ids = {t["content"]: t["id"] for t in tokens}
    yield "llama3", document(llama3, tokens, None, sequence("pretokenizers", split(LLAMA3), byte_level(regex=False)),
                             sequence("processors", byte_level(True), template(["<|begin_of_text|>"], [], ids)))
    qwen2 = train(kinds, QWEN2)
    flags = {"special": False}
    yield "qwen2", document(qwen2, added(qwen2, "<|endoftext|>", "<|im_start|>", "<|im_end|>", more=[
        ("<think>", flags), ("<mask>", {"lstrip": True}), ("<tool>", {"rstrip": True, **flags}), ("GPU", {"single_word": True, **flags}),
        ("big token", flags), ("né", {"normalized": True, **flags})]),
        {"type": "NFC"}, sequence("pretokenizers", split(QWEN2), byte_level(trim=False, regex=False)), byte_level(trim=False, regex=False))
    gpt2 = train(kinds, GPT2)
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        gpt2[name] = ""
    gpt2["merges"] = [" ".join(m) for m in gpt2["merges"]]
    yield "gpt2", document(gpt2, added(gpt2, "<|endoftext|>", more=[("<s>", {"normalized": True}), ("é", flags)]), None, byte_level(), byte_level(trim=False))


def tekken(kinds):
    """A tekken.json of version 3: more tokens than used, no list of special tokens."""
    unwritten = {char: byte for byte, char in byte_chars()}
    model = train(kinds, TEKKEN, 1_800)
    words = [bytes([b]) for b in range(256)]
    words += [bytes(unwritten[char] for char in left + right) for left, right in model["merges"]]
    words[1_400:1_400] = [b"reserved", b"header", b"SPECIAL", "👨‍👩‍👧‍👦".encode()]  # tokens that no merges produce
    words = list(dict.fromkeys(words))[:1_800]

    def text(word):
        try:
            return word.decode()
        except UnicodeDecodeError:
            return None

    return {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(words), "default_vocab_size": 1_600, "default_num_special_tokens": 100,
                       "version": "v3"},
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": text(w)} for i, w in enumerate(words)]}


def byte_chars():
    """The characters of ByteLevel: printable Latin-1 unchanged, others from U+0100 on."""
    following = 256
    for byte in range(256):
        if 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xFF and byte != 0xAD:
            yield byte, chr(byte)
        else:
            yield byte, chr(following)
            following += 1


def variants(files):
    """Name, kind, and replacements in the file: pairs of old and new."""
    def field(kind, *path, becomes):
        part = files[kind]
        for key in path:
            part = part[key]
        return f'"{path[-1]}":{compact(part)}', f'"{path[-1]}":{compact(becomes)}'

    def pre(name, *parts):
        return name, "llama3", [field("llama3", "pre_tokenizer", becomes=sequence("pretokenizers", *parts))]

    def lost(kind, char):
        at = files[kind]["model"]["vocab"][char]
        return f'"{char}":{at},', f'"lost {at}":{at},'

    def model(kind, **fields):
        return [field(kind, "model", name, becomes=value) for name, value in fields.items()]

    def without(kind, *chars):
        """Merges without the removed bytes."""
        return field(kind, "model", "merges", becomes=[m for m in files[kind]["model"]["merges"] if not any(c in "".join(m) for c in chars)])

    digits = {"type": "Digits", "individual_digits": True}
    ids = {t["content"]: t["id"] for t in files["llama3"]["added_tokens"]}
    bytes_only = byte_level(regex=False)
    yield pre("o200k", split(O200K), bytes_only)
    yield pre("cl100k-possessive", split(CL100K), bytes_only)
    yield pre("gpt4-removed", split(CL100K, "Removed", True), bytes_only)
    yield pre("removed", split(r"\s+|[aeiou]", "Removed"), bytes_only)
    yield pre("inverted", split(r"\p{L}+", "Isolated", True), bytes_only)
    yield pre("deepseek", *map(split, DEEPSEEK), bytes_only)
    yield pre("deepseek-coder", *map(split, DEEPSEEK_CODER), bytes_only)
    yield pre("digits", digits, byte_level())
    yield pre("digits-together", {**digits, "individual_digits": False}, byte_level())
    yield pre("prefixed", split(LLAMA3), byte_level(True, regex=False))
    yield pre("bytes-only", bytes_only)
    yield "prefixed-alone", "gpt2", [field("gpt2", "pre_tokenizer", becomes=byte_level(True))]
    yield "merged", "llama3", model("llama3", ignore_merges=False)
    yield "whole-words", "gpt2", model("gpt2", ignore_merges=True)
    yield "fallback", "llama3", model("llama3", byte_fallback=True)
    yield "begin-end", "llama3", [field("llama3", "post_processor", becomes=template(["<|begin_of_text|>"], ["<|eot_id|>", "<|end_of_text|>"], ids))]
    yield "no-template", "llama3", [field("llama3", "post_processor", becomes=None)]
    yield "composed", "gpt2", [field("gpt2", "normalizer", becomes={"type": "NFC"})]
    yield "composed-in-sequence", "llama3", [field("llama3", "normalizer", becomes=sequence("normalizers", {"type": "NFC"}))]
    lose = "à", "ð"  # the first bytes of many characters
    yield "bytes-lost", "llama3", [lost("llama3", c) for c in lose] + [without("llama3", *lose)]
    for fuse in (True, False):
        yield f"bytes-unknown-{fuse}", "qwen2", [lost("qwen2", c) for c in lose] + [without("qwen2", *lose)] + model("qwen2", unk_token="!", fuse_unk=fuse)
    special = [{"rank": i, "token_str": s, "is_control": i != 3} for i, s in enumerate(("<unk>", "<s>", "</s>", "the"))]
    config = {**files["tekken"]["config"], "version": "v13"}
    yield "tekken-13", "tekken", [field("tekken", "config", becomes=config), ('"vocab":', f'"special_tokens":{compact(special)},"vocab":')]
    yield "tekken-cased", "tekken", [field("tekken", "config", "pattern", becomes=O200K)]
    yield "tekken-gaps", "tekken", [field("tekken", "config", "pattern", becomes=r"\p{L}+|\s")]
    yield "tekken-small", "tekken", [field("tekken", "config", "default_vocab_size", becomes=100 + 256 + 40)]


def results(kind, file, texts):
    """For each text the ids separated by spaces, and the decoded text as JSON, or = if equal."""
    if kind == "tekken":
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(file)
            f.flush()
            model = Tekkenizer.from_file(f.name)
        encode, decode = lambda text: model.encode(text, bos=True, eos=False), model.decode
    else:
        tokenizer = Tokenizer.from_str(file)
        encode, decode = lambda text: tokenizer.encode(text).ids, tokenizer.decode
    for text in texts:
        ids = encode(text)
        decoded = decode(ids)
        yield " ".join(map(str, ids)) + "\t" + ("=" if decoded == text else json.dumps(decoded))


def matched(pattern, text):
    """Oniguruma's matches in text as (start, end) character positions."""
    found = pre_tokenizers.Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(text)
    encoding = tiktoken.Encoding("pattern", pat_str=pattern, mergeable_ranks={bytes([b]): b for b in range(256)}, special_tokens={})
    assert encoding.decode(encoding.encode_ordinary(text)) == "".join(part for part, _ in found), (pattern, text)
    return " ".join(f"{first} {last}" for _, (first, last) in found)


def main():
    kinds = json.loads((DATA / "byte_pieces.json").read_text())
    texts = list(strings(kinds, STRINGS))
    files = dict(documents(kinds)) | {"tekken": tekken(kinds)}
    written = {kind: compact(content) + "\n" for kind, content in files.items()}
    for kind, file in written.items():
        (DATA / f"{kind}.json").write_text(file)
        write(f"{kind}_expected.gz", "".join(line + "\n" for line in results(kind, file, texts)))
    lines = []
    for name, kind, edits in variants(files):
        lines.append(json.dumps({"name": name, "style": kind, "edits": edits}))
        lines += results(kind, edited(written[kind], edits), texts[: SOME * len(kinds)])
        lines.append("")
    write("byte_variants.gz", "\n".join(lines))
    lines = []
    for pattern in PATTERNS:
        found = [matched(pattern, text) for text in texts[: SOME * len(kinds)]]
        lines += [json.dumps({"pattern": pattern, "strings": len(found)}), *found]
    write("patterns.gz", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
