#!/usr/bin/env python3
"""Measures PyTorch's attention, for comparison with ours.

    scripts/check_attention.py [--rows 2048,8192,16384] [--dims 128,64] [--dtypes bfloat16,float16]

Times causal scaled_dot_product_attention with 32 query heads and 8 key heads, batch 1, normal data, with each backend that
supports it. Prints TFLOP/s, with 4 * rows^2 * heads * dim / 2 operations per call. BenchmarkAttention has the same cases; run it
right after on the same card. A figure is the median of rounds that interleave all backends.
"""
import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

HEADS, KV = 32, 8
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def timed(call, repeats):
    """Seconds per call of repeated calls."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def ways(q, k, v):
    """Calls by name: PyTorch's own choice, then each backend, with shared and with copied heads."""
    found = {}
    for shared in (True, False):
        keys, values = (k, v) if shared else (k.repeat_interleave(HEADS // KV, 1), v.repeat_interleave(HEADS // KV, 1))
        name = "shared heads" if shared else "copied heads"

        def plain(keys=keys, values=values, shared=shared):
            return scaled_dot_product_attention(q, keys, values, is_causal=True, enable_gqa=shared)

        found[f"default, {name}"] = plain
        for backend, which in BACKENDS.items():

            def chosen(plain=plain, which=which):
                with sdpa_kernel(which):
                    return plain()

            found[f"{backend}, {name}"] = chosen
    for name, call in list(found.items()):
        try:
            call()
        except RuntimeError:
            del found[name]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="2048,8192,16384")
    parser.add_argument("--dims", default="128,64")
    parser.add_argument("--dtypes", default="bfloat16,float16")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    for dtype in args.dtypes.split(","):
        for dim in map(int, args.dims.split(",")):
            for rows in map(int, args.rows.split(",")):
                q, k, v = (torch.randn(1, h, rows, dim, device="cuda", dtype=getattr(torch, dtype)) for h in (HEADS, KV, KV))
                calls = ways(q, k, v)
                flops = 4 * rows * rows * HEADS * dim / 2
                repeats = max(1, int(4e-3 / max(timed(calls[next(iter(calls))], 3), 1e-6)))
                samples = {name: [] for name in calls}
                for _ in range(args.rounds):
                    for name, call in calls.items():
                        samples[name].append(timed(call, repeats))
                for name, seconds in samples.items():
                    t = statistics.median(seconds)
                    print(f"{dtype} {rows} rows, dim {dim}: {name:24} {t * 1e6:9.2f} us {flops / t / 1e12:7.1f} TFLOP/s")


if __name__ == "__main__":
    main()
