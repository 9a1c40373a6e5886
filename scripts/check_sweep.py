#!/usr/bin/env python3
"""Compares a sweep of cuBLAS with a plain loop of library calls.

    gemmaudit export sweep.db --phase sweep --out sweep.csv
    scripts/check_sweep.py sweep.csv --shapes 50 --bound 0.02

Draws random shapes from the exported sweep, times them with torch.mm and CUDA events (transposed weights for layout nk),
and compares medians. Needs PyTorch with CUDA. Run it on the same machine right after the sweep.

Exit code 0 if every median of the sweep is within the bound of the loop's, else 1.
"""
import argparse
import csv
import random
import statistics
import sys

import torch

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
WARM_UP_SECONDS = 2.0  # before the first round: clocks and power settle


def read_sweep(path):
    """Returns {(dtype, m, n, k, layout): [us, ...]} of cuBLAS."""
    samples = {}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            if row["kernel"] != "cublas":
                continue
            key = (row["dtype"], int(row["m"]), int(row["n"]), int(row["k"]), row.get("layout") or "kn")
            samples.setdefault(key, []).append(float(row["us"]))
    return samples


class Loop:
    """A weight matrix with enough copies to miss the cache, and room for every batch."""

    def __init__(self, dtype, n, k, layout, max_m):
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        copies = 3 * l2 // (n * k * torch.tensor([], dtype=dtype).element_size()) + 1
        shape = (n, k) if layout == "nk" else (k, n)
        self.weights = [torch.randn(shape, device="cuda", dtype=dtype) for _ in range(copies)]
        if layout == "nk":
            self.weights = [w.t() for w in self.weights]
        self.a = torch.randn(max_m, k, device="cuda", dtype=dtype)
        self.c = torch.empty(max_m, n, device="cuda", dtype=dtype)
        self.next = 0

    def run(self, m, launches):
        """Microseconds per launch of a block between two events.

        A launch before the first event loads the code and keeps the card busy while the
        host enqueues the others.
        """
        a, c = self.a[:m], self.c[:m]
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for i in range(1 + launches):
            if i == 1:
                start.record()
            torch.mm(a, self.weights[self.next], out=c)
            self.next = (self.next + 1) % len(self.weights)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / launches


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv")
    parser.add_argument("--shapes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--bound", type=float, default=0.02, help="bound of the relative difference")
    parser.add_argument("--block-us", type=float, default=4000, help="length of a block")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    sweep = read_sweep(args.csv)
    if not sweep:
        sys.exit(f"{args.csv}: no samples of kernel cublas")
    rng = random.Random(args.seed)
    drawn = rng.sample(sorted(sweep), min(args.shapes, len(sweep)))
    loops = {}
    for dtype, m, n, k, layout in drawn:
        max_m = max(key[1] for key in drawn if key[0] == dtype and key[2:] == (n, k, layout))
        if (dtype, n, k, layout) not in loops:
            loops[dtype, n, k, layout] = Loop(DTYPES[dtype], n, k, layout, max_m)

    def loop_of(key):
        return loops[(key[0], *key[2:])]

    spent = 0.0
    while spent < WARM_UP_SECONDS:
        key = rng.choice(drawn)
        spent += loop_of(key).run(key[1], 4) * 4 / 1e6
    expected = {key: statistics.median(sweep[key]) for key in drawn}
    plain = {key: [] for key in drawn}
    for _ in range(args.rounds):
        rng.shuffle(drawn)
        for key in drawn:
            plain[key].append(loop_of(key).run(key[1], max(2, round(args.block_us / expected[key]))))

    worst, outside = 0.0, 0
    for key in sorted(drawn):
        loop = statistics.median(plain[key])
        difference = expected[key] / loop - 1
        worst = max(worst, abs(difference), key=abs)
        mark = ""
        if abs(difference) > args.bound:
            outside += 1
            mark = "  outside"
        print(f"{key[0]} m{key[1]} n{key[2]} k{key[3]} {key[4]}: sweep {expected[key]:.2f} us, loop {loop:.2f} us, {100 * difference:+.2f} %{mark}")
    print(f"{len(drawn)} shapes on {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}: "
          f"worst {100 * worst:.2f} %, {outside} outside {100 * args.bound:.0f} %")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
