"""Applies a table to the linear layers of a model: products run in parts, or padded, as the table says.

    import gemmaudit.torch
    print(gemmaudit.torch.patch(model, "table.json"))
    ...
    gemmaudit.torch.unpatch(model)

For inference: where a gradient is wanted, layers run as they are. They do so too, with a warning, where the
device, the version of the library, or the layout of the weights is another one than the table's; and without one
where an action can't be told to PyTorch, as another kernel can't (an algorithm of cuBLASLt can, by PyTorch's
TunableOp: `gemmaudit table convert --to tunableop`). What changes only times, such as a power limit, is not
looked at: `gemmaudit table check` does, and measures.

A layer follows the table as long as its product is the one that was patched: dense tensors of the same type, size,
layout and device, outside of autocast, of torch.func's transforms and of export. Everything else is the plain product.

Layers work in CUDA graphs, which keep the launches of the rows that they were captured with, and under
torch.compile, which sees one operator, gemmaudit::linear. Padding in place happens where the input's own storage
has room behind its rows; where it has none, such an entry is passed over, as it was proven without a copy.

copy.deepcopy of a patched model follows the table too. What is pickled or saved does not, and loads without this
package: patch it where it is loaded. A state_dict is that of the model as it was.
"""
from __future__ import annotations

import copy
import hashlib
import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union
from weakref import WeakValueDictionary

import torch
import torch.nn.functional as F
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

from .conditions import conditions as conditions
from .conditions import validators as validators
from .table import COPIED, DIRECT, KN, NK, PAD, SPLIT, Action, Product, Series, Table, read


class TableWarning(UserWarning):
    """A table, or a part of it, is not applied."""


class Patched(NamedTuple):
    """What `patch` did."""

    #: names of the layers that follow the table
    layers: Tuple[str, ...]
    #: how many intervals of the table's series for these layers PyTorch runs, and how many it can't be told
    applied: int
    passed_over: int

    def __repr__(self) -> str:
        if not self.layers:
            return "no layer follows the table"
        which = ", ".join(self.layers) if len(self.layers) < 4 else f"{self.layers[0]} to {self.layers[-1]}"
        words = f"{len(self.layers)} layers follow" if len(self.layers) > 1 else "1 layer follows"
        return f"{words} the table ({which}); intervals: {self.applied} apply, {self.passed_over} do not"


_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


def dtype_name(dtype: torch.dtype, device: Union[str, torch.device] = "cuda") -> str:
    """A type as tables name it, with the precision that products of fp32 have on a device; empty for one that
    tables don't have."""
    if dtype == torch.float32:
        # Names of settings that PyTorch has from 2.9 on. Those before raise where a program uses the later ones.
        backend: Any = torch.backends.cuda if torch.device(device).type == "cuda" else torch.backends.mkldnn
        precision = backend.matmul.fp32_precision
        if precision not in ("none", "ieee"):
            return "tf32" if precision == "tf32" else ""
    return _DTYPES.get(dtype, "")


def layout_of(weight: torch.Tensor) -> str:
    """How a linear layer's weight of n by k lies in memory; empty where it is neither layout."""
    if weight.layout is not torch.strided or weight.is_nested or weight.dim() != 2:
        return ""
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

    Parts of a split are written into one output, which records no gradient. A padded product's output has room
    behind its rows.
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


# Plans.


@dataclass(frozen=True, eq=False)
class _Plan:
    """A series, and the weights that follow it."""

    series: Series
    device: torch.device
    dtype: torch.dtype
    stride: Tuple[int, int]
    #: by which the operator is told of it: the same in every process for the same series
    number: int

    @classmethod
    def of(cls, series: Series, weight: torch.Tensor) -> "_Plan":
        digest = hashlib.sha256(repr((series, weight.device)).encode()).digest()
        return cls(series, weight.device, weight.dtype, (weight.stride(0), weight.stride(1)), int.from_bytes(digest[:8], "big") >> 1)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "_Plan":
        return self

    def changes(self, x: torch.Tensor) -> bool:
        """Whether the table has something to do for the rows of x. It seldom has, so this is asked before all else."""
        if type(x) is not torch.Tensor or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return False
        return _usable(self.series.lookup(x.numel() // self.series.product.k))

    def follows(self, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> bool:
        """Whether x · weightᵀ + bias is a product that the plan is for."""
        for t in (x, weight) if bias is None else (x, weight, bias):
            if type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter:
                return False
            if t.layout is not torch.strided or t.is_nested or t.dtype != self.dtype or t.device != self.device:
                return False
        if weight.shape != (self.series.product.n, self.series.product.k) or weight.stride() != self.stride:
            return False
        return x.dim() > 0 and x.shape[-1] == weight.shape[1] and (bias is None or bias.shape == weight.shape[:1])

    def run(self, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
        product = self.series.product
        action = self.series.lookup(x.numel() // product.k)
        if not _usable(action) or dtype_name(self.dtype, self.device) != product.dtype:
            return F.linear(x, weight, bias)
        out = execute(action, x.reshape(-1, product.k), weight, bias)
        return out.view(*x.shape[:-1], product.n)


# Plans of layers, by their numbers. A layer keeps its plan alive.
_plans: "WeakValueDictionary[int, _Plan]" = WeakValueDictionary()


def _observed(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> bool:
    """Whether the product is differentiated, transformed, cast or recorded, so that it has to be PyTorch's own."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return True
    # torch.compile takes "is not None" of its own stand-in for the interpreter as true.
    transformed = not isinstance(peek_interpreter_stack(), type(None))
    if transformed or torch.is_autocast_enabled(x.device.type):
        return True
    if torch.compiler.is_compiling():
        exporting: bool = torch.compiler._is_exporting_flag  # is_exporting() is true of all that PyTorch 2.11 compiles
        return exporting
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors)  # type: ignore[no-untyped-call]


@torch.library.custom_op("gemmaudit::linear", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias, int plan) -> Tensor")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    if plan < 0:
        raise ValueError(f"gemmaudit::linear: plan is {plan}, expected that of a layer that follows a table")
    # A compiled graph may outlive the layers that followed the plan: the product is the plain one then.
    held = _plans.get(plan)
    if held is not None and held.follows(x, weight, bias):
        return held.run(x, weight, bias).contiguous()
    return F.linear(x, weight, bias).contiguous()


@_linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


class Linear(torch.nn.Linear):
    """A linear layer that follows a table: the class that `patch` gives to layers, and `unpatch` takes back."""

    _gemmaudit_plan: Optional[_Plan] = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Classes derived from this one, as parametrizations and sharding derive them, compute their weights; a hook may
        # have kept this method of a layer that is unpatched since.
        plan = self._gemmaudit_plan if type(self) is Linear else None
        if plan is None:
            return torch.nn.Linear.forward(self, input)
        weight, bias = self.weight, self.bias
        compiling = torch.compiler.is_compiling()
        if not (compiling or plan.changes(input)) or not plan.follows(input, weight, bias) or _observed(input, weight, bias):
            return F.linear(input, weight, bias)
        if compiling:
            compiled: torch.Tensor = torch.ops.gemmaudit.linear(input, weight, bias, plan.number)
            return compiled
        return plan.run(input, weight, bias)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Linear":
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__ = copy.deepcopy(self.__dict__, memo)
        return other

    def __reduce_ex__(self, protocol: Any) -> Any:
        # From protocol 2 on pickle insists on the object's own class.
        made: Any = super().__reduce_ex__(1)
        make, (mine, *base), state = made
        state = {name: value for name, value in state.items() if name != _PLAN}
        return make, (torch.nn.Linear if mine is Linear else mine, *base), state


_PLAN = "_gemmaudit_plan"


# Models.


def patch(model: torch.nn.Module, table: Union[Table, str, "os.PathLike[str]"], kernel: Optional[str] = None) -> Patched:
    """Has the model's linear layers follow a table, or that of a file, until `unpatch`.

    `kernel` is the kernel that PyTorch runs, as the table names it: by default cublas on a GPU, and on a CPU
    the one kernel of the table. What keeps layers from following the table is warned of. Layers with a forward of
    their own, as hooks set it, keep it and run as they are; a forward that is set later may call the patched one.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, expected a torch.nn.Module")
    if isinstance(table, (str, os.PathLike)):
        table = read(table)
    if not isinstance(table, Table):
        raise TypeError(f"table is a {type(table).__name__}, expected the path of a table in JSON, or what gemmaudit.read returns")
    unpatch(model)
    layers = [(name, m) for name, m in model.named_modules() if type(m) is torch.nn.Linear and isinstance(m.weight, torch.Tensor)]
    devices = {m.weight.device for _, m in layers}
    if len(devices) > 1:
        _warn(f"the model lies on {len(devices)} devices, a table holds for one: its layers run as they are")
        return Patched((), 0, 0)
    for device in devices:
        if device.type not in ("cuda", "cpu"):
            _warn(f"the model lies on {device}, tables are of GPUs and CPUs: its layers run as they are")
            return Patched((), 0, 0)
        different = conditions(table, device)
        if different:
            words = "; ".join(f"{name} {held!r}, here {here!r}" for name, held, here in different)
            _warn(f"the table was measured under other conditions ({words}): layers run as they are")
            return Patched((), 0, 0)
        kernel = kernel or _kernel(table, device)
    names: List[str] = []
    plans: Dict[Product, _Plan] = {}
    others: List[str] = []
    owners: List[str] = []
    for name, module in layers:
        layout = layout_of(module.weight)
        if not layout:
            continue
        n, k = module.weight.shape
        product = Product(kernel or "", dtype_name(module.weight.dtype, module.weight.device), layout, n, k)
        series = table.find(product)
        if series is None:
            if table.find(product._replace(layout=KN if layout == NK else NK)) is not None:
                others.append(name)
            continue
        if "forward" in vars(module):
            owners.append(name)
            continue
        if product not in plans:
            plan = _Plan.of(series, module.weight)
            plans[product] = _plans.setdefault(plan.number, plan)
        setattr(module, _PLAN, plans[product])
        module.__class__ = Linear
        names.append(name)
    if others:
        _warn(f"the table's weights lie in the other layout than those of {len(others)} layers, as {others[0]}: they run as they are")
    if owners:
        _warn(f"{len(owners)} layers have a forward of their own, as {owners[0]}: they run as they are (patch before hooks are added)")
    if not names and not others and not owners:
        _warn(f"the table has no product of the model by {kernel or 'any kernel'}: its layers run as they are")
    actions = [i.action for plan in plans.values() for i in plan.series.intervals if i.action.kind != DIRECT]
    applied = sum(map(_usable, actions))
    return Patched(tuple(names), applied, len(actions) - applied)


def unpatch(model: torch.nn.Module) -> None:
    """Has the model's layers run as they did before `patch`."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = torch.nn.Linear  # type: ignore[assignment]
        vars(module).pop(_PLAN, None)


def _followed(model: torch.nn.Module) -> List[Series]:
    """The series of each layer that follows a table."""
    return [m._gemmaudit_plan.series for m in model.modules() if type(m) is Linear and m._gemmaudit_plan is not None]


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
                measured = i.last - (i.last - i.first) // i.step * i.step
                middle = measured + (i.last - measured) // 2 // i.step * i.step
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
