#!/usr/bin/env python3
"""Runs a preset many times on one machine and prints whether it reaches a verdict, and the same one.

    scripts/steady.py --runs 20 --parent out/steady             an idle machine
    scripts/steady.py --runs 20 --parent out/spin --spin 1      next to one spinning process
    scripts/steady.py --parent out/pair --cpus 2,3              on one pair of cores
    scripts/steady.py --read out/steady out/pair                print finished runs again

It needs the program and Python 3.8, no Go. Two runs agree on a finding when both have a confirmed
finding of the same rule, kernel and product whose stretches of M overlap. Findings count whose loss
in either run is more than twice the coarser resolution of the two.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=20, help="number of runs (default 20)")
    p.add_argument("--parent", default="out/steady", help="folder that receives the runs (default out/steady)")
    p.add_argument("--binary", default="bin/gemmaudit", help="the program (default bin/gemmaudit)")
    p.add_argument("--preset", default="quick", help="preset of gemmaudit run (default quick)")
    p.add_argument("--spin", type=int, default=0, help="spinning processes during each run (default 0)")
    p.add_argument("--cpus", default="", help="cores for runs and spinning processes, such as 0,1 (default all)")
    p.add_argument("--timeout", type=float, default=600, help="seconds after which a run is killed (default 600)")
    p.add_argument("--read", nargs="+", metavar="PARENT", help="do not measure; print the runs of these folders")
    return p.parse_args()


def measure(o, folder, cpus):
    """One run; steady.json keeps its exit code and seconds, out and err its output."""
    folder.mkdir(parents=True)

    def pin():
        if cpus:
            os.sched_setaffinity(0, cpus)

    spinning = [subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=pin) for _ in range(o.spin)]
    began = time.monotonic()
    try:
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            command = [o.binary, "run", "--preset", o.preset, "--parent", str(folder)]
            run = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=pin)
            try:
                code = run.wait(o.timeout)
            except BaseException as e:
                run.kill()
                run.wait()
                if not isinstance(e, subprocess.TimeoutExpired):
                    raise
                code = -9
    finally:
        for p in spinning:
            p.kill()
            p.wait()
    (folder / "steady.json").write_text(json.dumps({"exit": code, "seconds": time.monotonic() - began}))


def read(folder):
    """The result of a run; None for a folder without a finished run."""
    try:
        run = json.loads((folder / "steady.json").read_text())
    except (OSError, ValueError):
        return None
    run.update(name=str(folder), resolution=None, undecided=None, drift=None, location="", findings=None)
    for path in folder.glob("*/findings.json"):
        audit = json.loads(path.read_text())
        run["resolution"], run["drift"] = audit.get("resolution"), audit.get("drift")
        run["location"] = ", ".join(sorted({s["location"] for s in audit.get("scatter", {}).values()}))
        if audit.get("cases"):
            run["undecided"] = audit.get("undecided", 0) / audit["cases"]
        run["findings"] = [f for f in audit["findings"] if f["status"] == "confirmed"]
    return run


def agreement(a, b):
    """Jaccard index of two runs' findings; None if no loss is large enough."""
    least = 2 * max(a["resolution"] or 0, b["resolution"] or 0)
    places = {}
    for side, run in enumerate((a, b)):
        for f in run["findings"]:
            key = (f["rule"], json.dumps(f["series"], sort_keys=True))
            places.setdefault(key, []).append((f["from_m"], f["to_m"], side, f["loss"]["mid"] > least))
    both = all_of_them = 0
    for stretches in places.values():
        # Overlapping stretches of both runs are one finding.
        group, end = [], 0
        for s in sorted(stretches) + [(float("inf"), 0, 0, False)]:
            if group and s[0] > end:
                if any(large for _, _, _, large in group):
                    all_of_them += 1
                    both += len({side for _, _, side, _ in group}) == 2
                group = []
            group.append(s)
            end = max(end, s[1]) if len(group) > 1 else s[1]
    return both / all_of_them if all_of_them else None


def percent(v):
    return "-" if v is None else "%.1f %%" % (100 * v)


def show(runs):
    width = max(len(r["name"]) for r in runs)
    print("%-*s  exit  seconds  resolution  undecided    drift  findings  location" % (width, "run"))
    for r in runs:
        print("%-*s  %4d  %7.1f  %10s  %9s  %7s  %8s  %s" % (width, r["name"], r["exit"], r["seconds"], percent(r["resolution"]),
              percent(r["undecided"]), percent(r["drift"]), "-" if r["findings"] is None else len(r["findings"]), r["location"]))
    good = [r for r in runs if r["exit"] in (0, 1) and r["seconds"] < 120]
    print("\nexit 0 or 1 in under two minutes: %d of %d" % (len(good), len(runs)))
    resolutions = [r["resolution"] for r in runs if r["resolution"] is not None]
    if resolutions:
        print("resolution: median %s, coarsest %s" % (percent(statistics.median(resolutions)), percent(max(resolutions))))
    shares = [r["undecided"] for r in runs if r["undecided"] is not None]
    if shares:
        print("undecided: median %s, most %s, at most 30 %% in %d of %d" % (percent(statistics.median(shares)), percent(max(shares)),
              sum(s <= 0.3 for s in shares), len(shares)))
    judged = [r for r in runs if r["exit"] in (0, 1) and r["findings"] is not None]
    pairs = [v for v in (agreement(a, b) for a, b in itertools.combinations(judged, 2)) if v is not None]
    if pairs:
        print("agreement of two runs: mean %.3f, median %.3f, least %.3f, at least 0.8 in %d of %d pairs" % (statistics.mean(pairs),
              statistics.median(pairs), min(pairs), sum(v >= 0.8 for v in pairs), len(pairs)))
    else:
        print("agreement of two runs: no pair of runs has findings with such a loss")


def main():
    o = arguments()
    folders = []
    if o.read:
        for parent in o.read:
            folders += sorted(pathlib.Path(parent).glob("run-*"))
    else:
        cpus = {int(c) for c in o.cpus.split(",")} if o.cpus else None
        parent = pathlib.Path(o.parent)
        taken = len(list(parent.glob("run-*")))
        for i in range(taken, taken + o.runs):
            folder = parent / ("run-%03d" % (i + 1))
            measure(o, folder, cpus)
            folders.append(folder)
            r = read(folder)
            print("%s: exit %d in %.0f s, resolution %s, undecided %s" % (folder, r["exit"], r["seconds"], percent(r["resolution"]), percent(r["undecided"])),
                  file=sys.stderr, flush=True)
    runs = [r for r in map(read, folders) if r]
    if not runs:
        sys.exit("steady: no finished run in %s" % " ".join(o.read or [o.parent]))
    show(runs)


if __name__ == "__main__":
    main()
