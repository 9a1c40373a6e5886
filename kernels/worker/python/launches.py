"""Launches: kernels joined with their operands."""
import functools
import zlib

from . import tasks
from .arrays import Quantized, packed_bytes
from .wire import CASE, Failure


class Weights:
    """What prepare returned, or the buffer as it is (value is None)."""

    def __init__(self, buffer, value=None):
        self.buffer, self.value = buffer, value


def prepare(kernel, problem, buffer, arrays, clock):
    """Returns Weights, the bytes that packing took, and its seconds. clock returns seconds when the device is idle."""
    if kernel.declared.prepare is None:
        return Weights(buffer), 0, 0.0
    raw = operands(problem, buffer, arrays)[0]
    begin = clock()
    value = kernel.declared.prepare(raw, **tasks.with_problem(kernel.declared.prepare, problem))
    seconds = clock() - begin
    if value is None:
        raise Failure(CASE, "prepare returned nothing, expected packed weights", kernel.where)
    return Weights(buffer, value), packed_bytes(arrays, value, buffer), seconds


def operands(problem, buffer, arrays):
    """The stored operands as arrays in their buffer."""
    if problem.weights:
        return [Quantized(arrays, buffer, problem)]
    return [arrays.view(buffer, shape) for shape in tasks.stored(problem)]


class Launch:
    """One product or the like, of a kernel.

    run() starts it and returns its result if the kernel allocates one. result keeps what the last run returned where it is needed
    later. Other fields are of the devices.
    """

    def __init__(self, number, kernel, problem, arrays, source, weights, out, part):
        self.number, self.kernel, self.problem, self.arrays = number, kernel, problem, arrays
        self.shape = tasks.outputs(problem)
        self.dtype, self.graph, self.eager = problem.dtype, kernel.declared.graph, ""
        self.kind, self.where = (kernel.name, problem.key), kernel.where
        self.ran = self.fresh = self.waits = False
        self.result = None
        self.buffers = [source[0], out[0]] + ([weights.buffer] if weights is not None else [])
        self.out = self.view(out, self.shape)
        self.place = (out[0].address(), out[1])
        size = tasks.BYTES[problem.dtype]
        self.reads = [(source[0], source[1] * size, tasks.inputs(problem).extent() * size)]
        if weights is not None:
            self.reads.append((weights.buffer, 0, weights.buffer.bytes))
        arguments = [self.view(source, tasks.inputs(problem))]
        if weights is not None:
            arguments += [weights.value] if weights.value is not None else operands(problem, weights.buffer, arrays)
        named = tasks.with_problem(kernel.fn, problem)
        if problem.raw_scales:
            scales, at = tasks.scales(problem)
            at += source[1] * size
            self.reads.append((source[0], at, scales.extent() * tasks.BYTES[scales.dtype]))
            named["scale_a"] = arrays.view(source[0], scales, at)
        if problem.operation == "grouped":
            if tasks.takes(kernel.fn, "offsets"):
                named["offsets"] = arrays.integers(tasks.ends(problem))
            if tasks.takes(kernel.fn, "sizes"):
                named["sizes"] = list(problem.sizes)
        if problem.operation == "fused":
            named.update(self.epilogue(source, weights))
        self.returns = not kernel.declared.out
        if not self.returns:
            named["out"] = self.out
        self.part = part and self.returns
        self.call = functools.partial(kernel.fn, *arguments, **named)
        self.run = self.run_part if self.part else self.call

    def epilogue(self, source, weights):
        """The arguments for the epilogue of a fused product, where the function has parameters for them."""
        bias, residual, size = tasks.bias(self.problem), tasks.residual(self.problem), tasks.BYTES[self.dtype]
        if residual:
            at = source[1] + residual.offset
            self.reads.append((source[0], at * size, self.problem.m * self.problem.n * size))
        arguments = {
            "bias": self.arrays.view(weights.buffer, bias) if bias else None,
            "activation": tasks.activation(self.problem),
            "gated": tasks.gated(self.problem),
            "residual": self.view(source, residual) if residual else None,
        }
        return {name: value for name, value in arguments.items() if tasks.takes(self.kernel.fn, name)}

    def digest(self):
        """A sum of the operands' bytes in buffers of a CPU, without the output."""
        total = 0
        for buffer, at, size in self.reads:
            if buffer is not self.buffers[1]:
                total = zlib.crc32(buffer.bytes_at(at, min(size, buffer.bytes - at)), total)
        return total

    def view(self, operand, shape):
        buffer, offset = operand
        return self.arrays.view(buffer, shape, offset * tasks.BYTES[shape.dtype])

    def run_part(self):
        result = self.call()
        self.arrays.copy(self.out, result)
        return result

    def first(self):
        """Runs it and checks what it returns."""
        result = self.call()
        self.check(result)
        if self.part:
            self.arrays.copy(self.out, result)
        self.ran = True
        return result

    def check(self, result):
        if not self.returns:
            return
        reason = self.arrays.check(result, self.shape)
        if not reason:
            begin, size = self.arrays.address(result)
            if any(begin < b.address() + b.bytes and b.address() < begin + size for b in self.buffers):
                reason = "returned memory of an operand, expected a new result"
        if reason:
            raise Failure(CASE, "%s %s" % (self.kernel.name, reason), self.kernel.where)

    def deliver(self, result):
        """Puts a result where the program reads it."""
        if self.returns and not self.part:
            self.arrays.copy(self.out, result)

    def poison(self, result):
        if self.returns:
            self.arrays.poison(result)

    def label(self):
        """What the kernel says of itself."""
        label = self.kernel.declared.label
        if callable(label):
            label = label(self.problem)
        return "" if label is None else str(label)


class Copy:
    """A copy of bytes between buffers as a launch. run comes from the device."""

    dtype, graph, eager, where, returns, part = "", True, "", "", False, False

    def __init__(self, number, run):
        self.number, self.run = number, run
        self.ran = self.fresh = self.waits = False
        self.result, self.kind, self.place = None, ("copy",), ("copy", number)

    def first(self):
        self.ran = True
        self.run()

    def check(self, result):
        """There is nothing to check."""

    def deliver(self, result):
        """The copy is where it belongs."""

    def poison(self, result):
        """It has no result of its own."""

    def digest(self):
        return 0

    def label(self):
        return ""


def distinct(launches, results):
    """Raises a Failure if launches returned the same memory: then all but one of the results are lost."""
    owners = {}
    for launch, result in zip(launches, results):
        if launch.returns and result is not None:
            address = launch.arrays.address(result)[0]
            other = owners.setdefault(address, launch)
            if other is not launch:
                raise Failure(CASE, "%s returned the same memory for different operands, expected new results (or out=True)"
                              % launch.kernel.name, launch.kernel.where)
