#!/usr/bin/env python3
"""Writes the wheel: the program and the Python package of scripts/python, the same bytes for the same input.

    scripts/wheel/wheel.py --program bin/wheel/gemmaudit --version v0.9.0 --glibc 2.28 --machine x86_64 --out bin/wheel

Metadata is that of scripts/python/pyproject.toml. It fails if the program needs a newer glibc than the wheel's
tag says, or a library that manylinux does not have.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "scripts/python/gemmaudit"
LICENCES = {"LICENSE": ROOT / "LICENSE", "THIRD_PARTY_NOTICES": ROOT / "cmd/gemmaudit/notices/THIRD_PARTY_NOTICES"}

# The glibc libraries of manylinux's list.
LIBRARIES = re.compile(r"^(lib(c|m|pthread|dl|rt|resolv)\.so\.[0-9]+|ld-linux-.*\.so\.[0-9]+)$")
# NVML is opened at run time, and its functions are resolved when called.
OPENED_LATER = re.compile(r"^nvml[A-Z]")


class Refused(Exception):
    """Why no wheel is written."""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in version.split("."))


def check_symbols(listing: str, glibc: str) -> None:
    """listing is of `readelf -W --dyn-syms`."""
    for line in listing.splitlines():
        words = line.split()
        if len(words) < 8 or words[6] != "UND":
            continue
        symbol, _, version = words[7].partition("@")
        if version.startswith("GLIBC_"):
            if numbers(version.removeprefix("GLIBC_")) > numbers(glibc):
                raise Refused(f"{symbol} needs {version.replace('_', ' ').lower()}, and the tag of the wheel says {glibc}")
        elif version:
            raise Refused(f"{symbol} needs {version}, expected symbols of glibc alone")
        elif words[4] == "GLOBAL" and not OPENED_LATER.match(symbol):
            raise Refused(f"{symbol} is in none of the libraries that the program was linked with")


def check_libraries(listing: str) -> None:
    """listing is of `readelf -W --dynamic`."""
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", listing):
        if not LIBRARIES.match(name):
            raise Refused(f"the program needs {name}, which manylinux does not have")


def check_program(program: pathlib.Path, glibc: str) -> None:
    def readelf(what: str) -> str:
        return subprocess.run(["readelf", "-W", what, program], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout

    symbols = readelf("--dyn-syms")
    if "GLIBC_" not in symbols:
        raise Refused(f"readelf finds no symbol of glibc in {program}")
    check_symbols(symbols, glibc)
    check_libraries(readelf("--dynamic"))


def python_version(version: str) -> str:
    """The program's version as PEP 440 has it: v0.9.0-rc1 is 0.9.0rc1; what git describe appends is a local version."""
    m = re.fullmatch(r"v(\d+\.\d+\.\d+)(?:-(rc\d+))?(?:-(.+))?", version)
    release, rest = (m[1] + (m[2] or ""), m[3]) if m else ("0.0.0", version)
    local = re.sub(r"[^a-z0-9]+", ".", (rest or "").lower()).strip(".")
    return release + (f"+{local}" if local else "")


def metadata(project: dict, version: str) -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
             f"License-Expression: {project['license']}"]
    lines += [f"License-File: {name}" for name in LICENCES]
    lines += [f"Author: {a['name']}" for a in project["authors"]]
    lines += [f"Project-URL: {name}, {url}" for name, url in project["urls"].items()]
    lines += [f"Keywords: {','.join(project['keywords'])}"] + [f"Classifier: {c}" for c in project["classifiers"]]
    lines.append(f"Requires-Python: {project['requires-python']}")
    for extra, needs in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
    readme = (ROOT / "scripts/python" / project["readme"]).read_text(encoding="utf-8")
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + readme


def contents(program: pathlib.Path, version: str, tag: str) -> dict[str, tuple[bytes, int]]:
    """The files of the wheel, with their permissions; all but RECORD. A link is the file that it names."""
    with open(ROOT / "scripts/python/pyproject.toml", "rb") as f:
        project = tomllib.load(f)["project"]
    info = f"gemmaudit-{version}.dist-info"
    files = {f"gemmaudit/{p.name}": (p.read_bytes(), 0o644) for p in PACKAGE.iterdir() if p.suffix == ".py" or p.name == "py.typed"}
    files["gemmaudit/bin/gemmaudit"] = (program.read_bytes(), 0o755)
    files |= {f"{info}/licenses/{name}": (path.read_bytes(), 0o644) for name, path in LICENCES.items()}
    texts = {"METADATA": metadata(project, version), "WHEEL": f"Wheel-Version: 1.0\nGenerator: gemmaudit\nRoot-Is-Purelib: false\nTag: {tag}\n",
             "entry_points.txt": "".join(["[console_scripts]\n"] + [f"{n} = {at}\n" for n, at in project["scripts"].items()])}
    return files | {f"{info}/{name}": (text.encode(), 0o644) for name, text in texts.items()}


def write(path: pathlib.Path, files: dict[str, tuple[bytes, int]], record: str) -> None:
    """Files in order of their names, RECORD last, all of one moment."""
    lines = []
    with zipfile.ZipFile(path, "w") as wheel:
        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr, entry.compress_type = 3, (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data, compresslevel=9)

        for name, (data, mode) in sorted(files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data, mode)
        add(record, ("".join(lines) + f"{record},,\n").encode(), 0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True, help="the program's, as git describe has it")
    parser.add_argument("--glibc", required=True)
    parser.add_argument("--machine", choices=("x86_64", "aarch64"), required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder; other wheels in it are removed for this machine")
    a = parser.parse_args()
    check_program(a.program, a.glibc)
    version, platform = python_version(a.version), f"manylinux_{a.glibc.replace('.', '_')}_{a.machine}"
    tag = f"py3-none-{platform}"
    a.out.mkdir(parents=True, exist_ok=True)
    for old in a.out.glob(f"gemmaudit-*_{a.machine}.whl"):
        old.unlink()
    path = a.out / f"gemmaudit-{version}-{tag}.whl"
    write(path, contents(a.program, version, tag), f"gemmaudit-{version}.dist-info/RECORD")
    print(path)


if __name__ == "__main__":
    try:
        main()
    except Refused as why:
        sys.exit(f"wheel: {why}")
