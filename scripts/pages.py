#!/usr/bin/env python3
"""Writes the outputs shown in README.md and docs/*.md, and the screens in docs/screens.

A comment above a block names the command that prints its output. The block shows its own first lines, those that begin with "$ ":

    <!-- output: gemmaudit audit mistral/run.db | head -14 -->
    ```
    $ gemmaudit run --model mistral-7b --dtype bf16 --out mistral
    [output]
    ```

Commands run in a folder with these files:

    mistral/run.db   docs/runs/mistral-h100.db.xz: `gemmaudit run --model mistral-7b --dtype bf16 --kernel cublas,cublaslt
                     --batch 1,16,32,64:2560:64` on an H100, without the name of its machine
    torchgemm_*.csv  a published sweep, of results/published/testdata
    night/*.db       three runs of each card of a simulated fleet (screens only)

    scripts/pages.py pages [--check]     rewrite the outputs, or fail where one differs
    scripts/pages.py screens [--check]   the same for docs/screens/*.svg: each command in a terminal of 80 and 120 columns
    scripts/pages.py run                 docs/screens/run-*.svg, on a machine with an NVIDIA GPU: a run in each width
    scripts/pages.py page                docs/screens/page-*.png: the first screen of a report, in Chromium

`make pages` does the first two and the last.
"""

import argparse
import collections
import fcntl
import gzip
import html
import lzma
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = ROOT / "docs" / "runs" / "mistral-h100.db.xz"
PUBLISHED = ROOT / "results" / "published" / "testdata" / "torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv.gz"
SCREENS = ROOT / "docs" / "screens"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(<!-- output: ([^\n]+) -->\n```\n((?:\$ [^\n]*\n)+))(.*?)(^```$)", re.S | re.M)
VERDICTS = (0, 1, 4)  # exit codes of commands with a verdict
ROWS = 34  # lines of a screen

COMMANDS = {
    "audit": "gemmaudit audit mistral/run.db",
    "splits": "gemmaudit splits mistral/run.db",
    "diff": "gemmaudit diff night/node0000-gpu0-0.db night/node0002-gpu1-0.db",
    "advise": "gemmaudit advise mistral/run.db --kernel cublas",
    "fleet": "gemmaudit fleet night",
    "explain": "gemmaudit explain mistral/run.db 2",
}
WIDTHS = (80, 120)


def unpack(folder: pathlib.Path) -> None:
    (folder / "mistral").mkdir()
    (folder / "mistral" / "run.db").write_bytes(lzma.decompress(RUN.read_bytes()))
    (folder / PUBLISHED.stem).write_bytes(gzip.decompress(PUBLISHED.read_bytes()))


def output(command: str, folder: pathlib.Path) -> str:
    """What a command prints on stdout."""
    env = {**os.environ, "COLUMNS": "100", "TERM": "dumb"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in VERDICTS or not done.stdout:
        sys.exit(f"pages: {command}: exit code {done.returncode}\n{done.stderr}")
    return "".join(line.rstrip() + "\n" for line in done.stdout.rstrip("\n").split("\n"))


def settle(path: pathlib.Path, text: str, check: bool) -> None:
    """Writes a file, or fails if it has another text."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if text == before:
        return
    if not check:
        path.write_text(text, encoding="utf-8")
        return
    old, new = before.splitlines(), text.splitlines()
    at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
    sys.exit(f"pages: line {at + 1} of {path.name} is\n{old[at:at + 1]}\nexpected\n{new[at:at + 1]}\nrun `make pages`")


def pages(folder: pathlib.Path, check: bool) -> None:
    unpack(folder)
    count = 0

    def renew(m: "re.Match[str]") -> str:
        nonlocal count
        count += 1
        return m[1] + output(m[2], folder) + m[5]

    for page in PAGES:
        settle(page, BLOCK.sub(renew, page.read_text(encoding="utf-8")), check)
    if count < 6:
        sys.exit(f"pages: {count} outputs, expected at least 6")


def terminal(command: str, folder: pathlib.Path, columns: int) -> str:
    """What a command prints in a terminal, escape sequences included."""
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    env["TERM"] = "xterm-256color"
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    child = subprocess.Popen(["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=follower, stderr=subprocess.DEVNULL)
    os.close(follower)
    chunks = []
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the child closed its side
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(leader)
    if child.wait() not in VERDICTS:
        sys.exit(f"pages: {command}: exit code {child.returncode}")
    return b"".join(chunks).decode().replace("\r\n", "\n")


CELL, LINE, EDGE = 7.2, 16, 12  # pixels: width and height of a cell, border
COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea", "90": "#8b949e"}
WORDS = re.compile(r"\S+(?: \S+)*")
STYLE = re.compile(r"\x1b\[([0-9;]*)m")


def spans(line: str) -> str:
    """A line as tspans. Each has its place and length, so that every font keeps the columns."""
    column, style, out = 0, "", []
    for i, part in enumerate(STYLE.split(line)):
        if i % 2:
            words = part.split(";")
            style = "".join([' font-weight="bold"' if "1" in words else "", ' opacity="0.7"' if "2" in words else "",
                             "".join(f' fill="{COLORS[w]}"' for w in words if w in COLORS)])
            continue
        for word in WORDS.finditer(part):  # white space inside of a tspan may collapse
            x, length = EDGE + (column + word.start()) * CELL, len(word[0]) * CELL
            out.append(f'<tspan x="{x:.1f}" textLength="{length:.1f}"{style}>{html.escape(word[0], quote=False)}</tspan>')
        column += len(part)
    return "".join(out)


def folded(line: str, columns: int) -> "list[str]":
    """The rows that a line takes in a terminal."""
    rows, row, used = [], "", 0
    for i, part in enumerate(STYLE.split(line)):
        if i % 2:
            row += f"\x1b[{part}m"
            continue
        for char in part:
            if used == columns:
                rows, row, used = [*rows, row], "", 0
            row, used = row + char, used + 1
    return [*rows, row]


def picture(command: str, shown: str, columns: int) -> str:
    lines = [row for line in [f"$ {command}", *shown.rstrip("\n").split("\n")] for row in folded(line, columns)]
    if len(lines) > ROWS:
        lines = [*lines[: ROWS - 1], "[...]"]
    width, height = 2 * EDGE + columns * CELL, 2 * EDGE + len(lines) * LINE
    text = "\n".join(f'<text y="{EDGE + (i + 1) * LINE - 4}">{spans(line)}</text>' for i, line in enumerate(lines) if line.strip())
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="12" fill="#e6edf3">\n'
            f'<rect width="100%" height="100%" rx="6" fill="#0d1117"/>\n{text}\n</svg>\n')


def screens(folder: pathlib.Path, check: bool) -> None:
    unpack(folder)
    subprocess.run(["simfleet", "-per-host", "2", "-slow", "5:0.05:memory", "night"], cwd=folder, check=True)
    for name, command in COMMANDS.items():
        for columns in WIDTHS:
            settle(SCREENS / f"{name}-{columns}.svg", picture(command, terminal(command, folder, columns), columns), check)


def run(folder: pathlib.Path) -> None:
    command = "gemmaudit run --device cuda:0 --out h100"
    for columns in WIDTHS:
        shutil.rmtree(folder / "h100", ignore_errors=True)
        settle(SCREENS / f"run-{columns}.svg", picture(command, terminal(command, folder, columns), columns), False)


def shrink(path: pathlib.Path) -> None:
    """Rewrites a PNG as Chromium writes it, 8-bit RGB, with a palette: half the size."""
    data, at, packed = path.read_bytes(), 8, b""
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert (depth, kind) == (8, 2), f"{path}: depth {depth}, color type {kind}"
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at : at + 8])
        packed += data[at + 8 : at + 8 + size] if name == b"IDAT" else b""
        at += 12 + size
    raw, stride = zlib.decompress(packed), 3 * width
    above, pixels = bytearray(stride), bytearray()
    for y in range(height):
        how, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for i in range(stride if how else 0):
            a, b, c = (line[i - 3], above[i], above[i - 3]) if i > 2 else (0, above[i], 0)
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[how]) & 255
        above = line
        pixels += line
    colors = collections.Counter(zip(pixels[0::3], pixels[1::3], pixels[2::3]))
    order = [color for color, _ in colors.most_common()]
    kinds = {tuple(v >> 5 for v in color): color for color in reversed(order)}  # rare colors, such as a dot's, keep a place
    palette = list(dict.fromkeys([*kinds.values(), *order]))[:256]
    index = {c: i for i, c in enumerate(palette)}
    for c in colors:
        if c not in index:
            index[c] = min(range(len(palette)), key=lambda i: sum((x - y) ** 2 for x, y in zip(palette[i], c)))
    indexed = bytes(map(index.__getitem__, zip(pixels[0::3], pixels[1::3], pixels[2::3])))
    rows = b"".join(b"\0" + indexed[y * width : (y + 1) * width] for y in range(height))

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    path.write_bytes(data[:8] + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
                     + chunk(b"PLTE", bytes(v for c in palette for v in c)) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def page(folder: pathlib.Path) -> None:
    unpack(folder)
    subprocess.run(["gemmaudit", "report", "mistral/run.db", "--anonymous", "--images", "svg", "--out", "page"], cwd=folder, check=True)
    chromium = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None) or sys.exit("pages: no Chromium")
    for name, size in {"desktop": "1100,800", "phone": "390,844"}.items():
        subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}",
                        "--virtual-time-budget=5000", f"--screenshot={SCREENS / ('page-' + name + '.png')}",
                        (folder / "page" / "index.html").as_uri()], check=True, stderr=subprocess.DEVNULL)
        shrink(SCREENS / f"page-{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description="write the outputs and screens shown in the documents")
    parser.add_argument("what", choices=["pages", "screens", "run", "page"])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where an output differs")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if args.what in ("run", "page"):
            {"run": run, "page": page}[args.what](folder)
        else:
            {"pages": pages, "screens": screens}[args.what](folder, args.check)


if __name__ == "__main__":
    main()
