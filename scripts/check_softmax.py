#!/usr/bin/env python3
"""Compares our softmax with PyTorch's, interleaved in one process.

    scripts/check_softmax.py [--program tests/cuda/softmax.test] [--sizes 200] [--elements 33554432] [--rows 0]
                             [--dtypes float32,float16,bfloat16] [--kernel auto] [--serial]
    scripts/check_softmax.py --article [--original FILE.cu]

The column counts range from 1 to 65536 in equal ratios, with rows to give --elements, or --rows. Launches are captured in
graphs of a millisecond. A line has both times, their ratio with an interval of over 95 % for the median, and the
kernel that ran. The last lines count intervals below 0.99.

--article uses the sizes of FasterTransformer's table: 32 * 64 heads, sequences of 16 to 512. It adds a plain copy and our
kernel fastertransformer. --original adds FasterTransformer's own kernels, in place, and the last line says whether ours is
within 5 % of them. FILE is CUDA C++ for nvcc, or a .cubin, with softmax_kernel<float> and softmax_kernel_v2<float>. Make it
from fastertransformer/cuda/open_attention.cu of NVIDIA/FasterTransformer, tag release/v1.0_tag: FINAL_MASK, the warp and
block reductions and both kernels, with cuda_runtime.h and cuda_fp16.h included and both kernels instantiated for float.
Leave out attr_mask, as in the published table. A file that keeps it gets a mask that hides no element.

--program is the test program of kernels/cuda/softmax. It plans the launches and writes machine code, which this script
launches as gemmaudit does: a launch may start while the previous one finishes. --serial, and fastertransformer next to the
original, launch without overlap. Outputs are compared with PyTorch's.
"""
import argparse
import base64
import ctypes
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
NAMES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
GRAPH_SECONDS = 1e-3
LEAST_RATIO = 0.99
ARTICLE_SEQUENCES, ARTICLE_LENGTHS = 32 * 64, (16, 32, 64, 128, 256, 512)
BASELINE_BOUND = 0.05  # maximum difference of our baseline from the original

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


CLUSTER_DIMENSION, COOPERATIVE, OVERLAP = 4, 2, 6  # of launches
NON_PORTABLE_CLUSTER, DYNAMIC_SHARED = 14, 8  # of functions
PLAIN_SHARED = 48 << 10  # bytes that a launch may use by default, including static ones


class Kernels:
    """Functions in the machine code of the test program."""

    def __init__(self, told, serial):
        self.told, self.serial, self.modules, self.functions = told, serial, {}, {}

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
        """A function that launches the call on the current stream."""
        args = bytearray(base64.b64decode(call["args"]))
        flags = torch.zeros(max(call["flags"], 8), dtype=torch.uint8, device="cuda")
        for at, tensor in enumerate((x, y, flags)):
            args[8 * at:8 * at + 8] = tensor.data_ptr().to_bytes(8, "little")
        buffer = (ctypes.c_char * len(args)).from_buffer(args)
        params = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
        attributes = (Attribute * 3)()
        config = Config((call["grid"], 1, 1), (call["block"], 1, 1), call["shared"], None, attributes, 0)
        if call["cluster"]:
            attributes[0].id = CLUSTER_DIMENSION
            attributes[0].value[0:3] = [call["cluster"], 1, 1]
            config.count = 1
        if call["overlap"] and not self.serial:
            attributes[config.count].id = OVERLAP
            attributes[config.count].value[0] = 1
            config.count += 1
        elif call["cooperative"]:
            attributes[config.count].id = COOPERATIVE
            attributes[config.count].value[0] = 1
            config.count += 1
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


class Original:
    """FasterTransformer's kernels, from --original."""

    FEW = 120  # sequences up to which it runs softmax_kernel_v2, a block for each row

    def __init__(self, file, folder):
        if file.suffix == ".cu":
            image, arch = pathlib.Path(folder) / "original.cubin", "sm_%d%d" % torch.cuda.get_device_capability()
            done = subprocess.run(["nvcc", "-cubin", f"-arch={arch}", "-o", str(image), str(file)], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"check_softmax: nvcc can't compile {file}: {done.stdout}{done.stderr}")
            file = image
        self.image = file.read_bytes()
        self.module = ctypes.c_void_p()
        check(cuda.cuModuleLoadData(ctypes.byref(self.module), self.image), f"load {file}")
        self.many, self.few = (self.find(name, file) for name in ("softmax_kernel", "softmax_kernel_v2"))

    def find(self, name, file):
        """The float kernel of a name, and whether it takes a mask."""
        symbols = set(re.findall(rb"_Z(?!Z)\w*?%d%sIfEv\w+" % (len(name), name.encode()), self.image))
        if len(symbols) != 1:
            sys.exit(f"check_softmax: {file} has {len(symbols)} functions {name}<float>, expected 1: is it instantiated?")
        symbol, function = symbols.pop(), ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), self.module, symbol), f"find {name}")
        return function, b"PKS" in symbol

    def launcher(self, x, length):
        """A function that launches the softmax of x, in place, on the current stream."""
        sequences = x.shape[0] // length
        threads = next((t for t in (32, 64, 128, 256, 512) if length <= t), 1024)
        few = sequences <= self.FEW
        function, masked = self.few if few else self.many
        # A mask per batch, for up to 32 batches, that hides no element.
        batches = min(32, sequences)
        mask = torch.ones(batches * length * length if masked else 0, device="cuda")
        values = [ctypes.c_void_p(x.data_ptr())] + ([ctypes.c_void_p(mask.data_ptr())] if masked else [])
        values += [ctypes.c_int(batches), ctypes.c_int(sequences // batches), ctypes.c_int(length), ctypes.c_float(1)]
        params = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        blocks = x.shape[0] if few else sequences

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            check(cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, None), "launch the original")

        launch.keep = (values, mask)
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
    """A graph with a millisecond of runs, and their number."""
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
    """Median with an interval of more than 95 %, from order statistics of at least 15 samples."""
    s, n = sorted(ratios), len(ratios)
    below = int(n / 2 - 0.98 * n ** 0.5)
    return statistics.median(s), s[max(0, below - 1)], s[min(n - 1, n - max(1, below))]


def in_turns(graphs, rounds):
    """Seconds per run of each graph, by rounds in random order."""
    samples = [[] for _ in graphs]
    for _ in range(rounds):
        for i in random.sample(range(len(graphs)), len(graphs)):
            samples[i].append(seconds(graphs[i][0].replay, 1) / graphs[i][1])
    return samples


def over(a, b):
    """Median and interval of a divided by b in the same rounds."""
    return interval([x / y for x, y in zip(a, b)])


def columns_of(sizes):
    found, n = [], sizes
    while len(found) < sizes:
        found = sorted({round(65536 ** (i / (n - 1))) for i in range(n)})
        n += 1
    return found[:sizes - 1] + [65536]


def ask(program, problems, folder):
    """The program's plans for problems, in order."""
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
    """Exits if outputs differ by more than rounding."""
    tolerance, least = {torch.float32: (2e-5, 1e-9), torch.float16: (2e-3, 1.3e-7), torch.bfloat16: (1.6e-2, 1e-9)}[y.dtype]
    y, want = y.float(), want.float()
    wrong = (y - want).abs() > tolerance * want.abs() + least
    if wrong.any().item() or y.isnan().any().item():
        sys.exit(f"check_softmax: {name}: {wrong.sum().item()} elements differ from PyTorch's")


def article(args, folder):
    """The article's table: a line per length, and one for the original."""
    problems = [{"rows": ARTICLE_SEQUENCES * n, "columns": n, "dtype": "fp32", "kernel": kernel}
                for n in ARTICLE_LENGTHS for kernel in (args.kernel, "fastertransformer")]
    told, calls = ask(args.program, problems, folder)
    kernels, original = Kernels(told, args.serial), Original(args.original, folder) if args.original else None
    one_by_one = Kernels(told, True)  # the baseline, as the original is launched
    apart = []
    for n, mine, baseline in zip(ARTICLE_LENGTHS, calls[::2], calls[1::2]):
        x = torch.randn(ARTICLE_SEQUENCES * n, n, device="cuda")
        y, z = torch.empty_like(x), torch.empty_like(x)
        name, want = f"fp32 c{n} m{ARTICLE_SEQUENCES * n}", torch.softmax(x, -1)
        runs = {"ours": kernels.launcher(mine, x, y), "baseline": one_by_one.launcher(baseline, x, z),
                "torch": lambda: torch.softmax(x, -1, out=z), "copy": lambda: z.copy_(x)}
        inputs = []
        if original:
            # In place, the values tend to 1 / n, which takes as long.
            inputs = [x.clone(), x.clone()]
            runs["original"] = original.launcher(inputs[0], n)
            runs["in place"] = one_by_one.launcher(baseline, inputs[1], inputs[1])
        for key, output in {"ours": y, "baseline": z, **dict(zip(("original", "in place"), inputs))}.items():
            runs[key]()
            torch.cuda.synchronize()
            compare(output, want, f"{name}, {key}")
        took = dict(zip(runs, in_turns([graph_of(run) for run in runs.values()], args.rounds)))
        us = {key: statistics.median(times) * 1e6 for key, times in took.items()}

        def ratio(a, b):
            return "%.3f [%.3f, %.3f]" % over(took[a], took[b])

        print(f"{name:20} ours {us['ours']:8.2f} us, {ratio('copy', 'ours')} of a copy's speed; fastertransformer {us['baseline']:8.2f} us, "
              f"ratio {ratio('baseline', 'ours')}; PyTorch {us['torch']:8.2f} us, ratio {ratio('torch', 'ours')}  {mine['label']}", flush=True)
        if original:
            apart.append(over(took["in place"], took["original"]))
            print(f"{'':20} original {us['original']:8.2f} us, ratio to ours {ratio('original', 'ours')}; fastertransformer in place "
                  f"{us['in place']:8.2f} us, {ratio('in place', 'original')} of the original's time", flush=True)
    if original:
        masked = ", which reads a mask" if original.many[1] else ""
        print(f"{sum(abs(mid - 1) <= BASELINE_BOUND for mid, _, _ in apart)} of {len(apart)} medians of fastertransformer within "
              f"{BASELINE_BOUND:.0%} of the original{masked}; intervals reach from {min(low for _, low, _ in apart):.3f} "
              f"to {max(high for _, _, high in apart):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=HERE / "tests/cuda/softmax.test")
    parser.add_argument("--sizes", type=int, default=200)
    parser.add_argument("--elements", type=int, default=1 << 25)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--dtypes", default="float32,float16,bfloat16")
    parser.add_argument("--kernel", default="auto")
    parser.add_argument("--serial", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--article", action="store_true")
    parser.add_argument("--original", type=pathlib.Path)
    args = parser.parse_args()
    if args.original and not args.article:
        parser.error("--original: its kernels are timed at the sizes of --article alone")
    if args.original and not args.original.is_file():
        parser.error(f"--original: {args.original}: no such file")

    torch.cuda.init()
    torch.zeros(1, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        if args.article:
            article(args, folder)
        else:
            beside_torch(args, folder)


def beside_torch(args, folder):
    """A line per type and column count, and the number slower than PyTorch."""
    problems = [{"rows": args.rows or max(1, args.elements // columns), "columns": columns, "dtype": dtype, "kernel": args.kernel}
                for dtype in args.dtypes.split(",") for columns in columns_of(args.sizes)]
    told, calls = ask(args.program, [{**p, "dtype": NAMES[p["dtype"]]} for p in problems], folder)
    kernels, slower, ratios = Kernels(told, args.serial), [], []
    for p, call in zip(problems, calls):
        x = torch.randn(p["rows"], p["columns"], device="cuda", dtype=getattr(torch, p["dtype"]))
        y, z = torch.empty_like(x), torch.empty_like(x)
        name = f"{NAMES[p['dtype']]} c{p['columns']} m{p['rows']}"
        ours, theirs = kernels.launcher(call, x, y), lambda: torch.softmax(x, -1, out=z)
        graphs = [graph_of(ours), graph_of(theirs)]
        compare(y, z, f"{name}, {call['label']}")
        samples = in_turns(graphs, args.rounds)
        mid, low, high = over(samples[1], samples[0])
        mine = statistics.median(samples[0])
        rate = 2 * x.numel() * x.element_size() / mine / 1e12
        print(f"{name:24} PyTorch {statistics.median(samples[1]) * 1e6:9.2f} us, ours {mine * 1e6:9.2f} us {rate:5.2f} TB/s,"
              f" ratio {mid:.3f} [{low:.3f}, {high:.3f}]  {call['label']}", flush=True)
        ratios.append(mid)
        if high < LEAST_RATIO:
            slower.append((mid, name, call["label"]))
    print(f"{len(ratios)} sizes: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}, "
          f"{sum(r < LEAST_RATIO for r in ratios)} medians and {len(slower)} intervals below {LEAST_RATIO}")
    for mid, name, label in sorted(slower)[:20]:
        print(f"  slower: {name} {mid:.3f} {label}")


if __name__ == "__main__":
    main()
