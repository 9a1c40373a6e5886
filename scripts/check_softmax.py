#!/usr/bin/env python3
"""Our softmax beside PyTorch's, in one process and in turns.

    scripts/check_softmax.py [--program tests/cuda/softmax.test] [--sizes 200] [--elements 33554432] [--rows 0]
                             [--dtypes float32,float16,bfloat16] [--kernel auto] [--article]

For as many counts of columns from 1 to 65536, in equal ratios, and as many rows as make the
elements (or --rows of them), launches of torch.softmax and of ours are captured in graphs of a
millisecond, which run in turns. A line has both times, PyTorch's over ours with an interval of more than
95 % for the median, and what ours ran. The last lines count intervals that lie below 0.99. --article takes
the sizes of a table that is often quoted instead: 32 · 64 heads, sequences of 16 to 512, with
FasterTransformer's kernels as a third.

The program is the test program of kernels/cuda/softmax: it plans the launches and writes the machine code,
which is launched here through the driver. Outputs are compared with PyTorch's.
"""
import argparse
import base64
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
GRAPH_SECONDS = 1e-3
LEAST_RATIO = 0.99

cuda = ctypes.CDLL("libcuda.so.1")


def check(code, what):
    if code != 0:
        raise RuntimeError(f"{what}: CUDA error {code}")


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: an identifier and a value of 64 bytes."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


CLUSTER_DIMENSION, COOPERATIVE = 4, 2  # of launches
NON_PORTABLE_CLUSTER, DYNAMIC_SHARED = 14, 8  # of functions
PLAIN_SHARED = 48 << 10  # bytes that a launch may have without asking, static ones included


class Kernels:
    """Functions of the machine code that the program wrote."""

    def __init__(self, told):
        self.told, self.modules, self.functions = told, {}, {}

    def function(self, source, symbol):
        if symbol not in self.functions:
            if source not in self.modules:
                module = ctypes.c_void_p()
                image = pathlib.Path(f"{self.told}.{source}").read_bytes()
                check(cuda.cuModuleLoadData(ctypes.byref(module), image), f"load {source}")
                self.modules[source] = module
            function = ctypes.c_void_p()
            check(cuda.cuModuleGetFunction(ctypes.byref(function), self.modules[source], symbol.encode()), f"find {symbol}")
            self.functions[symbol] = function
        return self.functions[symbol]

    def launcher(self, call, x, y):
        """A function that puts the call on the current stream."""
        args = bytearray(base64.b64decode(call["args"]))
        flags = torch.zeros(max(call["flags"], 8), dtype=torch.uint8, device="cuda")
        for at, tensor in enumerate((x, y, flags)):
            args[8 * at:8 * at + 8] = tensor.data_ptr().to_bytes(8, "little")
        buffer = (ctypes.c_char * len(args)).from_buffer(args)
        params = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
        attributes = (Attribute * 2)()
        config = Config((call["grid"], 1, 1), (call["block"], 1, 1), call["shared"], None, attributes, 0)
        if call["cluster"]:
            attributes[0].id = CLUSTER_DIMENSION
            attributes[0].value[0:3] = [call["cluster"], 1, 1]
            config.count = 1
        elif call["cooperative"]:
            attributes[0].id = COOPERATIVE
            attributes[0].value[0] = 1
            config.count = 1
        function = self.function(call["source"], call["symbol"])
        if call["cluster"] > 8:
            check(cuda.cuFuncSetAttribute(function, NON_PORTABLE_CLUSTER, 1), f"let {call['symbol']} have wide clusters")
        if call["shared"] > PLAIN_SHARED - 4096:
            check(cuda.cuFuncSetAttribute(function, DYNAMIC_SHARED, call["shared"]), f"let {call['symbol']} have {call['shared']} bytes")
        keep = (flags, args, buffer)

        def launch():
            config.stream = torch.cuda.current_stream().cuda_stream
            check(cuda.cuLaunchKernelEx(ctypes.byref(config), function, params, None), f"launch {call['symbol']}")

        launch.keep = keep
        return launch


def seconds(run, repeats):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / repeats


def graph_of(run):
    """A graph of as many runs as take a millisecond, and how many they are."""
    run()
    torch.cuda.synchronize()
    count = max(1, min(200, int(GRAPH_SECONDS / max(seconds(run, 5), 1e-6))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            run()
    graph.replay()
    return graph, count


def interval(ratios):
    """Median and an interval of more than 95 % for it, by order statistics of at least 15 samples."""
    s, n = sorted(ratios), len(ratios)
    below = int(n / 2 - 0.98 * n ** 0.5)
    return statistics.median(s), s[max(0, below - 1)], s[min(n - 1, n - max(1, below))]


def columns_of(sizes):
    found, n = [], sizes
    while len(found) < sizes:
        found = sorted({round(65536 ** (i / (n - 1))) for i in range(n)})
        n += 1
    return found[:sizes - 1] + [65536]


def ask(program, problems, folder):
    """What the program plans for problems, in their order."""
    asked, told = pathlib.Path(folder) / "asked", pathlib.Path(folder) / "told"
    asked.write_text("".join(json.dumps(p) + "\n" for p in problems))
    done = subprocess.run([str(program.resolve()), "-test.run", "^$", "-test.bench", "^BenchmarkCalls$", "-test.benchtime", "1x"],
                          env={**os.environ, "GEMMAUDIT_SOFTMAX_ASKED": str(asked), "GEMMAUDIT_SOFTMAX_TOLD": str(told)},
                          capture_output=True, text=True)
    lines = told.read_text().splitlines() if told.exists() else []
    if done.returncode != 0 or len(lines) != len(problems):
        sys.exit(f"check_softmax: {program}: {done.stdout}{done.stderr}")
    return told, [json.loads(line) for line in lines]


def compare(y, want, name):
    """Ends the program where outputs differ by more than roundings do."""
    tolerance, least = {torch.float32: (2e-5, 1e-9), torch.float16: (2e-3, 1.3e-7), torch.bfloat16: (1.6e-2, 1e-9)}[y.dtype]
    y, want = y.float(), want.float()
    wrong = (y - want).abs() > tolerance * want.abs() + least
    if wrong.any().item() or y.isnan().any().item():
        sys.exit(f"check_softmax: {name}: {wrong.sum().item()} elements differ from PyTorch's")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=HERE / "tests/cuda/softmax.test")
    parser.add_argument("--sizes", type=int, default=200)
    parser.add_argument("--elements", type=int, default=1 << 25)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--article", action="store_true")
    args = parser.parse_args()

    problems = []
    for dtype in ["float32"] if args.article else args.dtypes.split(","):
        if args.article:
            sizes = [(32 * 64 * n, n) for n in (16, 32, 64, 128, 256, 512)]
        else:
            sizes = [(args.rows or max(1, args.elements // c), c) for c in columns_of(args.sizes)]
        for rows, columns in sizes:
            for kernel in ([args.kernel, "fastertransformer"] if args.article else [args.kernel]):
                problems.append({"rows": rows, "columns": columns, "dtype": NAMES[dtype], "kernel": kernel, "torch": dtype})
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        told, calls = ask(args.program, [{k: v for k, v in p.items() if k != "torch"} for p in problems], folder)
        kernels, slower, ratios = Kernels(told), [], []
        for p, call in zip(problems, calls):
            x = torch.randn(p["rows"], p["columns"], device="cuda", dtype=getattr(torch, p["torch"]))
            y, z = torch.empty_like(x), torch.empty_like(x)
            name = f"{p['dtype']} c{p['columns']} m{p['rows']}"
            ours, theirs = kernels.launcher(call, x, y), lambda: torch.softmax(x, -1, out=z)
            graphs = [graph_of(ours), graph_of(theirs)]
            compare(y, z, f"{name}, {call['label']}")
            samples = ([], [])
            for _ in range(args.rounds):
                for i in random.sample((0, 1), 2):
                    samples[i].append(seconds(graphs[i][0].replay, 1) / graphs[i][1])
            mid, low, high = interval([b / a for a, b in zip(*samples)])
            mine = statistics.median(samples[0])
            rate = 2 * x.numel() * x.element_size() / mine / 1e12
            print(f"{name:24} PyTorch {statistics.median(samples[1]) * 1e6:9.2f} us, ours {mine * 1e6:9.2f} us {rate:5.2f} TB/s,"
                  f" ratio {mid:.3f} [{low:.3f}, {high:.3f}]  {call['label']}", flush=True)
            if p["kernel"] == args.kernel:
                ratios.append(mid)
                if high < LEAST_RATIO:
                    slower.append((mid, name, call["label"]))
    print(f"{len(ratios)} sizes: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}, "
          f"{sum(r < LEAST_RATIO for r in ratios)} medians and {len(slower)} intervals below {LEAST_RATIO}")
    for mid, name, label in sorted(slower)[:20]:
        print(f"  slower: {name} {mid:.3f} {label}")


if __name__ == "__main__":
    main()
