#!/usr/bin/env python3
"""Measures what a table gains in an engine: prompts in transformers with and without the table, interleaved.

    scripts/check_patch.py --table table.json --out patch.csv [--device cuda:0] [--seconds 40] [--sizes 24]

The prompt lengths are those with the largest promised gains, and two lengths without any. Each length is captured as two
CUDA graphs, with `gemmaudit.torch.patch` and without, which run one after the other in random order in every round. The
gain is the median ratio with its 95 % interval. The promise is the sum of what the proofs save in the prompt.

Exit code 1 if the interval of a length is below 0.995, or if the logits differ by more than rounding.
"""
import argparse
import csv
import pathlib
import random
import statistics
import sys
import time

import check_prompt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "python"))

LEAST = 0.995  # minimum upper bound of a gain
PLAIN, PATCHED = "plain", "patched"


def chosen(saved, count):
    """The lengths with the largest savings, {m: seconds}, in order."""
    return sorted(sorted(saved, key=lambda m: (-saved[m], m))[:count])


def untouched(changed, most):
    """Two lengths that change no layer, in the middle of the others if possible."""
    out = []
    for target in (changed[len(changed) // 3], changed[2 * len(changed) // 3]):
        near = sorted((abs(m - target), m) for m in range(8, most + 1, 8) if m not in changed and m not in out)
        if near:
            out.append(near[0][1])
    return out


def capture_both(model, table, sizes, options):
    """Prompts by (length, way), and the table's saving at each length."""
    import gemmaudit.torch

    both = {(m, PLAIN): p for m, p in check_prompt.capture(model, sizes, options.device).items()}
    gemmaudit.torch.patch(model, table, options.kernel)
    both.update({(m, PATCHED): p for m, p in check_prompt.capture(model, sizes, options.device).items()})
    for m in sizes:
        for way in (PLAIN, PATCHED):
            both[m, PATCHED].tokens.copy_(both[m, PLAIN].tokens)
            both[m, way].launch()
        plain, patched = (both[m, way].logits.float().clone() for way in (PLAIN, PATCHED))
        error = float((patched - plain).norm() / plain.norm())
        if not error <= check_prompt.LARGEST_ERROR:
            raise SystemExit(f"{m} tokens: the patched model computes other logits, with a difference of {error:.3g} of their norm")
    return both


def time_both(both, sizes, options):
    """Rounds of seconds by (length, way). Both ways of a length run one after the other."""
    shuffled = random.Random(options.seed)
    clock = check_prompt.Clock() if options.device.startswith("cuda") else None
    rounds = []
    check_prompt.one_round(both, sorted(both), options.device, clock)  # warm-up
    began = time.perf_counter()
    while len(rounds) < check_prompt.LEAST_ROUNDS or time.perf_counter() - began < options.seconds:
        order = []
        for m in shuffled.sample(sizes, len(sizes)):
            order += [(m, way) for way in shuffled.sample((PLAIN, PATCHED), 2)]
        rounds.append({key: sample[0] for key, sample in check_prompt.one_round(both, order, options.device, clock).items()})
    return rounds


def write(path, rounds):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["round", "m", "way", "seconds"])
        for r, samples in enumerate(rounds):
            for m, way in sorted(samples):
                out.writerow([r, m, way, f"{samples[m, way]:.9f}"])


def compare(rounds, sizes, saved):
    """The table of gains; lengths without an entry save 0."""
    table = check_prompt.Table()
    gains = []
    for m in sizes:
        gain = check_prompt.median_interval([r[m, PLAIN] / r[m, PATCHED] for r in rounds])
        plain = statistics.median(r[m, PLAIN] for r in rounds)
        promise = plain / (plain - saved[m]) if m in saved else 1.0
        name = f"{m} tokens, {1e3 * plain:.2f} ms"
        table.add(name if m in saved else name + ", nothing changed", check_prompt.percent(*gain),
                  f"promised {100 * (promise - 1):+.1f} %; not below {100 * (LEAST - 1):+.1f} %", gain[2] >= LEAST)
        if m in saved:
            gains.append((gain[1], promise))
    if gains:
        table.add("median of the lengths that the table changes", f"{100 * (statistics.median(g for g, _ in gains) - 1):+.2f} %",
                  f"promised {100 * (statistics.median(p for _, p in gains) - 1):+.2f} %")
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, help="JSON table of gemmaudit splits")
    parser.add_argument("--kernel", help="PyTorch's kernel by its name in the table (default cublas on a GPU)")
    parser.add_argument("--out", required=True, help="CSV of every sample")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--config", help="config.json of another model's shape")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--sizes", type=int, default=24, help="largest number of prompt lengths that the table changes")
    parser.add_argument("--most", type=int, default=4096, help="longest prompt")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import torch

    import gemmaudit
    import gemmaudit.torch

    if options.device.startswith("cuda"):
        torch.cuda.set_device(options.device)
    began = time.perf_counter()
    table = gemmaudit.read(options.table)
    with torch.inference_mode():
        model = check_prompt.build(check_prompt.model_fields(options.config), options.device)
        patched = gemmaudit.torch.patch(model, table, options.kernel)
        print(f"{len(patched.layers)} layers follow the table, {patched.applied} of its intervals apply, {patched.passed_over} do not", file=sys.stderr)
        saved = {m: gemmaudit.torch.saving(model, m) for m in gemmaudit.torch.sizes(model, options.most)}
        saved = {m: s for m, s in saved.items() if s > 0}
        gemmaudit.torch.unpatch(model)
        if not saved:
            raise SystemExit("the table changes no layer of the model at any prompt length")
        changed = chosen(saved, options.sizes)
        sizes = sorted(changed + untouched(sorted(saved), options.most))
        built = time.perf_counter()
        both = capture_both(model, table, sizes, options)
        captured = time.perf_counter()
        rounds = time_both(both, sizes, options)
    print(f"{len(sizes)} prompt lengths, {len(rounds)} rounds: model {built - began:.0f} s, capture {captured - built:.0f} s, "
          f"timing {time.perf_counter() - captured:.0f} s", file=sys.stderr)
    write(options.out, rounds)
    result = compare(rounds, sizes, saved)
    result.print()
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main())
