#!/usr/bin/env python3
"""Compares predictions of `gemmaudit advise` for whole prompts with a model in transformers.

    scripts/check_prompt.py sizes
    scripts/check_prompt.py cublas
    scripts/check_prompt.py measure --out prompt.csv --fit fit.csv [--device cuda:0] [--seconds 100]
    scripts/check_prompt.py others  --out others.csv [--seconds 8]
    gemmaudit advise run.db --part others=others.csv --measured fit.csv --out advice
    scripts/check_prompt.py verify  --advice advice/advice.json --out verify.csv [--seconds 20]
    scripts/check_prompt.py compare --advice advice/advice.json --measured prompt.csv --fit fit.csv [--verified verify.csv]

`sizes` prints the prompt lengths for --batch, and `cublas` the path of PyTorch's cuBLAS for --library. `measure` builds a
model with random weights (Mistral-7B's shape, or --config) and captures a CUDA graph per prompt length, with the logits of the
last token. It times the graphs in rounds, in random order, and writes every sample with its clock. --fit gets medians with
95 % intervals of every fourth length and the last. `others` times the same model without its products: attention, norms,
activations. `verify` times the advised and the usual lengths again.

At the power limit, the clock of a prompt depends on the prompts before it, which alone causes 2 % noise. Times are therefore
corrected to the usual clock for their length, with a dependence fitted to the samples. Gains are uncorrected.

`compare` prints the prediction errors at lengths outside the fit, and the gains. It exits with 1 if a figure misses its
target. `sizes` and `compare` need no PyTorch.
"""
import argparse
import csv
import ctypes
import gc
import json
import math
import random
import statistics
import sys
import time

# 143 lengths, denser for short prompts.
STRETCHES = [(16, 448, 8), (464, 1280, 16), (1312, 2400, 32), (2560, 2560, 1)]
SIZES = [m for first, last, step in STRETCHES for m in range(first, last + 1, step)]
USUAL_CHUNKS = [512, 1024, 2048]
EVERY = 4  # one of this many lengths is used for the fit
BEATEN = 1.02  # a larger length that is faster by this beats a smaller one
# Largest relative difference of bf16 logits, in the norm.
LARGEST_ERROR = 0.05
OTHERS_LAYERS = 8  # of the model without products, at most; their time is scaled to all layers
LEAST_ROUNDS = 6  # the fewest with a 95 % interval of the median
NEIGHBOURS = 7  # lengths to either side with about the same clock

# config.json of Mistral-7B v0.3.
MISTRAL = dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
               head_dim=128, vocab_size=32768, max_position_embeddings=32768, rope_theta=1e6, sliding_window=None)


# Arithmetic without a device.


def percentile(values, share):
    """The quantile of a share, interpolated linearly."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def median_interval(values):
    """Low, median, high: order statistics that contain the median with 95 % or more."""
    ordered = sorted(values)
    n = len(ordered)
    below, tail = 0, 0.5 ** n  # probability that at most `below` values lie below the median
    while below + 1 < n / 2 and tail + math.comb(n, below + 1) * 0.5 ** n <= 0.025:
        below += 1
        tail += math.comb(n, below) * 0.5 ** n
    if tail > 0.025:
        return -math.inf, statistics.median(ordered), math.inf
    return ordered[below], statistics.median(ordered), ordered[n - 1 - below]


def at_usual_clock(rounds):
    """Seconds at the usual clock of each length, from rounds of {m: (seconds, mhz)}; unchanged without clocks."""
    ms = sorted(rounds[0])
    if not all(r[m][1] for r in rounds for m in ms):
        return [{m: r[m][0] for m in ms} for r in rounds]
    times = [[math.log(r[m][0]) for r in rounds] for m in ms]
    clocks = [[math.log(r[m][1]) for r in rounds] for m in ms]
    usual = [statistics.fmean(c) for c in clocks]
    together, alone = [], []  # sums of products of deviations from a length's means
    for t, c, middle in zip(times, clocks, usual):
        mean = statistics.fmean(t)
        together.append(sum((x - mean) * (y - middle) for x, y in zip(t, c)))
        alone.append(sum((y - middle) ** 2 for y in c))
    out = [{} for _ in rounds]
    for i, m in enumerate(ms):
        near = slice(max(0, i - NEIGHBOURS), i + NEIGHBOURS + 1)
        # -1 if compute-bound, 0 if memory or the host is the limit.
        slope = min(0.0, max(-1.0, sum(together[near]) / sum(alone[near]))) if sum(alone[near]) > 0 else 0.0
        clock = statistics.fmean(usual[near])
        for r, t, c in zip(out, times[i], clocks[i]):
            r[m] = math.exp(t + slope * (clock - c))
    return out


def isotonic(values):
    """The isotonic least-squares fit."""
    blocks = []  # mean, count
    for v in values:
        blocks.append([v, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            mean, count = blocks.pop()
            blocks[-1] = [(blocks[-1][0] * blocks[-1][1] + mean * count) / (blocks[-1][1] + count), blocks[-1][1] + count]
    return [mean for mean, count in blocks for _ in range(count)]


def correlation(a, b):
    """Pearson's correlation; 0 if either is constant."""
    ma, mb = statistics.fmean(a), statistics.fmean(b)
    sa = math.sqrt(sum((x - ma) ** 2 for x in a))
    sb = math.sqrt(sum((y - mb) ** 2 for y in b))
    return sum((x - ma) * (y - mb) for x, y in zip(a, b)) / (sa * sb) if sa > 0 and sb > 0 else 0.0


def jagged(seconds):
    """Residuals of log-times after an isotonic fit."""
    logs = [math.log(t) for t in seconds]
    return [x - y for x, y in zip(logs, isotonic(logs))]


def beaten(times):
    """The lengths that are slower than a larger one."""
    ms = sorted(times)
    out, least = [], math.inf
    for m in reversed(ms):
        if times[m] > BEATEN * least:
            out.append(m)
        least = min(least, times[m])
    return sorted(out)


def padded(sizes, known, first, last):
    """Weight of each size if batches from first to last, flat in log m, run at the next size. The second value is the
    weight of batches without a known next size."""
    weights, served = {}, set()
    sizes = sorted(sizes)
    at = 0
    for m in range(first, last + 1):
        while at < len(sizes) and sizes[at] < m:
            at += 1
        if at == len(sizes):
            break
        if sizes[at] in known:
            weights.setdefault(sizes[at], []).append(m)
            served.add(m)
    return weights, served


def expected(lists, times, batches):
    """Mean time of the batches with weight 1/m each."""
    total = weight = 0.0
    for size, ms in lists.items():
        for m in ms:
            if m in batches:
                total += times[size] / m
                weight += 1 / m
    return total / weight


# Files.


def read_samples(path):
    """Rounds of samples: a list of {m: (seconds, mhz)}; mhz is None if unknown."""
    rounds = {}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            mhz = row.get("mhz")
            rounds.setdefault(int(row["round"]), {})[int(row["m"])] = float(row["seconds"]), float(mhz) if mhz else None
    return [rounds[r] for r in sorted(rounds)]


def seconds_of(rounds):
    """Uncorrected seconds."""
    return [{m: sample[0] for m, sample in r.items()} for r in rounds]


def write_samples(path, rounds):
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["round", "m", "seconds", "mhz"])
        for r, samples in enumerate(rounds):
            for m in sorted(samples):
                seconds, mhz = samples[m]
                out.writerow([r, m, f"{seconds:.9f}", f"{mhz:.1f}" if mhz else ""])


def write_medians(path, rounds, sizes, count=None):
    """Medians with intervals for gemmaudit advise; count is how often a pass runs the timed part."""
    with open(path, "w", newline="") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(["m", "seconds", "low", "high"] + (["count"] if count else []))
        for m in sizes:
            low, middle, high = median_interval([r[m] for r in rounds])  # seconds
            out.writerow([m, f"{middle:.9f}"] + ([f"{low:.9f}", f"{high:.9f}"] if math.isfinite(low) else ["", ""]) + ([count] if count else []))


def read_sizes(path):
    with open(path, newline="") as f:
        return [int(row["m"]) for row in csv.DictReader(f)]


def fitted_sizes(sizes):
    """Every fourth size and the last."""
    return sorted(set(sizes[::EVERY]) | {sizes[-1]})


# Measuring.


def model_fields(config):
    """Arguments of MistralConfig for Mistral-7B or a config.json."""
    fields = dict(MISTRAL)
    if config:
        with open(config) as f:
            told = json.load(f)
        fields.update({name: told[name] for name in fields if name in told})
        if "rope_theta" not in told:
            fields.pop("rope_theta")
    return fields


def build(fields, device):
    import torch
    import transformers
    from transformers import MistralConfig, MistralForCausalLM

    # During capture transformers can't check for packed prompts and would build an explicit mask. Outside of it, attention
    # is causal without a mask.
    masks = getattr(transformers, "masking_utils", None)
    if hasattr(masks, "find_packed_sequence_indices"):
        masks.find_packed_sequence_indices = lambda *_: None
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = MistralForCausalLM(MistralConfig(**fields, attn_implementation="sdpa", use_cache=False))
    torch.set_default_dtype(torch.float32)
    return model.eval().requires_grad_(False)


def without_products(model, rows, device):
    """Makes the model's linear layers return existing numbers, for up to so many rows."""
    import torch

    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    numbers = torch.randn(rows * max(layer.out_features for layer in layers), device=device, dtype=torch.bfloat16)

    def stand_in(layer):
        def forward(x):
            shape = x.shape[:-1] + (layer.out_features,)
            return numbers[: math.prod(shape)].view(shape)

        return forward

    for layer in layers:
        layer.forward = stand_in(layer)


def logits(model, tokens):
    """The logits of the last token."""
    return model(input_ids=tokens, use_cache=False, logits_to_keep=1).logits


class Prompt:
    """A prompt of m tokens, ready to run."""

    def __init__(self, model, m, device, pool):
        import torch

        vocabulary = model.config.vocab_size
        self.tokens = torch.randint(vocabulary, (1, m), device=device)
        self.run = lambda: logits(model, self.tokens)
        self.graph = None
        if device.startswith("cuda"):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, pool=pool):
                self.logits = self.run()

    def launch(self):
        if self.graph is None:
            self.logits = self.run()
        else:
            self.graph.replay()


def capture(model, sizes, device):
    """Graphs of all sizes, which share memory because they never run at the same time. The largest is captured first."""
    import torch

    prompts = {}
    pool = None
    if device.startswith("cuda"):
        pool = torch.cuda.graph_pool_handle()
        # Libraries select and allocate before the capture, on its stream.
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for m in sizes:
                logits(model, torch.zeros((1, m), dtype=torch.long, device=device))
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    gc.freeze()  # each capture collects garbage; skip the model's objects
    for m in sorted(sizes, reverse=True):
        prompts[m] = Prompt(model, m, device, pool)
    return prompts


STAMP = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry stamp(.param .u64 to)
{
    .reg .b32 %r<2>;
    .reg .b64 %d<5>;
    ld.param.u64 %d1, [to];
    cvta.to.global.u64 %d1, %d1;
    mov.u64 %d2, %clock64;
    mov.u64 %d3, %globaltimer;
    mov.u32 %r1, %smid;
    cvt.u64.u32 %d4, %r1;
    st.global.u64 [%d1], %d2;
    st.global.u64 [%d1+8], %d3;
    st.global.u64 [%d1+16], %d4;
    ret;
}
"""


class Clock:
    """Reads the cycles of a multiprocessor and the card's nanoseconds between launches."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        module, self.stamp = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), STAMP)
        self.call("cuModuleGetFunction", ctypes.byref(self.stamp), module, b"stamp")

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code != 0:
            raise SystemExit(f"{name}: CUDA error {code}")

    def read(self, into):
        """Queues a reading of three 64-bit numbers: cycles, nanoseconds, multiprocessor."""
        import torch

        to = ctypes.c_uint64(into.data_ptr())
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(to))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call("cuLaunchKernel", self.stamp, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None)

    @staticmethod
    def mhz(first, last):
        """The clock between two readings, or None if they are from different multiprocessors."""
        return 1e3 * (last[0] - first[0]) / (last[1] - first[1]) if first[2] == last[2] and last[1] > first[1] else None


def one_round(prompts, order, device, clock):
    """Seconds and MHz by size, in the given order. The whole round is queued, so no prompt waits for the host."""
    if not device.startswith("cuda"):
        out = {}
        for m in order:
            began = time.perf_counter()
            prompts[m].launch()
            out[m] = time.perf_counter() - began, None
        return out
    import torch

    events = {}
    readings = torch.zeros((len(order), 2, 3), dtype=torch.int64, device=device)
    for m, reading in zip(order, readings):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        clock.read(reading[0])
        first.record()
        prompts[m].launch()
        last.record()
        clock.read(reading[1])
        events[m] = first, last
    torch.cuda.synchronize()
    mhz = [Clock.mhz(*reading) for reading in readings.tolist()]
    return {m: (first.elapsed_time(last) / 1e3, f) for (m, (first, last)), f in zip(events.items(), mhz)}


def time_sizes(sizes, options, fields=None, prepare=None):
    """Rounds over all sizes for some seconds, at least LEAST_ROUNDS, of the model with other fields and after prepare."""
    import torch

    if options.device.startswith("cuda"):
        torch.cuda.set_device(options.device)
    began = time.perf_counter()
    with torch.inference_mode():
        model = build(fields or model_fields(options.config), options.device)
        if prepare:
            prepare(model)
        built = time.perf_counter()
        prompts = capture(model, sizes, options.device)
        captured = time.perf_counter()
        shuffled = random.Random(options.seed)
        rounds = []
        clock = Clock() if options.device.startswith("cuda") else None
        one_round(prompts, sorted(sizes), options.device, clock)  # warm-up
        while len(rounds) < LEAST_ROUNDS or time.perf_counter() - captured < options.seconds:
            order = list(sizes)
            shuffled.shuffle(order)
            rounds.append(one_round(prompts, order, options.device, clock))
        for m in (min(sizes), max(sizes)):
            prompts[m].launch()
            found, expected = prompts[m].logits.float().clone(), prompts[m].run().float()
            error = float((found - expected).norm() / expected.norm())
            if not error <= LARGEST_ERROR:
                raise SystemExit(f"the graph of {m} tokens computes other logits than the model, with a difference of {error:.3g} of their norm")
    print(f"{len(sizes)} prompt lengths, {len(rounds)} rounds: model {built - began:.0f} s, capture {captured - built:.0f} s, "
          f"timing {time.perf_counter() - captured:.0f} s", file=sys.stderr)
    return rounds


def measure(options):
    sizes = options.sizes or SIZES
    rounds = time_sizes(sizes, options)
    write_samples(options.out, rounds)
    write_medians(options.fit, at_usual_clock(rounds), fitted_sizes(sizes))
    return 0


def others(options):
    sizes = options.sizes or SIZES
    fields = model_fields(options.config)
    layers = max(n for n in range(1, OTHERS_LAYERS + 1) if fields["num_hidden_layers"] % n == 0)
    count = fields["num_hidden_layers"] // layers
    fields["num_hidden_layers"] = layers
    rounds = time_sizes(sizes, options, fields, lambda model: without_products(model, max(sizes), options.device))
    write_medians(options.out, at_usual_clock(rounds), sizes, count)
    return 0


def verify(options):
    with open(options.advice) as f:
        advice = json.load(f)
    write_samples(options.out, time_sizes(sorted(verified_sizes(advice)), options))
    return 0


def verified_sizes(advice):
    """Advised and usual sizes that were measured."""
    known = {p["m"] for p in advice["passes"]}
    powers = {2 ** k for k in range(32)}
    sizes = set(advice["capture"]["captured"]) | (powers & known) | (set(USUAL_CHUNKS) & known)
    sizes |= {u["best_m_up_to"] for u in advice["chunk"]["usual"] if u.get("best_m_up_to")}
    if advice["chunk"]["m"]:
        sizes.add(advice["chunk"]["m"])
    return sizes


# Comparing.


class Table:
    """Lines with a figure, its value, its target and whether it is met."""

    def __init__(self):
        self.lines, self.failed = [], 0

    def add(self, name, found, asked="", met=None):
        self.lines.append((name, found, asked, "" if met is None else "yes" if met else "NO"))
        self.failed += met is False

    def print(self):
        rows = [("figure", "found", "asked", "met")] + self.lines
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def compare_passes(advice, rounds, fitted, table):
    measured = {m: statistics.median(r[m] for r in rounds) for m in rounds[0]}
    predicted = {p["m"]: p["seconds"]["mid"] for p in advice["passes"]}
    bounds = {p["m"]: (p["seconds"]["lo"], p["seconds"]["hi"]) for p in advice["passes"]}
    ms = sorted(set(measured) & set(predicted))
    if len(ms) < 8:
        raise SystemExit(f"{len(ms)} lengths are both measured and predicted, expected at least 8")
    test = [m for m in ms if m not in fitted]
    errors = [abs(predicted[m] / measured[m] - 1) for m in test]
    table.add("lengths foretold, not fitted to", f"{len(test)} of {len(ms)}")
    for name, share, most in (("median", 0.5, 0.008), ("95th percentile", 0.95, 0.025)):
        value = percentile(errors, share)
        table.add(f"error of a time, {name}", f"{100 * value:.2f} %", f"<= {100 * most:.1f} %", value <= most)
    inside = sum(bounds[m][0] <= measured[m] <= bounds[m][1] for m in test)
    table.add("measured times inside the interval", f"{100 * inside / len(test):.0f} %")
    value = correlation(jagged([predicted[m] for m in ms]), jagged([measured[m] for m in ms]))
    table.add("correlation without an isotonic fit", f"{value:.3f}", ">= 0.9", value >= 0.9)
    steps = [abs(predicted[b] / predicted[a] - measured[b] / measured[a]) for a, b in zip(ms, ms[1:])]
    for name, share, most in (("median", 0.5, 0.01), ("95th percentile", 0.95, 0.03)):
        value = percentile(steps, share)
        table.add(f"error of t(next) / t, {name}", f"{100 * value:.2f} points", f"<= {100 * most:.0f}", value <= most)
    slow = beaten({m: measured[m] for m in ms})
    named = [s["m"] for s in advice["never_run"]]
    missed = [m for m in slow if m not in named]
    others = [m for m in named if m not in slow]
    table.add("lengths that a larger one beats by over 2 %", ", ".join(map(str, slow)) or "none")
    table.add("of these missed", ", ".join(map(str, missed)) or "none", "at most 1", len(missed) <= 1)
    table.add("others named", ", ".join(map(str, others)) or "none", "at most 2", len(others) <= 2)


def percent(low, middle, high):
    return f"{100 * (middle - 1):+.1f} % [{100 * (low - 1):+.1f}, {100 * (high - 1):+.1f}]"


def foretold(gain):
    return f"foretold {percent(gain['lo'], gain['mid'], gain['hi'])}"


def compare_gains(advice, rounds, table):
    chunk = advice["chunk"]["m"]
    known = set(rounds[0])
    gains = {}
    for u in advice["chunk"]["usual"]:
        m = u["m"]
        if chunk in known and m in known:
            gains[m] = median_interval([(chunk / r[chunk]) / (m / r[m]) for r in rounds])
            table.add(f"chunk of {chunk} against {m}", percent(*gains[m]), foretold(u["gain"]))
        best = u.get("best_m_up_to")
        if best and best in known and m in known:
            value = median_interval([(best / r[best]) / (m / r[m]) for r in rounds])
            table.add(f"best chunk up to {m}: {best}", percent(*value), foretold(u["best_gain"]))
    if gains:
        worst = max(gains, key=lambda m: gains[m][1])
        low, middle, _ = gains[worst]
        table.add(f"chunk of {chunk} against the worst usual one, {worst}", percent(*gains[worst]), ">= 4 %, lower bound > 2 %", middle >= 1.04 and low > 1.02)
    captured = advice["capture"]["captured"]
    ms = sorted(p["m"] for p in advice["passes"])
    powers = [2 ** k for k in range(32) if 2 ** k <= ms[-1]]
    own, served = padded(captured, known, ms[0], ms[-1])
    usual, usually = padded(powers, known, ms[0], ms[-1])
    both = served & usually
    if both:
        value = median_interval([expected(usual, r, both) / expected(own, r, both) for r in rounds])
        told = next(a for a in advice["capture"]["against"] if a["name"] == "powers of two")
        table.add(f"{len(captured)} sizes against powers of two, batches {min(both)} to {max(both)}", percent(*value), foretold(told["gain"]))


def compare(options):
    with open(options.advice) as f:
        advice = json.load(f)
    table = Table()
    compare_passes(advice, at_usual_clock(read_samples(options.measured)), set(read_sizes(options.fit)), table)
    if options.verified:
        compare_gains(advice, seconds_of(read_samples(options.verified)), table)
    table.print()
    return 1 if table.failed else 0


def cublas(options):
    """Prints the path of PyTorch's cuBLAS, for a sweep with the same library."""
    import torch

    square = torch.ones((16, 16), device=options.device, dtype=torch.bfloat16)
    torch.mm(square, square)
    with open("/proc/self/maps") as f:
        paths = {line.split()[-1] for line in f if "/libcublas.so" in line}
    if not paths:
        raise SystemExit("PyTorch has loaded no libcublas")
    print(min(paths))
    return 0


def sizes(_):
    print(",".join(f"{a}:{b}:{step}" if b > a else str(a) for a, b, step in STRETCHES))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = argparse.ArgumentParser(add_help=False)
    run.add_argument("--device", default="cuda:0")
    run.add_argument("--config", help="config.json of another model's shape")
    run.add_argument("--seed", type=int, default=1)
    run.add_argument("--out", required=True, help="CSV of every sample; of others, of medians")
    one = commands.add_parser("sizes", help="print the prompt lengths")
    one.set_defaults(do=sizes)
    one = commands.add_parser("cublas", help="print the path of PyTorch's cuBLAS")
    one.add_argument("--device", default="cuda:0")
    one.set_defaults(do=cublas)
    one = commands.add_parser("measure", parents=[run], help="time prompts of all lengths")
    one.add_argument("--seconds", type=float, default=100)
    one.add_argument("--fit", required=True, help="CSV of medians of every fourth length")
    one.add_argument("--sizes", type=lambda s: sorted({int(m) for m in s.split(",")}), help="other prompt lengths")
    one.set_defaults(do=measure)
    one = commands.add_parser("others", parents=[run], help="time all but the products")
    one.add_argument("--seconds", type=float, default=8)
    one.add_argument("--sizes", type=lambda s: sorted({int(m) for m in s.split(",")}), help="other prompt lengths")
    one.set_defaults(do=others)
    one = commands.add_parser("verify", parents=[run], help="time the advised and the usual lengths in turns")
    one.add_argument("--seconds", type=float, default=20)
    one.add_argument("--advice", required=True)
    one.set_defaults(do=verify)
    one = commands.add_parser("compare", help="compare predictions with measurements")
    one.add_argument("--advice", required=True)
    one.add_argument("--measured", required=True)
    one.add_argument("--fit", required=True)
    one.add_argument("--verified")
    one.set_defaults(do=compare)
    options = parser.parse_args()
    return options.do(options)


if __name__ == "__main__":
    sys.exit(main())
