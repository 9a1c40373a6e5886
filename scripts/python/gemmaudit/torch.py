"""Applies a table to the linear layers of a model: products run split or padded as in the table.

    import gemmaudit.torch
    print(gemmaudit.torch.patch(model, "table.json"))
    ...
    gemmaudit.torch.unpatch(model)

A layer with a bias follows a series with the epilogue `bias`: PyTorch runs product and bias in one launch, of cuBLASLt on a
GPU, so remedies of the product alone prove nothing for it.

For inference. In these cases layers run unchanged:

- a gradient is needed
- the device, the library version or the weight layout differs from the table (with a warning)
- PyTorch cannot run the action, such as another kernel. Algorithms of cuBLASLt work through TunableOp:
  `gemmaudit table convert --to tunableop`.
- tensors differ from the patched product in type, size, layout or device, or are not dense
- under autocast, torch.func transforms or export

Conditions that change only times, such as a power limit, are not compared: use `gemmaudit table check`.

Layers work in CUDA graphs, which keep the captured launches, and under torch.compile, which sees one operator,
gemmaudit::linear. A pad in place needs spare rows in the input's storage and is skipped without them, because it
was measured without a copy.

copy.deepcopy of a patched model follows the table too. A pickled or saved model does not, and loads without this
package: patch it after loading. The state_dict does not change.
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
    """A table or a part of it is not applied."""


class Patched(NamedTuple):
    """Result of `patch`."""

    #: names of the layers that follow the table
    layers: Tuple[str, ...]
    #: intervals of these layers that PyTorch runs, and that it cannot run
    applied: int
    passed_over: int

    def __repr__(self) -> str:
        if not self.layers:
            return "no layer follows the table"
        which = ", ".join(self.layers) if len(self.layers) < 4 else f"{self.layers[0]} to {self.layers[-1]}"
        words = f"{len(self.layers)} layers follow" if len(self.layers) > 1 else "1 layer follows"
        return f"{words} the table ({which}); intervals: {self.applied} apply, {self.passed_over} skipped (another kernel)"


_DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16", torch.float32: "fp32"}


def dtype_name(dtype: torch.dtype, device: Union[str, torch.device] = "cuda") -> str:
    """The name of a type in tables, including the fp32 precision of the device; "" for other types."""
    if dtype == torch.float32:
        # Settings of PyTorch 2.9 and later. The older ones raise if a program uses the new ones.
        backend: Any = torch.backends.cuda if torch.device(device).type == "cuda" else torch.backends.mkldnn
        precision = backend.matmul.fp32_precision
        if precision not in ("none", "ieee"):
            return "tf32" if precision == "tf32" else ""
    return _DTYPES.get(dtype, "")


def layout_of(weight: torch.Tensor) -> str:
    """The layout of a linear layer's n by k weight; "" for other layouts."""
    if weight.layout is not torch.strided or weight.is_nested or weight.dim() != 2:
        return ""
    n, k = weight.shape
    if weight.stride() == (k, 1):
        return NK
    return KN if weight.stride() == (1, n) else ""


# Products.


def _epilogue(bias: Optional[torch.Tensor]) -> str:
    """What a launch of F.linear does with the product, as in tables."""
    return "" if bias is None else "bias"


def _usable(action: Action) -> bool:
    return action.kind in (SPLIT, PAD)


def _room(x: torch.Tensor, rows: int) -> bool:
    """Whether the storage of x has room for so many rows."""
    held = x.untyped_storage().nbytes() // x.element_size()
    return bool(x.stride() == (x.shape[1], 1) and x.storage_offset() + rows * x.shape[1] <= held)


def _multiply(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], out: torch.Tensor) -> None:
    if bias is None:
        torch.mm(x, weight.t(), out=out)
    else:
        torch.addmm(bias, x, weight.t(), out=out)


def execute(action: Action, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor] = None) -> torch.Tensor:
    """x · weightᵀ + bias for rows x, with the action if it applies.

    Parts of a split are written into one output without gradient. The output of a padded product has spare rows.
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
    """A series and the weights that follow it."""

    series: Series
    device: torch.device
    dtype: torch.dtype
    stride: Tuple[int, int]
    #: identifies the plan for the operator; the same in every process for the same series
    number: int

    @classmethod
    def of(cls, series: Series, weight: torch.Tensor) -> "_Plan":
        digest = hashlib.sha256(repr((series, weight.device)).encode()).digest()
        return cls(series, weight.device, weight.dtype, (weight.stride(0), weight.stride(1)), int.from_bytes(digest[:8], "big") >> 1)

    def __deepcopy__(self, memo: Dict[int, Any]) -> "_Plan":
        return self

    def changes(self, x: torch.Tensor) -> bool:
        """Whether the table has an action for the rows of x. Rarely true, so it is checked first."""
        if type(x) is not torch.Tensor or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            return False
        return _usable(self.series.lookup(x.numel() // self.series.product.k))

    def follows(self, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> bool:
        """Whether the plan is for the product x · weightᵀ + bias."""
        for t in (x, weight) if bias is None else (x, weight, bias):
            if type(t) is not torch.Tensor and type(t) is not torch.nn.Parameter:
                return False
            if t.layout is not torch.strided or t.is_nested or t.dtype != self.dtype or t.device != self.device:
                return False
        if weight.shape != (self.series.product.n, self.series.product.k) or weight.stride() != self.stride:
            return False
        if self.series.product.epilogue != _epilogue(bias):
            return False
        return x.dim() > 0 and x.shape[-1] == weight.shape[1] and (bias is None or bias.shape == weight.shape[:1])

    def run(self, x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> torch.Tensor:
        product = self.series.product
        action = self.series.lookup(x.numel() // product.k)
        if not _usable(action) or dtype_name(self.dtype, self.device) != product.dtype:
            return F.linear(x, weight, bias)
        out = execute(action, x.reshape(-1, product.k), weight, bias)
        return out.view(*x.shape[:-1], product.n)


# Plans by number. A layer keeps its plan alive.
_plans: "WeakValueDictionary[int, _Plan]" = WeakValueDictionary()


def _observed(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor]) -> bool:
    """Whether the product is differentiated, transformed, cast or recorded and must be PyTorch's own."""
    tensors = (x, weight) if bias is None else (x, weight, bias)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return True
    # Under torch.compile, "is not None" is true for its interpreter object.
    transformed = not isinstance(peek_interpreter_stack(), type(None))
    if transformed or torch.is_autocast_enabled(x.device.type):
        return True
    if torch.compiler.is_compiling():
        exporting: bool = torch.compiler._is_exporting_flag  # is_exporting() is always true when PyTorch 2.11 compiles
        return exporting
    return any(forward_ad.unpack_dual(t).tangent is not None for t in tensors)  # type: ignore[no-untyped-call]


@torch.library.custom_op("gemmaudit::linear", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor? bias, int plan) -> Tensor")
def _linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    if plan < 0:
        raise ValueError(f"gemmaudit::linear: plan is {plan}, expected that of a layer that follows a table")
    # A compiled graph may outlive its layers: then compute the plain product.
    held = _plans.get(plan)
    if held is not None and held.follows(x, weight, bias):
        return held.run(x, weight, bias).contiguous()
    return F.linear(x, weight, bias).contiguous()


@_linear.register_fake
def _(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], plan: int) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


class Linear(torch.nn.Linear):
    """A linear layer that follows a table. `patch` sets this class, `unpatch` removes it."""

    _gemmaudit_plan: Optional[_Plan] = None

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        # Derived classes (parametrizations, sharding) compute their weights. A hook may have kept this method after
        # unpatch.
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
        # Protocol 2 and later insist on the object's own class.
        made: Any = super().__reduce_ex__(1)
        make, (mine, *base), state = made
        state = {name: value for name, value in state.items() if name != _PLAN}
        return make, (torch.nn.Linear if mine is Linear else mine, *base), state


_PLAN = "_gemmaudit_plan"


# Models.


def patch(model: torch.nn.Module, table: Union[Table, str, "os.PathLike[str]"], kernel: Optional[str] = None) -> Patched:
    """Makes the model's linear layers follow a table or table file until `unpatch`.

    `kernel` is PyTorch's kernel by its name in the table: by default cublas on a GPU, or cublaslt for layers with a bias,
    and on a CPU the only kernel of the table. Warns if layers cannot follow the table. Layers with their own forward, as hooks set it, keep it and
    run unchanged; a forward set later may call the patched one.
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
        _warn(f"the model is on {len(devices)} devices, a table is for one: its layers run unchanged")
        return Patched((), 0, 0)
    for device in devices:
        if device.type not in ("cuda", "cpu"):
            _warn(f"the model is on {device}, tables are for GPUs and CPUs: its layers run unchanged")
            return Patched((), 0, 0)
        different = conditions(table, device)
        if different:
            words = "; ".join(f"{name} {held!r}, here {here!r}" for name, held, here in different)
            _warn(f"the table was measured under other conditions ({words}): layers run unchanged")
            return Patched((), 0, 0)
    names: List[str] = []
    plans: Dict[Product, _Plan] = {}
    others: List[str] = []
    owners: List[str] = []
    unproven: List[str] = []
    for name, module in layers:
        layout = layout_of(module.weight)
        if not layout:
            continue
        n, k = module.weight.shape
        device, epilogue = module.weight.device, _epilogue(module.bias)
        product = Product(kernel or _kernel(table, device, epilogue), dtype_name(module.weight.dtype, device), layout, n, k, "", epilogue)
        series = table.find(product)
        if series is None:
            plain = product._replace(kernel=kernel or _kernel(table, device, ""), epilogue="")
            if table.find(product._replace(layout=KN if layout == NK else NK)) is not None:
                others.append(name)
            elif epilogue and table.find(plain) is not None:
                unproven.append(name)
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
        _warn(f"the table has the other weight layout for {len(others)} layers, such as {others[0]}: they run unchanged")
    if owners:
        _warn(f"{len(owners)} layers have their own forward, such as {owners[0]}: they run unchanged (patch before you add hooks)")
    if unproven:
        _warn(f"the table has no product with bias for {len(unproven)} layers, such as {unproven[0]}: they run unchanged (measure them "
              "with --epilogue bias)")
    if not names and not others and not owners and not unproven:
        tried = sorted({kernel or _kernel(table, m.weight.device, _epilogue(m.bias)) for _, m in layers} - {""})
        _warn(f"the table has no product of the model for {' or '.join(tried) or 'any kernel'}: its layers run unchanged")
    actions = [i.action for plan in plans.values() for i in plan.series.intervals if i.action.kind != DIRECT]
    applied = sum(map(_usable, actions))
    return Patched(tuple(names), applied, len(actions) - applied)


def unpatch(model: torch.nn.Module) -> None:
    """Undoes `patch`."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = torch.nn.Linear  # type: ignore[assignment]
        vars(module).pop(_PLAN, None)


def _followed(model: torch.nn.Module) -> List[Series]:
    """The series of each patched layer."""
    return [m._gemmaudit_plan.series for m in model.modules() if type(m) is Linear and m._gemmaudit_plan is not None]


def _sure(action: Action) -> bool:
    """Whether an action always applies: a pad in place needs spare rows."""
    return action.kind == SPLIT or action.kind == PAD and action.pad == COPIED


def sizes(model: torch.nn.Module, most: int = 1 << 20) -> Tuple[int, ...]:
    """Representative m up to most for a patched model: the ends, the middle and the measured m of each interval with
    a split or a copied pad."""
    found = set()
    for series in {id(s): s for s in _followed(model)}.values():
        for i in series.intervals:
            if _sure(i.action):
                measured = i.last - (i.last - i.first) // i.step * i.step
                middle = measured + (i.last - measured) // 2 // i.step * i.step
                found |= {m for m in (i.first, middle, i.last, *(p.m for p in i.proofs)) if m <= most}
    return tuple(sorted(found))


def saving(model: torch.nn.Module, m: int) -> float:
    """Seconds that the table saves in a pass of m rows through all layers of a patched model, by the measurement
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


def _kernel(table: Table, device: torch.device, epilogue: str) -> str:
    """The name of the kernel that PyTorch runs; "" if it is unknown."""
    names = {s.product.kernel for s in table.series if s.product.epilogue == epilogue}
    if device.type == "cuda":
        return "cublaslt" if epilogue else "cublas"
    return names.pop() if len(names) == 1 else ""
