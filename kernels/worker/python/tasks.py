"""What the program asks a kernel to compute: the problem, the operands' shapes, and whether the kernel takes it."""
import functools
import inspect
import itertools
import json
import math

from .wire import PROTOCOL, UNSUPPORTED, Failure

BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "int32": 4, "uint8": 1}
PRODUCTS = ("gemm", "grouped", "fused")
NUMBERS = ("m", "lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c", "capacity", "residual_at")
DIMENSIONS = ("n", "k", "products", "columns", "queries", "query_heads", "kv_heads", "head_dim", "window", "groups",
              "top_k", "skew", "draw", "routing", "epilogue")


class Problem:
    """What to compute. Numbers that don't apply are 0, texts "".

    m; n, k and products of a gemm with its leading dimensions and strides in elements; columns and queries (rows per sequence
    of a causal mask) of a softmax; query_heads, kv_heads, head_dim, window and capacity of an attention; scale; dtype, output,
    accumulator and layout; weights, the format of quantized weights ("int4:128", "fp8:128x128"), with bits, group along K and
    columns that share a scale.

    groups of a grouped product, and sizes, the rows of each; top_k, skew, draw and routing tell where they come from.

    epilogue of a fused product: "bias", "relu", "gelu", "gelu-tanh", "silu", "gated", "residual", or "bias+" one of these;
    residual_at, where its residual begins, in elements after the first of in.

    Of a decode with a window, visible tokens begin at slot first of the cache, which is a ring of capacity slots.
    """

    def __init__(self, text):
        self.operation, self.dtype = text["operation"], text["dtype"]
        self.key = json.dumps(text, sort_keys=True)
        self.output, self.accumulator = text.get("output", ""), text.get("accumulator", "")
        self.layout = text.get("layout", "")
        for name in NUMBERS:
            setattr(self, name, int(text.get(name) or 0))
        dims = text.get("dims") or {}
        for name in DIMENSIONS:
            setattr(self, name, int(dims.get(name) or 0))
        self.sizes = tuple(int(rows) for rows in text.get("group_rows") or ())
        self.epilogue = text.get("epilogue", "")
        self.raw_weights = text.get("weights") or {}
        self.weights = self.raw_weights.get("format", "")
        self.bits, self.group = self.raw_weights.get("bits", 0), self.raw_weights.get("group", 0)
        self.columns = self.raw_weights.get("columns", 1) if self.weights else 0
        self.raw_scales = text.get("scales") or {}
        self.scale, self.visible, self.first = float(text.get("scale") or 1), 0, 0
        self.unknown = sorted(name for name in dims if name not in DIMENSIONS)
        if self.operation.startswith("attention-"):
            self.scale = 1 / math.sqrt(self.head_dim) if self.head_dim > 0 else 1.0
            self.visible = self.m
            if self.operation == "attention-decode" and 0 < self.window < self.m:
                self.visible = self.window
                self.first = (self.m - self.visible) % self.capacity if self.capacity else 0

    def __repr__(self):
        return "<problem %s>" % " ".join("%s=%s" % (k, v) for k, v in self.__dict__.items() if v and k not in ("raw_weights", "raw_scales", "key"))


class Shape:
    """An operand: elements of a type at strides, all in elements."""

    def __init__(self, dtype, sizes, strides=None, offset=0):
        self.dtype, self.sizes, self.offset = dtype, tuple(sizes), offset
        self.strides = tuple(strides) if strides is not None else contiguous(self.sizes)

    def extent(self):
        """Elements from the first to the last."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides)) + 1


def contiguous(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def inputs(p):
    """The shape of the operand that changes with every launch."""
    if p.operation in PRODUCTS:
        return matrix(p, p.dtype, (p.m, p.k), p.lda, p.stride_a)
    if p.operation in ("softmax", "log-softmax"):
        return Shape(p.dtype, (p.m, p.columns))
    return Shape(p.dtype, (rows(p), p.query_heads, p.head_dim))


def scales(p):
    """The shape of the scales of activations [M, groups of K], and where they begin after the first element of in, in bytes."""
    s = p.raw_scales
    return Shape(s["type"], (p.m, s["groups"]), (1, s["ld"])), s["at"]


def outputs(p):
    """The shape of the result."""
    if p.operation in PRODUCTS:
        return matrix(p, p.output, (p.m, p.n // 2 if gated(p) else p.n), p.ldc, p.stride_c)
    if p.operation in ("softmax", "log-softmax"):
        return Shape(p.output, (p.m, p.columns))
    return Shape(p.output, (rows(p), p.query_heads, p.head_dim))


def stored(p):
    """The shapes of the operands that stay in memory: plain weights, or keys and values."""
    sides = (p.n, p.k) if p.layout == "nk" else (p.k, p.n)
    if p.operation == "gemm":
        return [matrix(p, p.dtype, sides, p.ldb, p.stride_b)]
    if p.operation == "fused":
        return [Shape(p.dtype, sides)]
    if p.operation == "grouped":
        return [Shape(p.dtype, (p.groups,) + sides)]
    if not p.operation.startswith("attention-"):
        return []
    slots, first = p.visible, p.first
    if first + slots > p.capacity:  # the ring wraps around: all of it
        slots, first = p.capacity, 0
    strides, heads = (p.capacity * p.head_dim, p.head_dim, 1), p.kv_heads * p.capacity * p.head_dim
    sizes = (p.kv_heads, slots, p.head_dim)
    return [Shape(p.dtype, sizes, strides, at + first * p.head_dim) for at in (0, heads)]


def bias(p):
    """The shape of a fused product's bias, which follows the weights; None without one."""
    return Shape(p.dtype, (p.n,), offset=p.n * p.k) if p.epilogue.startswith("bias") else None


def step(p):
    """The epilogue without the bias: "gelu", or empty."""
    return p.epilogue.partition("+")[2] if bias(p) else p.epilogue


def gated(p):
    """Whether a fused product multiplies the activated first half of its columns, gates, by the second."""
    return step(p) == "gated"


def residual(p):
    """The shape of a fused product's residual in the buffer of in, from its first element on; None without one."""
    return Shape(p.dtype, (p.m, p.n), offset=p.residual_at) if step(p) == "residual" else None


def activation(p):
    """The activation: "gelu", or empty."""
    return "silu" if gated(p) else "" if residual(p) else step(p)


def rows(p):
    return 1 if p.operation == "attention-decode" else p.m


def matrix(p, dtype, sizes, ld, stride):
    ld = ld or sizes[1]
    if p.products:
        return Shape(dtype, (p.products,) + sizes, (stride or sizes[0] * ld, ld, 1))
    return Shape(dtype, sizes, (ld, 1))


def takes(fn, name):
    """Whether a function has a parameter of that name."""
    try:
        return name in parameters(fn)
    except (TypeError, ValueError):
        return False


@functools.lru_cache(maxsize=256)
def parameters(fn):
    return frozenset(inspect.signature(fn).parameters)


def ends(p):
    """Where the rows of each group end."""
    return list(itertools.accumulate(p.sizes))


def with_problem(fn, p):
    """The keyword arguments for a function of the kernel's file."""
    return {"problem": p} if takes(fn, "problem") else {}


def check(kernel, p, arrays, on_gpu, asks=True):
    """Raises a Failure with the reason if the kernel does not compute the problem."""
    if p.operation == "grouped" and (len(p.sizes) != p.groups or sum(p.sizes) != p.m):
        raise Failure(PROTOCOL, "group_rows has %d groups of %d rows, expected %d of %d" % (len(p.sizes), sum(p.sizes), p.groups, p.m))
    reason = refusal(kernel, p, arrays, on_gpu)
    if reason:
        raise Failure(UNSUPPORTED, reason)
    supports = kernel.declared.supports
    if supports is None or not asks:
        return
    answer = supports(p)
    if answer is False:
        raise Failure(UNSUPPORTED, "supports refuses it", kernel.where)
    if answer is not None and answer is not True:
        raise Failure(UNSUPPORTED, str(answer), kernel.where)


def refusal(kernel, p, arrays, on_gpu):
    d = kernel.declared
    dtypes = kernel.dtypes(on_gpu)
    if p.operation != d.operation:
        return "it computes %s" % d.operation
    if p.unknown:
        return "the worker does not know the dimension %s" % p.unknown[0]
    if p.dtype not in dtypes:
        return "its dtypes are %s" % ", ".join(dtypes)
    for dtype in (p.dtype, p.output, p.raw_weights.get("scale") or p.dtype):
        if not arrays.has(dtype):
            return "%s has no %s: import torch in the file" % (arrays.name, dtype)
    if p.dtype == "tf32" and not on_gpu:
        return "tf32 needs a GPU"
    if p.operation in PRODUCTS:
        if p.layout not in d.layouts:
            return "its layouts are %s" % ", ".join(d.layouts)
        if p.products and not d.batched:
            return "it computes one product a launch"
        if p.raw_scales and not takes(kernel.fn, "scale_a"):
            return "activations with scales need a parameter scale_a"
        if bias(p) and not takes(kernel.fn, "bias"):
            return "a bias needs a parameter bias"
        if gated(p) and not takes(kernel.fn, "gated"):
            return "gates need a parameter gated"
        if residual(p) and not takes(kernel.fn, "residual"):
            return "a residual needs a parameter residual"
        if activation(p) and not gated(p) and not takes(kernel.fn, "activation"):
            return "the activation %s needs a parameter activation" % activation(p)
        return weights_refusal(d, p)
    if takes(kernel.fn, "problem"):
        return ""
    if p.operation in ("softmax", "log-softmax"):
        if p.queries:
            return "the causal mask needs a parameter problem"
        if p.scale != 1:
            return "the scale %g needs a parameter problem" % p.scale
    elif p.window:
        return "the window of %d tokens needs a parameter problem" % p.window
    return ""


def weights_refusal(d, p):
    if not p.weights:
        return "it takes quantized weights: %s" % ", ".join(d.weights) if d.weights else ""
    if not d.weights:
        return "it takes plain weights"
    kind = p.weights.partition(":")[0]
    return "" if p.weights in d.weights or kind in d.weights else "its formats of weights are %s" % ", ".join(d.weights)
