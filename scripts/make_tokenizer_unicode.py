#!/usr/bin/env python3
"""Writes kernels/mistral/tokenizer/regex/unicode.txt: character classes as tokenizers' regular expressions see them.

Asks Hugging Face's tokenizers (Oniguruma) and tiktoken (Rust) about every character, and requires the same answer. A line
has the first code point of a range and its general category, and a w if Rust's \\w matches the range, which tokenizers
tests around added tokens.

Needs tokenizers (used: 0.23.3) and tiktoken (used: 0.14.0).
"""

import itertools
import pathlib

import tiktoken
from tokenizers import Regex, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split()
SURROGATES = range(0xD800, 0xE000)
EVERY = "".join(chr(c) for c in range(0x110000) if c not in SURROGATES)
BYTES = {bytes([b]): b for b in range(256)}


def oniguruma(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    return {char for part, _ in split.pre_tokenize_str(EVERY) for char in part}


def rust(pattern):
    encoding = tiktoken.Encoding("classes", pat_str=pattern, mergeable_ranks=BYTES, special_tokens={})
    return set(encoding.decode_bytes(encoding.encode_ordinary(EVERY)).decode())


def main():
    of = {}
    for category in CATEGORIES:
        chars = oniguruma(rf"\p{{{category}}}")
        assert chars == rust(rf"\p{{{category}}}"), category
        for char in chars:
            assert char not in of, (char, category, of[char])
            of[char] = category
    blanks = oniguruma(r"\s")
    assert blanks == rust(r"\s")
    assert sorted(map(ord, blanks)) == [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    words = rust(r"\w")

    def kind(c):
        return of.get(chr(c), "Cn") + (" w" if chr(c) in words else "") if c not in SURROGATES else "Cs"

    runs = [(kind, next(run)) for kind, run in itertools.groupby(range(0x110000), kind)]
    assert len(oniguruma(r"\p{Lu}")) == 1858  # Unicode 16.0; 15.0 has 1831
    lines = [f"{first:X} {kind}\n" for kind, first in runs]
    (ROOT / "kernels" / "mistral" / "tokenizer" / "regex" / "unicode.txt").write_text("# Unicode 16.0, by scripts/make_tokenizer_unicode.py\n" + "".join(lines))


if __name__ == "__main__":
    main()
