"""A run as HTML for notebooks: sentences, problems, and a plot of the worst problem. All text is escaped."""
from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, List, Optional, Sequence

if TYPE_CHECKING:
    from .runs import Problem, Row, Run

MOST_PROBLEMS = 10
WIDTH, HEIGHT, MARGIN = 520, 170, 34


def page(run: "Run") -> str:
    parts = [f"<p><b>{html.escape(s)}</b></p>" for s in sentences(run)[:1]] + [f"<p>{html.escape(s)}</p>" for s in sentences(run)[1:]]
    if run.problems:
        parts.append(_table(run.problems[:MOST_PROBLEMS]))
    if len(run.problems) > MOST_PROBLEMS:
        parts.append(f"<p>{len(run.problems) - MOST_PROBLEMS} more problems: run.problems</p>")
    return "".join(parts) + _plot(run)


def sentences(run: "Run") -> List[str]:
    """What is slow, then the worst problem."""
    s = run.summary
    rows, slow = s.get("sizes", len(run.rows)), s.get("slow", sum(r.verdict == "anomalous" for r in run.rows))
    devices = s.get("devices") or sorted({r.device for r in run.rows})
    out = [f"{', '.join(map(str, devices))}: {slow} of {rows} sizes are slower than they need to be."]
    if run.problems:
        p = run.problems[0]
        worst = f"Worst: {p.product} at M {p.m}"
        if p.us is not None:
            worst += f" takes {p.us:.3g} us"
        if p.better_us is not None and p.remedy is not None:
            worst += f", and {p.better_us:.3g} us with {remedy(p)}"
        out.append(worst + ".")
    return out


def remedy(p: "Problem") -> str:
    r = p.remedy
    if r is None:
        return ""
    if r.kind == "split":
        return "a split into " + " + ".join(map(str, r.parts))
    if r.kind == "pad":
        return f"a pad to {r.pad_to}"
    return f"{r.kind} {r.kernel}".strip()


def _number(v: Optional[float], unit: str = "") -> str:
    return "" if v is None else f"{v:.3g}{unit}"


def _table(problems: "Sequence[Problem]") -> str:
    heads = ("#", "kernel", "product", "M", "us", "us with remedy", "gain", "remedy", "cause")
    lines = ["<table><thead><tr>" + "".join(f"<th>{h}</th>" for h in heads) + "</tr></thead><tbody>"]
    for p in problems:
        ms = str(p.from_m) if p.from_m == p.to_m else f"{p.from_m}–{p.to_m}"
        cells = (p.number, ", ".join(p.kernels), f"{p.dtype} {p.product}", ms, _number(p.us), _number(p.better_us),
                 _number(p.gain.mid if p.gain else None, "x"), remedy(p), p.cause)
        lines.append("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in cells) + "</tr>")
    return "".join(lines) + "</tbody></table>"


def _series(run: "Run") -> "List[Row]":
    """The rows to plot: the series of the worst problem, else the longest series."""
    by: "dict[tuple[object, ...], List[Row]]" = {}
    for r in run.rows:
        if r.us is not None:
            by.setdefault((r.device, r.kernel, r.operation, r.dtype, r.layout, r.regime, r.n, r.k), []).append(r)
    if not by:
        return []
    if run.problems:
        p = run.problems[0]
        for rows in by.values():
            r = rows[0]
            if (r.kernel in p.kernels and (r.dtype, r.n, r.k) == (p.dtype, p.n, p.k)) and any(x.m == p.m for x in rows):
                return sorted(rows, key=lambda x: x.m)
    longest = max(by.values(), key=len)
    return sorted(longest, key=lambda x: x.m)


def _plot(run: "Run") -> str:
    """Time over M, both logarithmic. Anomalous rows are filled dots; the time with the worst problem's remedy is a ring."""
    rows = _series(run)
    points = [(r.m, r.us.mid, r) for r in rows if r.us is not None and r.us.mid > 0 and r.m > 0]
    if len(points) < 2:
        return ""
    first = points[0][2]
    better = [(p.m, p.better_us) for p in run.problems[:1] if p.better_us and p.m > 0 and p.n == first.n and p.k == first.k]
    xs = [math.log(m) for m, _, _ in points]
    ys = [math.log(us) for _, us, _ in points] + [math.log(us) for _, us in better]
    left, right, low, high = min(xs), max(xs), min(ys), max(ys)

    def x(m: float) -> float:
        return MARGIN + (math.log(m) - left) / ((right - left) or 1) * (WIDTH - 2 * MARGIN)

    def y(us: float) -> float:
        return HEIGHT - MARGIN - (math.log(us) - low) / ((high - low) or 1) * (HEIGHT - 2 * MARGIN)

    title = html.escape(f"{first.kernel} {first.dtype} n{first.n} k{first.k}: us over M")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{title}" '
           'fill="none" stroke="currentColor" font-size="11" font-family="sans-serif">',
           f'<text x="{MARGIN}" y="14" fill="currentColor" stroke="none">{title}</text>',
           '<polyline stroke-opacity="0.5" points="' + " ".join(f"{x(m):.1f},{y(us):.1f}" for m, us, _ in points) + '"/>']
    out += [f'<circle cx="{x(m):.1f}" cy="{y(us):.1f}" r="3" fill="#c22" stroke="none"><title>M {m}: {us:.3g} us</title></circle>'
            for m, us, r in points if r.verdict == "anomalous"]
    out += [f'<circle cx="{x(m):.1f}" cy="{y(us):.1f}" r="4" stroke="#284"><title>M {m}: {us:.3g} us with the remedy</title></circle>' for m, us in better]
    for m, anchor in ((points[0][0], "start"), (points[-1][0], "end")):
        out.append(f'<text x="{x(m):.1f}" y="{HEIGHT - 12}" text-anchor="{anchor}" fill="currentColor" stroke="none">M {m}</text>')
    return "".join(out) + "</svg>"
