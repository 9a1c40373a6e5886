"""Operands and results as arrays of NumPy or PyTorch."""
from . import tasks

NUMPY = {"fp32": "float32", "fp16": "float16", "int8": "int8", "int32": "int32", "uint8": "uint8"}
TORCH = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8",
         "int32": "int32", "uint8": "uint8"}
POISON = 0x5A


class Numpy:
    """Arrays of NumPy."""

    name = "numpy"

    def __init__(self, module):
        self.module = module

    def has(self, dtype):
        return dtype in NUMPY

    def view(self, buffer, shape, at=0):
        """shape as an array in the buffer, which begins at byte at."""
        size = tasks.BYTES[shape.dtype]
        dtype = self.module.dtype(NUMPY[shape.dtype])
        try:
            return self.module.ndarray(shape.sizes, dtype, buffer=buffer.memory, offset=at + shape.offset * size,
                                       strides=tuple(s * size for s in shape.strides))
        except (TypeError, ValueError) as e:
            raise ValueError("an operand %s of %s at byte %d of a buffer of %d: %s" % (shape.sizes, shape.dtype, at, buffer.bytes, e))

    def integers(self, values):
        """A new array of int32."""
        return self.module.array(values, self.module.int32)

    def check(self, result, shape):
        """What is wrong with a result, or ""."""
        if not isinstance(result, self.module.ndarray):
            return "returned %s, expected a numpy array" % kind(result)
        if result.shape != shape.sizes:
            return "returned shape %s, expected %s" % (result.shape, shape.sizes)
        if result.dtype != NUMPY[shape.dtype]:
            return "returned elements of %s, expected %s" % (result.dtype, NUMPY[shape.dtype])
        if not result.flags.c_contiguous:
            size = result.itemsize
            return "returned an array with strides %s, expected a contiguous one" % (tuple(s // size for s in result.strides),)
        return ""

    def address(self, result):
        return result.ctypes.data, result.nbytes

    def poison(self, result):
        if not result.flags.writeable:
            return
        if result.dtype.kind == "f":
            result.fill(float("nan"))
        else:
            result.view(self.module.uint8).fill(POISON)

    def copy(self, out, result):
        self.module.copyto(out, result)

    def is_array(self, value):
        return isinstance(value, self.module.ndarray)


class Torch:
    """Tensors of PyTorch on one device."""

    name = "torch"

    def __init__(self, module, device):
        self.module, self.device = module, module.device(device)

    def has(self, dtype):
        return hasattr(self.module, TORCH.get(dtype, "?"))

    def dtype(self, name):
        return getattr(self.module, TORCH[name])

    def view(self, buffer, shape, at=0):
        size = tasks.BYTES[shape.dtype]
        dtype = self.dtype(shape.dtype)
        raw = buffer.tensor(self.module)
        if at % size:
            raise ValueError("an operand of %s at byte %d is not aligned" % (shape.dtype, at))
        last = at // size + shape.offset + sum((n - 1) * s for n, s in zip(shape.sizes, shape.strides)) + 1
        if 0 not in shape.sizes and last * size > buffer.bytes:
            raise ValueError("an operand %s of %s ends at byte %d of a buffer of %d"
                             % (shape.sizes, shape.dtype, last * size, buffer.bytes))
        return self.module.empty(0, dtype=dtype, device=self.device).set_(
            raw.untyped_storage(), storage_offset=at // size + shape.offset, size=shape.sizes, stride=shape.strides)

    def integers(self, values):
        return self.module.tensor(values, dtype=self.module.int32, device=self.device)

    def check(self, result, shape):
        if not isinstance(result, self.module.Tensor):
            return "returned %s, expected a tensor" % kind(result)
        if tuple(result.shape) != shape.sizes:
            return "returned shape %s, expected %s" % (tuple(result.shape), shape.sizes)
        if result.dtype != self.dtype(shape.dtype):
            return "returned elements of %s, expected %s" % (result.dtype, self.dtype(shape.dtype))
        if result.device != self.device:
            return "returned a tensor on %s, expected %s" % (result.device, self.device)
        if not result.is_contiguous():
            return "returned a tensor with strides %s, expected a contiguous one" % (result.stride(),)
        return ""

    def address(self, result):
        return result.data_ptr(), result.numel() * result.element_size()

    def poison(self, result):
        if result.is_floating_point() and result.element_size() > 1:
            result.fill_(float("nan"))
        else:
            result.view(self.module.uint8).fill_(POISON)

    def copy(self, out, result):
        out.copy_(result)

    def is_array(self, value):
        return isinstance(value, self.module.Tensor)


def kind(value):
    """A value's type for people."""
    return "nothing" if value is None else "a " + type(value).__name__


def packed_bytes(arrays, value, buffer, seen=None, depth=4):
    """The bytes of the arrays in what prepare returned, without those in the buffer itself."""
    seen = set() if seen is None else seen
    if arrays.is_array(value):
        begin, size = arrays.address(value)
        inside = buffer.address() <= begin < buffer.address() + buffer.bytes
        if inside or begin in seen:
            return 0
        seen.add(begin)
        return size
    if depth == 0 or value is None or isinstance(value, (str, bytes, int, float, bool)):
        return 0
    if isinstance(value, dict):
        parts = list(value.values())
    elif isinstance(value, (list, tuple, set)):
        parts = list(value)
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    return sum(packed_bytes(arrays, part, buffer, seen, depth - 1) for part in parts)


class Quantized:
    """Quantized weights [N,K]: a weight is (code − zero point) · scale; without zero points, the zero point is 2^(bits−1).

    codes   uint8 [N, K·bits/8]; with 4 bits, an even k is in the lower half of its byte; of fp8, its elements [N, K]
    scales  [N/columns, K/group], rounded up
    zeros   None; uint8 [N, K/group] with 8 bits; with 4 bits, one stream of them, an even one in the lower half of its byte
    """

    def __init__(self, arrays, buffer, problem):
        raw, n, k = problem.raw_weights, problem.n, problem.k
        self.format, self.bits, self.group = raw["format"], raw["bits"], raw["group"]
        self.columns = raw.get("columns", 1)
        groups = -(-k // self.group)
        codes = "fp8" if self.format.startswith("fp8:") else "uint8"
        self.codes = arrays.view(buffer, tasks.Shape(codes, (n, k * self.bits // 8)))
        self.scales = arrays.view(buffer, tasks.Shape(raw["scale"], (-(-n // self.columns), groups)), raw["scales_at"])
        self.zeros = None
        zero_bits = raw.get("zero_bits", 0)
        if zero_bits:
            sizes = (n, groups) if zero_bits == 8 else ((n * groups * zero_bits + 7) // 8,)
            self.zeros = arrays.view(buffer, tasks.Shape("uint8", sizes), raw["zeros_at"])
