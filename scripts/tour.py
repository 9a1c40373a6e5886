#!/usr/bin/env python3
"""Writes the outputs in docs/tour.md anew, by running the commands above them.

A block of commands and outputs follows a comment that says where its output comes from:

    <!-- output: published -->           measurements in this repository: the same anywhere
    <!-- output: cpu, rows 5 -->         the machine that the page names; of each table five rows are shown
    <!-- output: cuda, rows 4 -->

In the block a line that begins with "$ " is a command, and what follows is what it printed on stdout.
Commands run one after the other in one folder, in which the repository's folders are found by their names. A plot that they
leave there is copied to where the page shows it:

    <!-- picture: cpu, cpu/plots/clocks.png -->
    ![Clocks of that run](clocks.png)

    scripts/tour.py published            rewrite
    scripts/tour.py published --check    fail where the page has another output
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tour.md"
BLOCK = re.compile(r"(<!-- output: (\w+)(?:, rows (\d+))? -->\n```\n)(.*?)(^```$)", re.S | re.M)
PICTURE = re.compile(r"<!-- picture: (\w+), (\S+) -->\n!\[[^]]*\]\((\S+)\)")
WIDEST = 170  # columns of a line; what is behind them is left out
VERDICTS = (0, 1, 4)  # exit codes of commands that have done what they are for


def shorten(output: str, rows: int) -> List[str]:
    """The lines of an output, none too wide, of each table at most so many rows; 0 is all."""
    lines, inside = [], -1  # rows of the table so far, or outside of one
    for line in output.splitlines():
        if re.fullmatch(r"-{10,}", line):
            inside = 0
        elif not line.strip():
            inside = -1
        elif inside >= 0:
            inside += 1
            if rows and inside > rows:
                if inside == rows + 1:
                    lines.append("...")
                continue
        line = line.rstrip()
        lines.append(line if len(line) <= WIDEST else line[: WIDEST - 4].rstrip() + " ...")
    while lines and not lines[-1]:
        lines.pop()
    return lines


def run(command: str, folder: str) -> str:
    """What a command prints on stdout."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode not in VERDICTS:
        sys.exit(f"tour: {command}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def block(text: str, rows: int, folder: str) -> str:
    """A block with the outputs that its commands have here."""
    lines = []
    for line in text.splitlines():
        if line.startswith("$ "):
            print(line, file=sys.stderr)
            if lines and not lines[-1].startswith("$ "):
                lines.append("")
            lines.append(line)
            lines += shorten(run(line[2:], folder), rows)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="write the outputs in docs/tour.md anew")
    parser.add_argument("source", choices=["published", "cpu", "cuda"], help="the blocks to run")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where an output differs")
    args = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("examples", "results", "scripts"):
            os.symlink(ROOT / name, pathlib.Path(folder) / name)

        def renew(m: "re.Match[str]") -> str:
            nonlocal count
            if m[2] != args.source:
                return m[0]
            count += 1
            return m[1] + block(m[4], int(m[3] or 0), folder) + m[5]

        after = BLOCK.sub(renew, before)
        for source, made, shown in PICTURE.findall(before):
            if source == args.source and not args.check:
                shutil.copyfile(pathlib.Path(folder) / made, PAGE.parent / shown)
    if count == 0:
        sys.exit(f"tour: {PAGE.name} has no output of {args.source}")
    if not args.check:
        PAGE.write_text(after, encoding="utf-8")
    elif after != before:
        old, new = before.splitlines(), after.splitlines()
        at = next((i for i, (a, b) in enumerate(zip(old, new)) if a != b), min(len(old), len(new)))
        sys.exit(f"tour: line {at + 1} of {PAGE.name} is\n{old[at:at + 1]}\nand its command prints\n{new[at:at + 1]}\nrun `make tour TOUR={args.source}`")


if __name__ == "__main__":
    main()
