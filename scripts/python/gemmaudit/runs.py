"""Runs of the program as plain objects.

    run = gemmaudit.run(preset="quick", device="cuda:0")   # or gemmaudit.open("run.db")
    for p in run.problems:
        print(p.number, p.product, p.m, p.us, p.better_us)
    run.rows.to_pandas()
"""
from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import pathlib
import time
from dataclasses import dataclass
from typing import Any, Dict, Generic, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union, overload

from . import program

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T")


@dataclass(frozen=True)
class Estimate:
    """A value with confidence bounds."""

    lo: float
    mid: float
    hi: float


@dataclass(frozen=True)
class Remedy:
    """A faster way to compute a product: a split into parts, a pad to pad_to rows, another kernel or algorithm."""

    kind: str
    m: int = 0
    parts: Tuple[int, ...] = ()
    pad_to: int = 0
    kernel: str = ""
    #: whether it was measured to be faster, by its confidence bounds
    pays: bool = False


@dataclass(frozen=True)
class Problem:
    """A slow product: one kernel, one range of M. Times are in microseconds, at m."""

    number: int
    device: str
    dtype: str
    n: int
    k: int
    kernels: Tuple[str, ...]
    from_m: int
    to_m: int
    m: int
    us: Optional[float]
    better_us: Optional[float]
    gain: Optional[Estimate]
    remedy: Optional[Remedy]
    status: str
    cause: str
    explanation: str
    #: microseconds saved in one pass over the sizes of this problem
    worth_us: float

    @property
    def product(self) -> str:
        return f"n{self.n} k{self.k}"


@dataclass(frozen=True)
class Row:
    """A measured size of a product and its verdict; times in microseconds."""

    device: str
    kernel: str
    operation: str
    dtype: str
    layout: str
    regime: str
    n: int
    k: int
    m: int
    verdict: str
    us: Optional[Estimate]
    mfu: Optional[Estimate]
    samples: int
    cause: str


@dataclass(frozen=True)
class Sample:
    """One timed block of launches. us is microseconds per launch; None means unknown."""

    device: str
    kernel: str
    operation: str
    dtype: str
    layout: str
    n: int
    k: int
    m: int
    round: int
    phase: str
    us: float
    us_at_clock: Optional[float]
    clock_mhz: Optional[float]
    power_w: Optional[float]
    temp_c: Optional[float]
    mfu: Optional[float]
    launches: int
    started: str
    disturbance: str
    throttle: str


class Records(Sequence[T], Generic[T]):
    """A list of records, convertible to pandas and polars."""

    def __init__(self, kind: type, items: Sequence[T]) -> None:
        self._kind, self._items = kind, tuple(items)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> "Records[T]": ...
    def __getitem__(self, at: Union[int, slice]) -> Any:
        return Records(self._kind, self._items[at]) if isinstance(at, slice) else self._items[at]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == tuple(other) if isinstance(other, (Records, list, tuple)) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"<{len(self)} x {self._kind.__name__}>"

    def columns(self) -> Dict[str, List[Any]]:
        """The records by column. An estimate becomes three columns: us_lo, us and us_hi."""
        out: Dict[str, List[Any]] = {}
        for f in dataclasses.fields(self._kind):
            values = [getattr(r, f.name) for r in self._items]
            if "Estimate" in str(f.type):
                for bound, name in (("lo", f.name + "_lo"), ("mid", f.name), ("hi", f.name + "_hi")):
                    out[name] = [getattr(v, bound, None) for v in values]
            elif "Remedy" in str(f.type):
                for part in dataclasses.fields(Remedy):
                    own = [getattr(v, part.name, None) for v in values]
                    out["remedy_" + part.name] = [list(v) if isinstance(v, tuple) else v for v in own]
            else:
                out[f.name] = [list(v) if isinstance(v, tuple) else v for v in values]
        return out

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; needs pandas."""
        return _optional("pandas").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """A polars.DataFrame; needs polars."""
        return _optional("polars").DataFrame(self.columns())


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise ImportError(f"a frame needs {name}: pip install {name}", name=name) from e


class Run:
    """A judged run, from `gemmaudit.open` or `gemmaudit.run`."""

    def __init__(self, path: pathlib.Path, audit: Mapping[str, Any], exit_code: int = 0) -> None:
        self.path = path
        #: output of `gemmaudit audit RUN -o json`
        self.audit = audit
        #: exit code of `gemmaudit run`: 0 clean, 1 findings, 4 no verdict
        self.exit_code = exit_code

    @property
    def summary(self) -> Mapping[str, Any]:
        return self.audit.get("summary") or {}

    @functools.cached_property
    def problems(self) -> Records[Problem]:
        return Records(Problem, [_problem(p) for p in self.audit.get("problems") or []])

    @functools.cached_property
    def rows(self) -> Records[Row]:
        return Records(Row, [_row(s["series"], r) for s in self.audit.get("series") or [] for r in s.get("rows") or []])

    @functools.cached_property
    def samples(self) -> Records[Sample]:
        """Every sample of all phases, read at first use."""
        lines = program.output(["export", _argument(self.path), "--format", "jsonl", "-q"]).splitlines()
        return Records(Sample, [_fields(Sample, json.loads(line)) for line in lines])

    def problem(self, number: int) -> Problem:
        """The problem with this number. Raises LookupError with the valid numbers."""
        for p in self.problems:
            if p.number == number:
                return p
        there = ", ".join(str(p.number) for p in self.problems) or "none"
        raise LookupError(f"{self.path} has no problem {number}; its problems: {there}")

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame."""
        return self.rows.to_pandas()

    def to_polars(self) -> Any:
        """The rows as a polars.DataFrame."""
        return self.rows.to_polars()

    def __repr__(self) -> str:
        return f"<Run {self.path}: {len(self.rows)} rows, {len(self.problems)} problems>"

    def _repr_html_(self) -> str:
        from .notebook import page

        return page(self)


def open(path: Path) -> Run:
    """Opens a run file or a folder of `gemmaudit run`. Raises ProgramError if it can't be read."""
    return _open(path, 0)


def run(*args: str, kernels: Union[Path, Sequence[Path], None] = None, python: Optional[Path] = None, out: Optional[Path] = None,
        **flags: Any) -> Run:
    """Runs `gemmaudit run` with these flags, as in run(preset="quick", device="cuda:0").

    kernels are names and files with your own kernels, as in "mine.py" or ["mine.py", "cublas"]. Files in Python run in the
    interpreter python, by default this one. out is the folder to write, by default a new one in out/. Progress goes to
    stderr. Raises ProgramError if the program or a device failed before a verdict.
    """
    folder = pathlib.Path(out) if out is not None else pathlib.Path("out") / time.strftime("%Y%m%d-%H%M%S")
    selected = program.kernels(kernels)
    flags.update(python=python or program.interpreter([*selected, *program.listed(flags.get("kernel_file"))]))
    words = ["run", *args, *program.flags({"kernel": selected, **flags}), f"--out={folder}"]
    code = program.execute(words)
    if code not in program.VERDICTS:
        raise program.failure(words, code)
    return _open(folder, code)


def _open(path: Path, exit_code: int) -> Run:
    file = pathlib.Path(path)
    if file.is_dir():
        file = file / "run.db"
    return Run(file, json.loads(program.output(["audit", _argument(file), "-o", "json", "-q"], accept=program.VERDICTS)), exit_code)


def _argument(file: pathlib.Path) -> str:
    # Otherwise a name that begins with - would be parsed as a flag.
    return str(file) if file.is_absolute() else os.path.join(".", file)


def _fields(kind: Type[T], values: Mapping[str, Any]) -> T:
    """A record of kind; missing values are None, or "" for text."""
    return kind(**{f.name: values.get(f.name, "" if f.type == "str" else None) for f in dataclasses.fields(kind)})  # type: ignore[arg-type]


def _interval(v: Optional[Mapping[str, float]]) -> Optional[Estimate]:
    return Estimate(v.get("lo", v["mid"]), v["mid"], v.get("hi", v["mid"])) if v and "mid" in v else None


def _row(series: Mapping[str, Any], row: Mapping[str, Any]) -> Row:
    merged = {**series, **row, "us": _interval(row.get("us")), "mfu": _interval(row.get("mfu")), "samples": row.get("samples", 0)}
    return _fields(Row, merged)


def _remedy(v: Optional[Mapping[str, Any]]) -> Optional[Remedy]:
    if not v:
        return None
    return Remedy(v.get("kind", ""), v.get("m", 0), tuple(v.get("parts") or ()), v.get("pad_to", 0), v.get("kernel", ""), v.get("pays", False))


def _problem(p: Mapping[str, Any]) -> Problem:
    merged = {**p, "kernels": tuple(p.get("kernels") or ()), "gain": _interval(p.get("gain")), "remedy": _remedy(p.get("remedy")),
              "worth_us": p.get("worth_us") or 0.0}
    return _fields(Problem, merged)
