"""Reads JSON tables of `gemmaudit splits --table` and `gemmaudit table convert`.

Lookups agree with the readers in Go and C. docs/table.schema.json describes the format.
"""
from __future__ import annotations

import bisect
import json
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

SCHEMA = "gemmaudit/table/v4"
_EARLIER = ("gemmaudit/table/v3", "gemmaudit/table/v2", "gemmaudit/table/v1")

DIRECT, SPLIT, PAD, KERNEL, ALGORITHM = "direct", "split", "pad", "kernel", "algorithm"
IN_PLACE, COPIED = "in-place", "copied"
KN, NK = "kn", "nk"

# Limits of a table, as in the Go reader: far above any real table.
MAX_BYTES = 256 << 20
_MAX_SIZE = (1 << 31) - 1  # of every whole number
_MAX_BYTES = 1 << 53  # of padding
_MAX_SERIES = 1 << 16
_MAX_INTERVALS = 1 << 20  # of a series, and proofs of an interval
_MAX_PARTS = 64  # of a split, and other Ms of a proof
_MAX_NAMES = 1024  # of libraries and of features
_MAX_WORD = 4096  # bytes of a name
_MAX_ATTRIBUTE = (1 << 16) - 1


class TableError(ValueError):
    """A text is not a table; the message names the place."""


class Algorithm(NamedTuple):
    """Attributes of a cuBLASLt algorithm (cublasLtMatmulAlgoConfigGetAttribute)."""

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
    #: split: rows of the leading parts; the rest of m is the last part
    first: Tuple[int, ...] = ()
    #: pad: the m to launch instead
    pad_to: int = 0
    #: pad: "in-place" needs spare rows behind the input; "copied" copies the rows first
    pad: str = ""
    #: name of another kernel, or library of an algorithm
    kernel: str = ""
    algorithm: Optional[Algorithm] = None

    def parts(self, m: int) -> Tuple[int, ...]:
        """The m of each launch for a product of m rows, in order."""
        if self.kind == SPLIT:
            rest = m - sum(self.first)
            if rest > 0:
                return (*self.first, rest)
        elif self.kind == PAD and self.pad_to > m:
            return (self.pad_to,)
        return (m,)


class Product(NamedTuple):
    """The product of a series: everything but m."""

    kernel: str
    dtype: str
    layout: str
    n: int
    k: int
    weights: str = ""
    #: what the launch does with the product: "bias+gelu"
    epilogue: str = ""

    def __str__(self) -> str:
        words = f"{self.kernel}/{self.dtype}/n{self.n} k{self.k}"
        if self.layout != KN:
            words += " " + self.layout
        words += f" weights {self.weights}" if self.weights else ""
        return words + (f" {self.epilogue}" if self.epilogue else "")


@dataclass(frozen=True)
class Numerics:
    """Numerical results of an action and of the direct product: relative errors against float64, and bits."""

    direct_error: float
    remedy_error: float
    same_bits: bool
    #: whether a row has the same bits at other_ms, with the action and with the direct product
    batch_invariant: bool
    direct_batch_invariant: bool
    rows: int
    columns: int
    other_ms: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Proof:
    """Measurement of the action and the direct product at one m; times in microseconds."""

    m: int
    direct_us: float
    remedy_us: float
    gain_lo: float
    gain_mid: float
    gain_hi: float
    numerics: Optional[Numerics] = None


@dataclass(frozen=True)
class Interval:
    """One action for each m from first to last, both included."""

    first: int
    last: int
    action: Action
    step: int = 1
    filled: bool = False
    proofs: Tuple[Proof, ...] = ()


@dataclass(frozen=True)
class Series:
    """The actions of one product; the default applies outside of the intervals."""

    product: Product
    default: Action
    intervals: Tuple[Interval, ...]
    _lasts: Tuple[int, ...] = field(repr=False, compare=False, default=())
    #: first and last measured m, and how many m between them have an action other than the default; 0 means unknown
    from_m: int = 0
    to_m: int = 0
    served: int = 0

    def lookup(self, m: int) -> Action:
        at = bisect.bisect_left(self._lasts, m)
        if at < len(self.intervals) and self.intervals[at].first <= m:
            return self.intervals[at].action
        return self.default


@dataclass(frozen=True)
class Advice:
    """Weights that are better padded with zeros, once, when they are converted. Lookups ignore it."""

    product: Product
    #: "pad-n" or "pad-k", and the padded N or K
    kind: str
    pad_to: int
    #: "copied" if the activations of pad-k were copied to rows of the padded length in the measured time
    pad: str
    extra_bytes: int
    proof: Proof


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
        """Differences: name, value in the table, value here. Unknown values are equal to any."""
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
    """A lookup table. `lookup` agrees with the readers in Go and C."""

    schema: str
    created: str
    validators: Validators
    series: Tuple[Series, ...]
    advice: Tuple[Advice, ...] = ()
    _at: Mapping[Product, Series] = field(repr=False, compare=False, default_factory=dict)

    def find(self, product: Product) -> Optional[Series]:
        return self._at.get(product)

    def lookup(self, kernel: str, dtype: str, layout: str, n: int, k: int, m: int, weights: str = "", epilogue: str = "") -> Action:
        """The action for a product of m rows: from the interval that contains m, else the default of the series,
        else the direct product. Raises LookupError, with the valid values, for a kernel, dtype, layout, weights
        or epilogue that the table does not have."""
        product = Product(kernel, dtype, layout, n, k, weights, epilogue)
        series = self._at.get(product)
        if series is not None:
            return series.lookup(m)
        for name in ("kernel", "dtype", "layout", "weights", "epilogue"):
            there = sorted({getattr(p, name) for p in self._at})
            if there and getattr(product, name) not in there:
                raise LookupError(f"the table has no {name} {getattr(product, name)!r}; it has {', '.join(repr(t) for t in there)}")
        return Action()


def read(path: Union[str, "os.PathLike[str]"]) -> Table:
    """Reads a table from a file. Raises TableError, with the file's name, if the file is not a table."""
    with open(path, "rb") as f:
        try:
            if os.fstat(f.fileno()).st_size > MAX_BYTES:
                raise TableError(f"more than {MAX_BYTES} bytes")
            return parse(f.read(MAX_BYTES + 1).decode())
        except (TableError, UnicodeDecodeError) as e:
            raise TableError(f"{os.fspath(path)}: {e}") from None


def parse(text: str) -> Table:
    """Reads a table from JSON text. Raises TableError if it is not a table.

    Like the Go reader it refuses unknown fields, duplicate names, NaN and infinity, impossible sizes, times and
    gains, and series or intervals out of order.
    """
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise TableError(f"more than {MAX_BYTES} bytes")
    try:
        top = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except TableError:
        raise
    except (ValueError, RecursionError) as e:
        raise TableError(f"not JSON: {e}") from None
    o = _Object(top, "table")
    schema = o.text("schema")
    if schema != SCHEMA and schema not in _EARLIER:
        raise TableError(f"schema is {schema[:80]!r}, this reader knows {SCHEMA!r} and earlier ones")
    version = int(schema.rsplit("v", 1)[1])
    validators = _validators(o.object("validators"), version, o.word("gemmaudit", "") if version == 1 else "")
    series: List[Series] = []
    for i, item in enumerate(o.list("series", _MAX_SERIES, null=True)):
        series.append(_series(_Object(item, f"series {i + 1}"), version))
    advice = o.list("advice", _MAX_SERIES, default=()) if version > 3 else ()
    created = o.text("created")
    if not _is_time(created):
        raise TableError(f"created is {created[:80]!r}, expected a time as in 2006-01-02T15:04:05Z")
    o.done()
    at: Dict[Product, Series] = {}
    last: Optional[Series] = None
    for s in series:
        if s.product in at:
            raise TableError(f"series {s.product} stands twice")
        if last is not None and _order(s.product) < _order(last.product):
            raise TableError(f"series {s.product} stands after {last.product}, expected ascending kernel, dtype, weights, layout, n, k and epilogue")
        at[s.product] = last = s
    return Table(SCHEMA, created, validators, tuple(series), tuple(_advice(_Object(item, f"advice {i + 1}"), version) for i, item in enumerate(advice)), at)


def _order(p: Product) -> Tuple[Any, ...]:
    return (p.kernel, p.dtype, p.weights, p.layout, p.n, p.k, p.epilogue)


def _pairs(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """A JSON object; duplicate names are an error."""
    out = dict(pairs)
    if len(out) < len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise TableError(f"field {name[:80]!r} stands twice")
            seen.add(name)
    return out


def _no_constant(name: str) -> Any:
    raise TableError(f"not JSON: {name}")


_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:Z|[+-]([0-9]{2}):([0-9]{2}))")


def _is_time(text: str) -> bool:
    """Whether a text is an RFC 3339 time, in capitals and without leap seconds."""
    found = _TIME.fullmatch(text)
    if not found:
        return False
    year, month, day, hour, minute, second, zone_hour, zone_minute = (int(g or 0) for g in found.groups())
    if not 1 <= month <= 12:
        return False
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]
    return 1 <= day <= days and hour < 24 and minute < 60 and second < 60 and zone_hour < 24 and zone_minute < 60


class _Object:
    """A JSON object whose fields are taken one by one; done() refuses unused fields."""

    def __init__(self, value: Any, where: str):
        if not isinstance(value, dict):
            raise TableError(f"{where} is {_name(value)}, expected an object")
        self.fields, self.where = value, where

    def take(self, name: str, default: Any, kind: str, of: Tuple[type, ...]) -> Any:
        """A field's value; the default None makes the field required."""
        if name not in self.fields:
            if default is None:
                raise TableError(f"{self.where} has no {name}")
            return default
        value = self.fields.pop(name)
        if not isinstance(value, of) or isinstance(value, bool) and bool not in of:
            raise TableError(f"{self.where}: {name} is {_name(value)}, expected {kind}")
        return value

    def text(self, name: str, default: Optional[str] = None) -> str:
        return str(self.take(name, default, "text", (str,)))

    def word(self, name: str, default: Optional[str] = None) -> str:
        """A field that is a valid name."""
        return _word(self.text(name, default), f"{self.where}: {name}")

    def whole(self, name: str, default: Optional[int] = None, least: int = 0, most: int = _MAX_SIZE) -> int:
        n = self.take(name, default, "whole number", (int,))
        if not least <= n <= most:
            raise TableError(f"{self.where}: {name} is {_short(n)}, expected {least} to {most}")
        return int(n)

    def number(self, name: str) -> float:
        """A number of at least 0 that fits a float64."""
        value = self.take(name, None, "number", (int, float))
        try:
            x = float(value)
        except OverflowError:
            x = math.inf
        if not 0 <= x < math.inf:
            raise TableError(f"{self.where}: {name} is {x}, expected a number from 0 on")
        return x

    def flag(self, name: str, default: Optional[bool] = False) -> bool:
        return bool(self.take(name, default, "true or false", (bool,)))

    def list(self, name: str, most: int, null: bool = False, default: Optional[Sequence[Any]] = None) -> Sequence[Any]:
        values = self.take(name, default, "list", (list, type(None)) if null else (list,)) or ()
        if len(values) > most:
            raise TableError(f"{self.where}: {name} has {len(values)} elements, expected at most {most}")
        return values

    def sizes(self, name: str, most: int) -> Tuple[int, ...]:
        values = tuple(self.list(name, most, default=()))
        for v in values:
            if not isinstance(v, int) or isinstance(v, bool) or not 1 <= v <= _MAX_SIZE:
                raise TableError(f"{self.where}: {name} has {_short(v)} in it, expected 1 to {_MAX_SIZE}")
        return values

    def object(self, name: str) -> "_Object":
        return _Object(self.take(name, None, "object", (dict,)), f"{self.where}: {name}")

    def done(self) -> None:
        if self.fields:
            raise TableError(f"{self.where} has an unknown field {min(self.fields)[:80]!r}")


def _name(value: Any) -> str:
    if value is None:
        return "null"
    return {dict: "an object", list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _short(value: Any) -> str:
    """A value for a message, shortened: Python refuses to print very long numbers."""
    if isinstance(value, int) and abs(value) >= 1 << 128:
        return "a number of over 38 digits"
    return repr(value)[:80]


def _word(text: str, where: str) -> str:
    if len(text.encode(errors="surrogatepass")) > _MAX_WORD:
        raise TableError(f"{where} has more than {_MAX_WORD} bytes")
    if _UNFIT.search(text):
        raise TableError(f"{where} is {text[:80]!r}, expected no control characters")
    return text


# Control characters, surrogate halves, and replacements for invalid bytes.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffd]")


def _words(values: Sequence[Any], where: str) -> Tuple[str, ...]:
    for v in values:
        if not isinstance(v, str):
            raise TableError(f"{where} has {_name(v)} in it, expected text")
        _word(v, where)
    return tuple(values)


def _validators(o: _Object, version: int, gemmaudit: str) -> Validators:
    libraries = o.take("libraries", {}, "object", (dict,))
    if len(libraries) > _MAX_NAMES:
        raise TableError(f"{o.where}: {len(libraries)} libraries, expected at most {_MAX_NAMES}")
    _words([*libraries, *libraries.values()], f"{o.where}: libraries")
    v = Validators(
        device=o.word("device", ""), driver=o.word("driver", ""), libraries=libraries, kernel=o.word("kernel", ""),
        regime=o.word("regime", ""), clock_policy=o.word("clock_policy", ""), arch=o.word("arch", ""), cpu_model=o.word("cpu_model", ""),
        features=_words(o.list("features", _MAX_NAMES, default=()), f"{o.where}: features") if version > 1 else (),
        gemmaudit=o.word("gemmaudit", "") if version > 1 else gemmaudit, cores=o.whole("cores", 0), threads=o.whole("threads", 0),
    )
    o.done()
    return v


def _series(o: _Object, version: int) -> Series:
    kernel, dtype = o.word("kernel"), o.word("dtype")
    # Before version 3 a series had neither, and its weights were [K,N].
    layout, weights = (o.text("layout"), o.word("weights", "")) if version > 2 else (KN, "")
    epilogue = o.word("epilogue", "") if version > 3 else ""
    product = Product(kernel, dtype, layout, o.whole("n", least=1), o.whole("k", least=1), weights, epilogue)
    o.where = f"series {product}"
    if not kernel or not dtype:
        raise TableError(f"{o.where} has no kernel or no dtype")
    if layout not in (KN, NK):
        raise TableError(f"{o.where}: layout is {layout[:20]!r}, expected {KN} or {NK}")
    default = _action(o.object("default"), version) if "default" in o.fields else Action()
    if default.kind not in (DIRECT, KERNEL):
        raise TableError(f"{o.where}: the default is a {default.kind}, expected {DIRECT} or {KERNEL}")
    intervals: List[Interval] = []
    for i, item in enumerate(o.list("intervals", _MAX_INTERVALS, null=True)):
        interval = _interval(_Object(item, f"{o.where}: interval {i + 1}"), version)
        if intervals and interval.first <= intervals[-1].last:
            raise TableError(f"{o.where}: interval {i + 1} begins before the one before it ends")
        intervals.append(interval)
    from_m, to_m, served = (o.whole(name, 0) for name in ("from_m", "to_m", "served")) if version > 3 else (0, 0, 0)
    o.done()
    if from_m or to_m or served:
        if not 1 <= from_m <= to_m:
            raise TableError(f"{o.where}: swept from m{from_m} to m{to_m}, expected 1 <= from_m <= to_m")
        for iv in intervals:
            if iv.first < from_m or iv.last > to_m:
                raise TableError(f"{o.where}: m{iv.first} to m{iv.last} were not swept, expected within m{from_m} to m{to_m}")
        count = sum(iv.last - iv.first + 1 for iv in intervals if iv.action != default)
        if served != count:
            raise TableError(f"{o.where}: served is {served}, the intervals have {count}")
    return Series(product, default, tuple(intervals), tuple(i.last for i in intervals), from_m, to_m, served)


def _advice(o: _Object, version: int) -> Advice:
    product = Product(o.word("kernel"), o.word("dtype"), o.text("layout"), o.whole("n", least=1), o.whole("k", least=1), o.word("weights", ""),
                      o.word("epilogue", ""))
    extra = o.whole("extra_bytes", 0, most=_MAX_BYTES)
    a = Advice(product, o.text("kind"), o.whole("pad_to"), o.text("pad"), extra, _proof(o.object("proof"), version))
    size = {"pad-n": product.n, "pad-k": product.k}.get(a.kind, a.pad_to)
    if not product.kernel or not product.dtype or product.layout not in (KN, NK) or a.pad_to <= size:
        raise TableError(f"{o.where}: {a.kind[:20]!r} to {a.pad_to} of {product}, expected pad-n or pad-k to a larger size")
    if a.pad != IN_PLACE and (a.pad != COPIED or a.kind == "pad-n"):
        raise TableError(f"{o.where}: pad is {a.pad[:20]!r}, expected {IN_PLACE}, or {COPIED} with pad-k")
    o.done()
    return a


def _interval(o: _Object, version: int) -> Interval:
    first, last = o.whole("from"), o.whole("to")
    if first < 1 or last < first:
        raise TableError(f"{o.where}: m{first} to m{last}, expected 1 <= from <= to")
    action = _action(o.object("action"), version)
    if action.kind == SPLIT and sum(action.first) >= first:
        raise TableError(f"{o.where}: the leading parts add up to {sum(action.first)}, expected less than {first}")
    if action.kind == PAD and action.pad_to < last:
        raise TableError(f"{o.where}: pad_to is {action.pad_to}, expected at least {last}")
    proofs: List[Proof] = []
    for i, item in enumerate(o.list("proofs", _MAX_INTERVALS, default=())):
        p = _proof(_Object(item, f"{o.where}: proof {i + 1}"), version)
        if not first <= p.m <= last or proofs and p.m <= proofs[-1].m:
            raise TableError(f"{o.where}: proof at m{p.m}, expected ascending m inside the interval")
        proofs.append(p)
    step, filled = o.whole("step", 0), o.flag("filled") if version > 3 else False
    # It begins at a measured M, or right after the previous interval.
    if step > 1 and (last - first) % step and (last - first + 1) % step:
        raise TableError(f"{o.where}: step {step} does not lead from one end to the other")
    if filled and step > 1:
        raise TableError(f"{o.where}: it is filled with step {step}, expected none")
    o.done()
    return Interval(first, last, action, max(1, step), filled, tuple(proofs))


def _proof(o: _Object, version: int) -> Proof:
    m = o.whole("m", least=1)
    times = [o.number(name) for name in ("direct_us", "remedy_us", "gain_lo", "gain_mid", "gain_hi")]
    if 0 in times:
        raise TableError(f"{o.where}: a time or a gain is 0, expected a number above 0")
    if not times[2] <= times[3] <= times[4]:
        raise TableError(f"{o.where}: gains {times[2]}, {times[3]}, {times[4]} are not ascending")
    numerics = _numerics(o.object("numerics")) if version > 3 and "numerics" in o.fields else None
    o.done()
    return Proof(m, *times, numerics)


def _numerics(o: _Object) -> Numerics:
    n = Numerics(
        direct_error=o.number("direct_error"), remedy_error=o.number("remedy_error"), same_bits=o.flag("same_bits", None),
        batch_invariant=o.flag("batch_invariant", None), direct_batch_invariant=o.flag("direct_batch_invariant", None),
        rows=o.whole("rows", least=1), columns=o.whole("columns"), other_ms=o.sizes("other_ms", _MAX_PARTS),
    )
    o.done()
    return n


_DIRECT = Action()

# All fields of each kind of action.
_FIELDS = {DIRECT: (), SPLIT: ("first",), PAD: ("pad_to", "pad"), KERNEL: ("kernel",), ALGORITHM: ("kernel", "algorithm")}


def _action(o: _Object, version: int) -> Action:
    kind = o.text("kind", DIRECT)
    known = [k for k in _FIELDS if k != ALGORITHM or version > 3]
    if kind not in known:
        raise TableError(f"{o.where}: unknown kind {kind[:80]!r}, expected one of {', '.join(known)}")
    fields = tuple(name for name in _FIELDS[kind] if name != "pad" or version > 3)
    for name in fields:
        if name not in o.fields:
            raise TableError(f"{o.where}: a {kind} without {name}")
    for name in o.fields:
        if name not in fields:
            raise TableError(f"{o.where}: a {kind} with {name[:80]!r}")
    first, pad_to, kernel = o.sizes("first", _MAX_PARTS - 1), o.whole("pad_to", 0), o.word("kernel", "")
    if kind == SPLIT and not first:
        raise TableError(f"{o.where}: a split with 0 leading parts")
    if kind == DIRECT:
        return _DIRECT  # tables have many of them
    if "kernel" in fields and not kernel:
        raise TableError(f"{o.where}: no name of a kernel")
    pad = o.text("pad", IN_PLACE if kind == PAD else "")
    if kind == PAD and pad not in (IN_PLACE, COPIED):
        raise TableError(f"{o.where}: pad is {pad[:20]!r}, expected {IN_PLACE} or {COPIED}")
    algorithm = None
    if kind == ALGORITHM:
        attributes = o.object("algorithm")
        algorithm = Algorithm(*(attributes.whole(name, 0, most=_MAX_ATTRIBUTE) for name in Algorithm._fields))
        attributes.done()
        if not any(algorithm):
            raise TableError(f"{o.where}: no attributes of an algorithm")
    return Action(kind, first, pad_to, pad, kernel, algorithm)
