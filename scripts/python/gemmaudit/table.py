"""Tables as `gemmaudit splits --table` and `gemmaudit table convert` write them in JSON.

The answers are those of the readers in Go and C. docs/table.schema.json describes the format.
"""
from __future__ import annotations

import bisect
import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

SCHEMA = "gemmaudit/table/v4"
_EARLIER = ("gemmaudit/table/v3", "gemmaudit/table/v2", "gemmaudit/table/v1")

DIRECT, SPLIT, PAD, KERNEL, ALGORITHM = "direct", "split", "pad", "kernel", "algorithm"
IN_PLACE, COPIED = "in-place", "copied"
KN, NK = "kn", "nk"


class TableError(ValueError):
    """What keeps a text from being a table, with the place."""


class Algorithm(NamedTuple):
    """An algorithm of cuBLASLt by its attributes (cublasLtMatmulAlgoConfigGetAttribute)."""

    id: int = 0
    tile: int = 0
    stages: int = 0
    split_k: int = 0
    reduction: int = 0
    swizzle: int = 0
    custom: int = 0
    inner: int = 0
    cluster: int = 0


@dataclass(frozen=True)
class Action:
    """What to do with a product C[m,n] = A[m,k] · B."""

    kind: str = DIRECT
    #: of a split: the rows of its leading parts; what remains of m is the last one
    first: Tuple[int, ...] = ()
    #: of padding: the m that is launched instead
    pad_to: int = 0
    #: of padding: "in-place" where it needs room behind the rows, "copied" where rows are copied first
    pad: str = ""
    #: the name of another kernel, or of the library of an algorithm
    kernel: str = ""
    algorithm: Optional[Algorithm] = None

    def parts(self, m: int) -> Tuple[int, ...]:
        """The ms of the launches of a product of m rows, in order."""
        if self.kind == SPLIT:
            rest = m - sum(self.first)
            if rest > 0:
                return (*self.first, rest)
        elif self.kind == PAD and self.pad_to > m:
            return (self.pad_to,)
        return (m,)


class Product(NamedTuple):
    """What a series serves, for every m."""

    kernel: str
    dtype: str
    layout: str
    n: int
    k: int
    weights: str = ""

    def __str__(self) -> str:
        words = f"{self.kernel}/{self.dtype}/n{self.n} k{self.k}"
        if self.layout != KN:
            words += " " + self.layout
        return words + (f" weights {self.weights}" if self.weights else "")


@dataclass(frozen=True)
class Proof:
    """The action executed at one m, beside the direct product; times in microseconds."""

    m: int
    direct_us: float
    remedy_us: float
    gain_lo: float
    gain_mid: float
    gain_hi: float


@dataclass(frozen=True)
class Interval:
    """The ms from first to last, both included, with one action."""

    first: int
    last: int
    action: Action
    step: int = 1
    filled: bool = False
    proofs: Tuple[Proof, ...] = ()


@dataclass(frozen=True)
class Series:
    """The actions of one product; the default holds outside of the intervals."""

    product: Product
    default: Action
    intervals: Tuple[Interval, ...]
    _lasts: Tuple[int, ...] = field(repr=False, compare=False, default=())

    def lookup(self, m: int) -> Action:
        at = bisect.bisect_left(self._lasts, m)
        if at < len(self.intervals) and self.intervals[at].first <= m:
            return self.intervals[at].action
        return self.default


@dataclass(frozen=True)
class Validators:
    """The conditions under which a table was measured; empty and 0 mean unknown."""

    device: str = ""
    driver: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""
    regime: str = ""
    clock_policy: str = ""
    arch: str = ""
    cpu_model: str = ""
    features: Tuple[str, ...] = ()
    gemmaudit: str = ""
    cores: int = 0
    threads: int = 0

    def differences(self, here: "Validators") -> List[Tuple[str, str, str]]:
        """Names, held and present values of what differs; what either side leaves open is no difference."""
        pairs: List[Tuple[str, str, str]] = []
        for name in ("device", "driver", "kernel", "regime", "clock_policy", "arch", "cpu_model", "gemmaudit"):
            pairs.append((name, getattr(self, name), getattr(here, name)))
        for name in sorted(self.libraries):
            pairs.append((name, self.libraries[name], here.libraries.get(name, "")))
        pairs.append(("features", " ".join(sorted(self.features)), " ".join(sorted(here.features))))
        for name in ("cores", "threads"):
            pairs.append((name, str(getattr(self, name) or ""), str(getattr(here, name) or "")))
        return [(name, a, b) for name, a, b in pairs if a and b and a != b]


@dataclass(frozen=True)
class Table:
    """A lookup table. `lookup` answers as the readers in Go and C do."""

    schema: str
    created: str
    validators: Validators
    series: Tuple[Series, ...]
    _at: Mapping[Product, Series] = field(repr=False, compare=False, default_factory=dict)

    def find(self, product: Product) -> Optional[Series]:
        return self._at.get(product)

    def lookup(self, kernel: str, dtype: str, layout: str, n: int, k: int, m: int, weights: str = "") -> Action:
        """The action for a product of m rows: that of the interval in which m lies, else the default of its
        series, else the direct product."""
        series = self._at.get(Product(kernel, dtype, layout, n, k, weights))
        return series.lookup(m) if series is not None else Action()


def read(path: Union[str, "os.PathLike[str]"]) -> Table:
    """Reads a table from a file. Raises TableError, with the file's name, for what is no table."""
    with open(path, encoding="utf-8") as f:
        try:
            return parse(f.read())
        except (TableError, UnicodeDecodeError) as e:
            raise TableError(f"{os.fspath(path)}: {e}") from None


def parse(text: str) -> Table:
    """Reads a table from its JSON. Raises TableError for what is no table."""
    try:
        top = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise TableError(f"not JSON: {e}") from None
    o = _Object(top, "table")
    schema = o.text("schema")
    if schema != SCHEMA and schema not in _EARLIER:
        raise TableError(f"schema is {schema!r}, this reader knows {SCHEMA!r} and earlier ones")
    version = int(schema.rsplit("v", 1)[1])
    validators = _validators(o.object("validators"), version, o.text("gemmaudit", "") if version == 1 else "")
    series: List[Series] = []
    for i, item in enumerate(o.list("series")):
        series.append(_series(_Object(item, f"series {i + 1}"), version))
    created = o.text("created")
    o.done()
    at: Dict[Product, Series] = {}
    for s in series:
        if s.product in at:
            raise TableError(f"series {s.product} stands twice")
        at[s.product] = s
    return Table(SCHEMA, created, validators, tuple(series), at)


class _Object:
    """A JSON object whose fields are taken one by one; done() refuses what is left."""

    def __init__(self, value: Any, where: str):
        if not isinstance(value, dict):
            raise TableError(f"{where} is {_name(value)}, expected an object")
        self.fields, self.where = dict(value), where

    def take(self, name: str, default: Any, kind: str) -> Any:
        if name not in self.fields:
            if default is None:
                raise TableError(f"{self.where} has no {name}")
            return default
        value = self.fields.pop(name)
        ok = {
            "text": isinstance(value, str),
            "whole number": isinstance(value, int) and not isinstance(value, bool),
            "number": isinstance(value, (int, float)) and not isinstance(value, bool),
            "true or false": isinstance(value, bool),
            "list": isinstance(value, list) or value is None,
            "object": isinstance(value, dict) or value is None,
        }[kind]
        if not ok:
            raise TableError(f"{self.where}: {name} is {_name(value)}, expected {kind}")
        return default if value is None and default is not None else value

    def text(self, name: str, default: Optional[str] = None) -> str:
        return str(self.take(name, default, "text"))

    def whole(self, name: str, default: Optional[int] = None) -> int:
        return int(self.take(name, default, "whole number"))

    def number(self, name: str) -> float:
        return float(self.take(name, None, "number"))

    def flag(self, name: str) -> bool:
        return bool(self.take(name, False, "true or false"))

    def list(self, name: str, default: Optional[Sequence[Any]] = ()) -> Sequence[Any]:
        return self.take(name, default, "list") or ()

    def object(self, name: str) -> "_Object":
        return _Object(self.take(name, None, "object"), f"{self.where}: {name}")

    def done(self) -> None:
        if self.fields:
            raise TableError(f"{self.where} has an unknown field {sorted(self.fields)[0]!r}")


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _texts(values: Sequence[Any], where: str) -> Tuple[str, ...]:
    for v in values:
        if not isinstance(v, str):
            raise TableError(f"{where} has {_name(v)} in it, expected text")
    return tuple(values)


def _validators(o: _Object, version: int, gemmaudit: str) -> Validators:
    libraries = o.take("libraries", {}, "object")
    _texts(list(libraries.values()), f"{o.where}: libraries")
    v = Validators(
        device=o.text("device", ""), driver=o.text("driver", ""), libraries=libraries, kernel=o.text("kernel", ""),
        regime=o.text("regime", ""), clock_policy=o.text("clock_policy", ""), arch=o.text("arch", ""), cpu_model=o.text("cpu_model", ""),
        features=_texts(o.list("features"), f"{o.where}: features") if version > 1 else (),
        gemmaudit=o.text("gemmaudit", "") if version > 1 else gemmaudit, cores=o.whole("cores", 0), threads=o.whole("threads", 0),
    )
    o.done()
    return v


def _series(o: _Object, version: int) -> Series:
    kernel, dtype = o.text("kernel"), o.text("dtype")
    # Before version 3 a series named neither, and its weights were [K,N].
    layout, weights = (o.text("layout"), o.text("weights", "")) if version > 2 else (KN, "")
    product = Product(kernel, dtype, layout, o.whole("n"), o.whole("k"), weights)
    o.where = f"series {product}"
    if layout not in (KN, NK):
        raise TableError(f"{o.where}: layout is {layout!r}, expected {KN} or {NK}")
    default = _action(o.object("default"), version) if "default" in o.fields else Action()
    if default.kind not in (DIRECT, KERNEL):
        raise TableError(f"{o.where}: the default is a {default.kind}, expected {DIRECT} or {KERNEL}")
    intervals: List[Interval] = []
    for i, item in enumerate(o.list("intervals")):
        interval = _interval(_Object(item, f"{o.where}: interval {i + 1}"), version)
        if intervals and interval.first <= intervals[-1].last:
            raise TableError(f"{o.where}: interval {i + 1} begins before the one before it ends")
        intervals.append(interval)
    if version > 3:
        for name in ("from_m", "to_m", "served"):
            o.whole(name, 0)
    o.done()
    return Series(product, default, tuple(intervals), tuple(i.last for i in intervals))


def _interval(o: _Object, version: int) -> Interval:
    first, last = o.whole("from"), o.whole("to")
    if first < 1 or last < first:
        raise TableError(f"{o.where}: m{first} to m{last}, expected 1 <= from <= to")
    action = _action(o.object("action"), version)
    if action.kind == SPLIT and sum(action.first) >= first:
        raise TableError(f"{o.where}: the leading parts add up to {sum(action.first)}, expected less than {first}")
    if action.kind == PAD and action.pad_to < last:
        raise TableError(f"{o.where}: pad_to is {action.pad_to}, expected at least {last}")
    proofs = []
    for i, item in enumerate(o.list("proofs")):
        p = _Object(item, f"{o.where}: proof {i + 1}")
        proofs.append(Proof(p.whole("m"), p.number("direct_us"), p.number("remedy_us"), p.number("gain_lo"), p.number("gain_mid"), p.number("gain_hi")))
        if version > 3:
            p.take("numerics", {}, "object")
        p.done()
    interval = Interval(first, last, action, max(1, o.whole("step", 0)), o.flag("filled") if version > 3 else False, tuple(proofs))
    o.done()
    return interval


def _action(o: _Object, version: int) -> Action:
    kind = o.text("kind", DIRECT) or DIRECT
    first = tuple(o.list("first"))
    for part in first:
        if not isinstance(part, int) or isinstance(part, bool) or part < 1:
            raise TableError(f"{o.where}: a leading part is {part!r}, expected a whole number from 1 on")
    pad_to, kernel = o.whole("pad_to", 0), o.text("kernel", "")
    pad, algorithm = "", None
    if version > 3:
        pad = o.text("pad", "")
        if "algorithm" in o.fields:
            attributes = o.object("algorithm")
            algorithm = Algorithm(*(attributes.whole(name, 0) for name in Algorithm._fields))
            attributes.done()
    elif kind == PAD:
        pad = IN_PLACE
    o.done()
    known = [DIRECT, SPLIT, PAD, KERNEL] + ([ALGORITHM] if version > 3 else [])
    if kind not in known:
        raise TableError(f"{o.where}: unknown kind {kind!r}, expected one of {', '.join(known)}")
    wrong = [name for name, given, of in (("first", first, (SPLIT,)), ("pad_to", pad_to, (PAD,)), ("pad", pad, (PAD,)),
                                          ("kernel", kernel, (KERNEL, ALGORITHM)), ("algorithm", algorithm is not None, (ALGORITHM,)))
             if bool(given) != (kind in of)]
    if wrong:
        raise TableError(f"{o.where}: a {kind} {'without' if kind in (SPLIT, PAD, KERNEL, ALGORITHM) and not locals()[wrong[0]] else 'with'} {wrong[0]}")
    if pad not in ("", IN_PLACE, COPIED):
        raise TableError(f"{o.where}: pad is {pad!r}, expected {IN_PLACE} or {COPIED}")
    return Action(kind, first, pad_to, pad, kernel, algorithm)
