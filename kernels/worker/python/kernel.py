"""The decorator that declares kernels. It imports nothing, because the installed package and the worker share this file.

    @gemmaudit.kernel("gemm", dtypes=["bf16", "fp16"], layout="nk")
    def linear(a, b):  # a [M,K], b [N,K]; returns [M,N]
        return torch.nn.functional.linear(a, b)
"""

OPERATIONS = ("gemm", "grouped", "fused", "softmax", "log-softmax", "attention-prefill", "attention-decode")
DTYPES = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8")
LAYOUTS = ("nk", "kn")
ALIASES = {"float32": "fp32", "float": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}
LONGEST_NAME = 32

#: Every kernel that was declared, in order. The worker takes them while it loads a file.
registered = []


class Kernel:
    """A function that computes an operation, with what gemmaudit must know of it. Calling it calls the function."""

    def __init__(self, fn, name, description, operation, dtypes, layouts, weights, batched, prepare, supports, out, label, graph):
        self.fn, self.name, self.description, self.operation = fn, name, description, operation
        self.dtypes, self.layouts, self.weights, self.batched = dtypes, layouts, weights, batched
        self.prepare, self.supports, self.out, self.label, self.graph = prepare, supports, out, label, graph
        self.__wrapped__ = fn
        self.__doc__ = getattr(fn, "__doc__", None)
        self.__module__ = getattr(fn, "__module__", None)

    def __call__(self, *args, **kwargs):
        return self.fn(*args, **kwargs)

    def __repr__(self):
        return "<gemmaudit kernel %s: %s>" % (self.name, self.operation)


def kernel(operation, *, name=None, dtypes=None, layout="nk", weights=None, batched=False, prepare=None, supports=None, out=False,
           label=None, graph=True, description=None):
    """Declares that a function computes an operation. Use it as a decorator, or call its result with a callable.

    operation    "gemm", "grouped", "fused", "softmax", "log-softmax", "attention-prefill" or "attention-decode"
    name         selects the kernel, in lower case; the function's name by default
    dtypes       operand types: "fp32", "tf32", "fp16", "bf16", "fp8", "int8"; by default the floating-point types that the
                 arrays of the file have
    layout       of weights: "nk" (as linear layers store them), "kn", or a list of both
    weights      formats of quantized weights: "int4:128", "fp8:128x128", or "int4" for any group
    batched      whether a gemm takes a [products, M, K] and b [products, N, K]
    prepare      prepare(b) packs weights before the timing; the function gets what it returns in the place of b
    supports     supports(problem) returns None or True, or refuses with False or a reason
    out          whether the function writes to its keyword argument out; otherwise it returns a new result
    label        what runs (tile, configuration): a text, or a function of the problem
    graph        False: never capture it into a CUDA graph
    description  a line for people; the first of the function's documentation by default

    A function for "grouped" has a parameter offsets, an int32 tensor with the end of each group's rows, or sizes, a list of the rows
    of each group, or both.

    A function for "fused" has some of these parameters, and gets no products that need others: bias, an array [N] or None;
    activation, "" or "relu", "gelu", "gelu-tanh" or "silu"; gated, whether it returns [M,N/2], the activated first half of the
    columns times the second half; residual, an array [M,N] or None.

    With weights of fp8, activations have scales, too: a parameter scale_a, fp32 [M, K/group] with strides (1, ≥ M).

    A parameter of the function or of prepare that is named problem receives the problem: its m, n, k, dtype and so on.
    """
    if callable(operation):
        raise TypeError('kernel: the operation is missing: expected @gemmaudit.kernel("gemm")')
    declared = {
        "operation": _one_of("operation", str(operation), OPERATIONS), "batched": bool(batched), "prepare": prepare,
        "supports": supports, "out": bool(out), "label": label, "graph": bool(graph),
        "dtypes": None if dtypes is None else tuple(_dtype(d) for d in _listed(dtypes)),
        "layouts": tuple(_one_of("layout", l, LAYOUTS) for l in _listed(layout)),
        "weights": tuple(str(w) for w in _listed(weights)),
    }
    if dtypes is not None and not declared["dtypes"]:
        raise ValueError("kernel: dtypes is empty: expected some of " + ", ".join(DTYPES))
    for what in ("prepare", "supports"):
        if declared[what] is not None and not callable(declared[what]):
            raise TypeError("kernel: %s is %r, expected a function" % (what, declared[what]))
    if label is not None and not isinstance(label, str) and not callable(label):
        raise TypeError("kernel: label is %r, expected a text or a function of the problem" % (label,))
    for what, valid in (("prepare", ("gemm", "grouped")), ("weights", ("gemm",)), ("batched", ("gemm",))):
        if declared[what] and declared["operation"] not in valid:
            raise ValueError("kernel: %s is for %s, not for %s" % (what, " and ".join(valid), operation))

    def declare(fn):
        if isinstance(fn, Kernel):
            fn = fn.fn
        if not callable(fn):
            raise TypeError("kernel: %r is no function" % (fn,))
        called = name if name is not None else _derived(fn)
        _check_name(called)
        about = description if description is not None else (getattr(fn, "__doc__", None) or "").strip().partition("\n")[0]
        k = Kernel(fn, called, " ".join(about.split()), **declared)
        registered.append(k)
        return k

    return declare


def _listed(value):
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]


def _dtype(value):
    word = str(value)
    if word.startswith("torch."):
        word = word[len("torch."):]
    return _one_of("dtype", ALIASES.get(word, word), DTYPES)


def _one_of(what, value, valid):
    if value not in valid:
        raise ValueError("kernel: unknown %s %r: expected one of %s" % (what, value, ", ".join(valid)))
    return value


def _derived(fn):
    called = getattr(fn, "__name__", None)
    if not isinstance(called, str) or called == "<lambda>":
        raise ValueError("kernel: %r has no name: expected name=" % (fn,))
    return called


def _valid_name(called):
    lower, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
    good = isinstance(called, str) and 0 < len(called) <= LONGEST_NAME and called[0] in lower
    return good and all(c in lower + digits + "-_" for c in called)


def _check_name(called):
    if _valid_name(called):
        return
    advice = ""
    if isinstance(called, str) and _valid_name(called.lower()):
        advice = ", as in name=%r" % called.lower()
    raise ValueError("kernel: name %r: expected a lower-case letter, then lower-case letters, digits, - or _, at most %d in all%s"
                     % (called, LONGEST_NAME, advice))
