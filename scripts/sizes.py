#!/usr/bin/env python3
"""Prints the size of each part of the program as a Markdown table.

    scripts/sizes.py --stripped bin/gemmaudit --symbols FILE

FILE is the same program with symbols. Symbols are attributed to the module of their package, and embedded files by
their size on disk.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODULE = "github.com/gemmaudit/gemmaudit"
DEVICE_CODE = MODULE + "/kernels/cuda/artefacts"
LEAST = 0.5e6  # minimum bytes of a library with a separate line


def printed(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "LC_ALL": "C"}).stdout


def in_file(sections: str) -> "list[tuple[int, int]]":
    """Address ranges in the file, from `readelf -SW`; .bss is not in the file."""
    found = re.findall(r"\] (\.\S+)\s+(\S+)\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", sections)
    return [(int(at, 16), int(at, 16) + int(size, 16)) for _, kind, at, size in found if kind != "NOBITS" and int(at, 16)]


def package(symbol: str) -> str:
    """The package path of a Go symbol; empty for C symbols and linker tables."""
    symbol = re.sub(r"\[.*", "", symbol).removeprefix("type:.eq.").removeprefix("type:.hash.")
    if ":" in symbol or symbol.startswith("_cgo_"):
        return ""
    folder, slash, last = symbol.rpartition("/")
    name, dot, _ = last.partition(".")
    return (folder + slash + name).replace("%2e", ".") if dot and re.fullmatch(r"[\w%-]+", name) else ""


def part(path: str, modules: "list[str]") -> str:
    if path == "main" or path.startswith(MODULE):
        return "our Go code"
    for module in modules:
        if path == module or path.startswith(module + "/"):
            return module
    return "Go's runtime and standard library"


def embedded() -> "dict[str, int]":
    """Bytes of embedded files by package of this module."""
    out = {}
    text, at, decoder = printed("go", "list", "-tags", "cuda", "-deps", "-json=ImportPath,Dir,EmbedFiles", "./cmd/gemmaudit").strip(), 0, json.JSONDecoder()
    while at < len(text):
        listed, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        if listed["ImportPath"].startswith(MODULE) and listed.get("EmbedFiles"):
            out[listed["ImportPath"]] = sum((pathlib.Path(listed["Dir"]) / f).stat().st_size for f in listed["EmbedFiles"])
    return out


def parts(symbols: str, total: int) -> "collections.Counter[str]":
    modules = sorted(printed("go", "list", "-m", "-f", "{{.Path}}", "all").split(), key=len, reverse=True)
    sections = printed("readelf", "-SW", symbols)
    ranges = in_file(sections)
    out: "collections.Counter[str]" = collections.Counter()
    for line in printed("go", "tool", "nm", "-size", symbols).splitlines():
        words = line.split(None, 3)
        if len(words) < 4 or not words[1].isdigit() or not any(a <= int(words[0], 16) < b for a, b in ranges):
            continue
        path = package(words[3])
        name = part(path, modules) if path else "tables of Go's linker" if re.match(r"(go|type|runtime)[:.]", words[3]) else "our kernels for CPUs, and other C"
        out[name] += int(words[1])
    files = embedded()
    device = files.pop(DEVICE_CODE)
    out["device code of NVIDIA GPUs, compressed"], out["embedded data and page"] = device, sum(files.values())
    libraries = {name: n for name, n in out.items() if name in modules}
    for name, n in libraries.items():
        if n < LEAST:
            del out[name]
            out["other libraries"] += n
    out["Go's tables of functions and lines"] = int(re.search(r"\] \.gopclntab\s+\S+\s+\S+ \S+ (\S+)", sections)[1], 16)
    out["types, texts and padding"] = total - sum(out.values()) + out.pop("tables of Go's linker", 0)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stripped", required=True)
    parser.add_argument("--symbols", required=True)
    a = parser.parse_args()
    total = os.stat(a.stripped).st_size
    print("| part | MB |\n|---|--:|")
    for name, n in sorted(parts(os.path.abspath(a.symbols), total).items(), key=lambda x: (-x[1], x[0])):
        print(f"| {name} | {n / 1e6:.1f} |")
    print(f"| the program | {total / 1e6:.1f} |")


if __name__ == "__main__":
    main()
