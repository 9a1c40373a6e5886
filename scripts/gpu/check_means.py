"""Prints the means of loop-*.jsonl and sweep-*.csv of a folder."""
import csv, glob, json, math, os, statistics, sys

csv.field_size_limit(1 << 30)
folder = sys.argv[1]
rows = {}  # (way, turn) -> (kernel, m, n, k) -> [(us, mhz)]


def number(path):
    return int(os.path.basename(path).split("-")[1].split(".")[0])


for path in glob.glob(folder + "/loop-*.jsonl"):
    one = rows.setdefault(("loop", number(path)), {})
    with open(path) as f:
        next(f)
        for line in f:
            r = json.loads(line)
            one[r["series"], r["m"], r["n"], r["k"]] = [(s[0], s[1]) for s in r["samples"]]
for path in glob.glob(folder + "/sweep-*.csv"):
    one = rows.setdefault(("sweep", number(path)), {})
    with open(path) as f:
        for r in csv.DictReader(f):
            if not r["disturbance"]:
                key = r["kernel"], int(r["m"]), int(r["n"]), int(r["k"])
                one.setdefault(key, []).append((float(r["us"]), float(r["clock_mhz"] or 0)))
if not rows or len({way for way, _ in rows}) < 2:
    sys.exit("means: one of the ways has no samples")
cases = sorted(set.intersection(*(set(one) for one in rows.values())))
kernels = ["auto", "cublas", "cublaslt"]
print(f"{len(cases)} rows in all turns; samples per row: " + ", ".join(
    f"{way} {turn}: {statistics.median(len(one[c]) for c in cases):.0f}" for (way, turn), one in sorted(rows.items(), key=lambda x: x[0][1])))

# The clock's slope of each row, pooled over kernels of one m, from samples within turns.
sums = {}
for one in rows.values():
    for c in cases:
        s = [(math.log(us), math.log(mhz)) for us, mhz in one[c] if mhz > 0]
        if len(s) < 3:
            continue
        my, mx = (statistics.median(v) for v in zip(*s))
        for y, x in s:
            if abs(y - my) < 0.03 + 1.5 * abs(x - mx):
                xx, xy = sums.get((c[0], c[1]), (0, 0))
                sums[c[0], c[1]] = xx + (x - mx) ** 2, xy + (x - mx) * (y - my)
beta = {k: min(max(-xy / xx, 0), 1) if xx > 0 else 0 for k, (xx, xy) in sums.items()}
known = [mhz for one in rows.values() for c in cases for _, mhz in one[c] if mhz > 0]
reference = statistics.median(known) if known else 0


def log_time(one, c, common):
    return statistics.median(
        math.log(us) + (beta.get((c[0], c[1]), 0) * math.log(mhz / reference) if common and mhz > 0 else 0) for us, mhz in one[c])


times = {(turn, common): {c: log_time(one, c, common) for c in cases} for turn, one in rows.items() for common in (False, True)}


def compare(name, value):
    """value(times of a turn) is a mean of logarithms; a row shows it for both ways, and their ratio."""
    for common in (False, True):
        by = {way: [value(times[t, common]) for t in sorted(rows) if t[0] == way] for way in ("loop", "sweep")}
        mean = {way: statistics.mean(v) for way, v in by.items()}
        error = math.sqrt(sum(statistics.variance(v) / len(v) if len(v) > 1 else 0 for v in by.values()))
        diff = mean["sweep"] - mean["loop"]
        print(f"{name:34} {'common clock' if common else 'observed':13} {math.exp(mean['loop']):10.4f} {math.exp(mean['sweep']):10.4f} "
              f"{math.exp(diff):9.5f} +- {error:.5f}  {'agree' if abs(diff) <= 0.003 else 'DIFFER'}")


print(f"\nreference clock {reference:.0f} MHz; mean clock: " + ", ".join(
    f"{way} {statistics.mean(mhz for (w, _), one in rows.items() if w == way for c in cases for _, mhz in one[c]):.0f}" for way in ("loop", "sweep")))
print(f"{'geometric mean':34} {'':13} {'loop':>10} {'sweep':>10} {'sweep÷loop':>9}")
have = [k for k in kernels if any(c[0] == k for c in cases)]
for kernel in have:
    of = [c for c in cases if c[0] == kernel]
    compare(f"us, {kernel}", lambda t: statistics.mean(t[c] for c in of))
    for low, high in ((1, 16), (17, 511), (512, 1 << 30)):
        some = [c for c in of if low <= c[1] <= high]
        if some:
            compare(f"  m {low} and up", lambda t: statistics.mean(t[c] for c in some))
products = sorted({c[1:] for c in cases if c[0] == "auto"})
peers = [k for k in have if k != "auto"]
bands = [("all m", 1, 1 << 30), ("m 1-16", 1, 16), ("m 17-511", 17, 511), ("m 512 and up", 512, 1 << 30)]
for name, low, high in bands:
    of = [p for p in products if low <= p[0] <= high and all((k, *p) in cases for k in peers)]
    if not of:
        continue
    for peer in peers:
        compare(f"{peer} ÷ auto, {name}", lambda t: statistics.mean(t[(peer, *p)] - t[("auto", *p)] for p in of))
    if len(peers) > 1:
        compare(f"better library ÷ auto, {name}", lambda t: statistics.mean(min(t[(k, *p)] for k in peers) - t[("auto", *p)] for p in of))
print("\nrows that differ most (sweep ÷ loop at the common clock):")
worst = []
for c in cases:
    by = {way: statistics.mean(times[t, True][c] for t in rows if t[0] == way) for way in ("loop", "sweep")}
    worst.append((by["sweep"] - by["loop"], c, by))
for diff, c, by in sorted(worst, key=lambda w: -abs(w[0]))[:10]:
    print(f"  {math.exp(diff):.4f}  {c[0]} m{c[1]} n{c[2]} k{c[3]}: {math.exp(by['loop']):.3f} us, {math.exp(by['sweep']):.3f} us")
