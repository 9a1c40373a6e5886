"""Applies a table to the linear layers of a model: products run in parts, or padded, as the table says.

    import gemmaudit, gemmaudit.torch
    handle = gemmaudit.torch.patch(model, gemmaudit.read("table.json"))
    ...
    gemmaudit.torch.unpatch(model)

For inference: where a gradient is wanted, layers run as they are. They do so too, with a warning, where the
device, the version of the library, or the layout of the weights is another one than the table's; and without one
where an action can't be told to PyTorch, as another kernel can't (an algorithm of cuBLASLt can, by PyTorch's
TunableOp: `gemmaudit table convert --to tunableop`). What changes only times, such as a power limit, is not
looked at: `gemmaudit table check` does, and measures.

Layers work in CUDA graphs, which keep the launches of the rows that they were captured with, and under
torch.compile, which sees one operator, gemmaudit::linear. Padding in place happens where the input's own storage
has room behind its rows; where it has none, such an entry is passed over, as it was proven without a copy.
"""
from __future__ import annotations

import ctypes
import re
import types
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F

from .table import COPIED, DIRECT, KN, NK, PAD, SPLIT, Action, Product, Series, Table, Validators


class TableWarning(UserWarning):
    """A table, or a part of it, is not applied."""


class Patched(NamedTuple):
    """What `patch` did."""

    #: names of the layers that follow the table
    layers: Tuple[str, ...]
    #: how many intervals of the table's series for these layers PyTorch runs, and how many it can't be told
    applied: int
    passed_over: int


_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}
_MARK = "_gemmaudit_plan"

# Series that layers follow, by the number that their operator is called with.
_plans: List[Series] = []


def dtype_name(dtype: torch.dtype) -> str:
    """A type as tables name it; empty for one that they don't have."""
    if dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        return "tf32"
    return _DTYPES.get(dtype, "")


def layout_of(weight: torch.Tensor) -> str:
    """How a linear layer's weight of n by k lies in memory; empty where it is neither layout."""
    n, k = weight.shape
    if weight.stride() == (k, 1):
        return NK
    return KN if weight.stride() == (1, n) else ""


# Products.


def _usable(action: Action) -> bool:
    return action.kind in (SPLIT, PAD)


def _room(x: torch.Tensor, rows: int) -> bool:
    """Whether the storage of the rows of x goes on for so many rows."""
    held = x.untyped_storage().nbytes() // x.element_size()
    return bool(x.stride() == (x.shape[1], 1) and x.storage_offset() + rows * x.shape[1] <= held)


def _multiply(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], out: torch.Tensor) -> None:
    if bias is None:
        torch.mm(x, weight.t(), out=out)
    else:
        torch.addmm(bias, x, weight.t(), out=out)


def execute(action: Action, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """x · weightᵀ + bias for rows x, as the action says; as it is where the action does not apply.

    Parts of a split are written into one output. A padded product's output has room behind its rows.
    """
    m, k = x.shape
    n = weight.shape[0]
    if action.kind == SPLIT:
        out, at = x.new_empty((m, n)), 0
        for rows in action.parts(m):
            _multiply(x[at:at + rows], weight, bias, out[at:at + rows])
            at += rows
        return out
    if action.kind == PAD and action.pad_to > m:
        wide: Optional[torch.Tensor] = None
        if _room(x, action.pad_to):
            wide = x.as_strided((action.pad_to, k), (k, 1))
        elif action.pad == COPIED:
            wide = x.new_empty((action.pad_to, k))
            wide[:m].copy_(x)
        if wide is not None:
            out = x.new_empty((action.pad_to, n))
            _multiply(wide, weight, bias, out)
            return out[:m]
    return F.linear(x, weight, bias)


@torch.library.custom_op("gemmaudit::linear", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias, int plan) -> Tensor")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    rows = x.reshape(-1, x.shape[-1])
    out = execute(_plans[plan].lookup(rows.shape[0]), rows, weight, bias)
    return out.view(*x.shape[:-1], weight.shape[0])


@_linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _forward(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    wants = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
    if wants or torch.is_autocast_enabled(x.device.type) or x.dtype != self.weight.dtype:
        return F.linear(x, self.weight, self.bias)
    plan: int = getattr(self, _MARK)
    if torch.compiler.is_compiling():
        compiled: torch.Tensor = torch.ops.gemmaudit.linear(x, self.weight, self.bias, plan)
        return compiled
    rows = x.numel() // x.shape[-1] if x.shape[-1] else 0
    action = _plans[plan].lookup(rows)
    if not _usable(action):
        return F.linear(x, self.weight, self.bias)
    out = execute(action, x.reshape(-1, x.shape[-1]), self.weight, self.bias)
    return out.view(*x.shape[:-1], out.shape[-1])


# Models.


def patch(model: torch.nn.Module, table: Table, kernel: Optional[str] = None) -> Patched:
    """Has the model's linear layers follow a table, until `unpatch`.

    `kernel` is the kernel that PyTorch runs, as the table names it: by default cublas on a GPU, and on a CPU
    the one kernel of the table. What keeps layers from following the table is warned of.
    """
    unpatch(model)
    layers = [(name, m) for name, m in model.named_modules() if type(m) is torch.nn.Linear]
    devices = {m.weight.device for _, m in layers}
    if len(devices) > 1:
        _warn(f"the model lies on {len(devices)} devices, a table holds for one: its layers run as they are")
        return Patched((), 0, 0)
    for device in devices:
        different = conditions(table, device)
        if different:
            words = "; ".join(f"{name} {held!r}, here {here!r}" for name, held, here in different)
            _warn(f"the table was measured under other conditions ({words}): layers run as they are")
            return Patched((), 0, 0)
        kernel = kernel or _kernel(table, device)
    names: List[str] = []
    plans: Dict[Product, int] = {}
    others: List[str] = []
    for name, module in layers:
        n, k = module.weight.shape
        layout = layout_of(module.weight)
        product = Product(kernel or "", dtype_name(module.weight.dtype), layout, n, k)
        series = table.find(product)
        if series is None:
            if table.find(product._replace(layout=KN if layout == NK else NK)) is not None:
                others.append(name)
            continue
        if product not in plans:
            plans[product] = len(_plans)
            _plans.append(series)
        setattr(module, _MARK, plans[product])
        module.forward = types.MethodType(_forward, module)  # type: ignore[method-assign]
        names.append(name)
    if others:
        _warn(f"the table's weights lie in the other layout than those of {len(others)} layers, as {others[0]}: they run as they are")
    elif not names:
        _warn(f"the table has no product of the model by {kernel or 'any kernel'}: its layers run as they are")
    actions = [i.action for plan in plans.values() for i in _plans[plan].intervals if i.action.kind != DIRECT]
    applied = sum(map(_usable, actions))
    return Patched(tuple(names), applied, len(actions) - applied)


def unpatch(model: torch.nn.Module) -> None:
    """Has the model's layers run as they did before `patch`."""
    for module in model.modules():
        if hasattr(module, _MARK):
            delattr(module, _MARK)
            del module.forward


def _followed(model: torch.nn.Module) -> List[Series]:
    """The series of each layer that follows a table."""
    return [_plans[getattr(m, _MARK)] for m in model.modules() if hasattr(m, _MARK)]


def _sure(action: Action) -> bool:
    """Whether an action applies wherever its rows lie: padding in place needs room behind them."""
    return action.kind == SPLIT or action.kind == PAD and action.pad == COPIED


def sizes(model: torch.nn.Module, most: int = 1 << 20) -> Tuple[int, ...]:
    """The ms, up to most, that stand for a patched model's table: where a layer runs in parts or is padded with
    a copy, the ends and the middle of the interval and where it was proven."""
    found = set()
    for series in {id(s): s for s in _followed(model)}.values():
        for i in series.intervals:
            if _sure(i.action):
                middle = i.first + (i.last - i.first) // 2 // i.step * i.step
                found |= {m for m in (i.first, middle, i.last, *(p.m for p in i.proofs)) if m <= most}
    return tuple(sorted(found))


def saving(model: torch.nn.Module, m: int) -> float:
    """Seconds that the table promises to save of a pass of m rows through all layers of a patched model, by the proof
    nearest to m of each product."""
    total = 0.0
    for series in _followed(model):
        for i in series.intervals:
            if i.first <= m <= i.last and i.proofs and _sure(i.action):
                p = min(i.proofs, key=lambda p: abs(p.m - m))
                total += p.direct_us * (1 - 1 / p.gain_mid) * 1e-6
    return total


def _warn(text: str) -> None:
    warnings.warn(text, TableWarning, stacklevel=3)


def _kernel(table: Table, device: torch.device) -> str:
    names = {s.product.kernel for s in table.series}
    if device.type == "cuda":
        return "cublas"
    return names.pop() if len(names) == 1 else ""


# Conditions.


def conditions(table: Table, device: torch.device) -> List[Tuple[str, str, str]]:
    """Names, held and present values of the conditions in which a device differs from the table's."""
    held = table.validators
    return Validators(
        device=held.device, driver=held.driver, libraries=held.libraries, arch=held.arch, cores=held.cores, threads=held.threads,
    ).differences(validators(device))


def validators(device: torch.device) -> Validators:
    """What PyTorch tells of a device. What it does not is left open."""
    if device.type == "cuda":
        p = torch.cuda.get_device_properties(device)
        torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]  # loads the library
        return Validators(device=p.name, driver=_driver(), libraries=_libraries(), cores=p.multi_processor_count)
    if device.type == "cpu":
        return Validators(device=_processor(), threads=torch.get_num_threads())
    return Validators(device=device.type)


def _driver() -> str:
    try:
        with open("/sys/module/nvidia/version", encoding="ascii") as f:
            return f.read().strip()
    except (OSError, ValueError):
        return ""


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            found = re.search(r"^model name\s*:\s*(.*)$", f.read(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1).strip() if found else ""


def _libraries() -> Dict[str, str]:
    """Versions of the libraries that are loaded, as they tell them themselves."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as f:
            paths = {line.split()[-1] for line in f if "/libcublas" in line}
    except OSError:
        return {}
    found: Dict[str, str] = {}
    for path in sorted(paths):
        for name, file, function in (("cublas", "libcublas.so", "cublasGetProperty"), ("cublaslt", "libcublasLt.so", "cublasLtGetProperty")):
            if "/" + file in path:
                version = _version(path, function)
                if version:
                    found[name] = version
    return found


def _version(path: str, function: str) -> str:
    try:
        ask: Any = getattr(ctypes.CDLL(path), function)
    except (OSError, AttributeError):
        return ""
    words = []
    for which in range(3):  # major, minor, patch
        value = ctypes.c_int()
        if ask(which, ctypes.byref(value)) != 0:
            return ""
        words.append(str(value.value))
    return ".".join(words)
