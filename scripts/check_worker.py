#!/usr/bin/env python3
"""Compares a worker's kernel with one of gemmaudit's that should take the same time, from `gemmaudit diff RUN --kernel A,B -o csv`.

    gemmaudit diff run.db --kernel cublas,cublas_ctypes --gate none -o csv | check_worker.py [--same-kernel]

On a CPU, the BLAS of Debian's python3-numpy beside the built-in OpenBLAS; docs/kernel.md has the sweep, and what was measured:

    gemmaudit diff np.db --kernel openblas,numpy_blas --where 'm > 16' --gate none -o csv | check_worker.py

Prints the geometric mean of B ÷ A at the common clock, and the share of rows of at least 10 us within 1 %. With --same-kernel
only rows count for which both ran the same device kernel; the others are listed. Exit code 1: the mean is off by more than
0.3 %, or fewer than 95 % of the rows are within 1 %.
"""
import argparse
import csv
import math
import re
import sys

LEAST_US, WITHIN, MEAN_WITHIN, SHARE = 10, 0.01, 0.003, 0.95


def kernels(label):
    """The names of device kernels in a label."""
    return set(re.findall(r"[A-Za-z_]\w{7,}", label))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--same-kernel", action="store_true", help="count only rows with the same device kernel, and list the others")
    given = arguments.parse_args()
    ratios, long, others = [], [], []
    for row in csv.DictReader(sys.stdin):
        if not row["ratio"]:
            continue
        ratio = float(row["ratio"])
        # The columns are empty where both are the same.
        if given.same_kernel and row["label_a"] + row["label_b"] and not kernels(row["label_a"]) & kernels(row["label_b"]):
            others.append((row["series"], row["m"], ratio, row["label_a"], row["label_b"]))
            continue
        ratios.append(ratio)
        if float(row["a_us"]) >= LEAST_US:
            long.append((abs(ratio - 1), ratio, row["series"], row["m"], row["a_us"], row["label_b"]))
    if not ratios:
        sys.exit("no row to compare")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    near = sum(off <= WITHIN for off, *_ in long)
    print(f"{len(ratios)} rows: geometric mean {mean:.4f}; {near} of {len(long)} rows of {LEAST_US} us and more within {WITHIN:.0%}")
    for _, ratio, series, m, us, label in sorted(long, reverse=True)[:8]:
        print(f"  {ratio:.4f}  {series} M {m}, {float(us):.1f} us, {label}")
    for series, m, ratio, a, b in others:
        print(f"  another kernel: {ratio:.4f}  {series} M {m}: {a} | {b}")
    return int(abs(mean - 1) > MEAN_WITHIN or near < SHARE * len(long))


if __name__ == "__main__":
    sys.exit(main())
