"""Executes launches on a CPU."""
import contextlib
import ctypes
import functools
import gc
import mmap
import os
import sys
import time

from .arrays import Numpy, Torch
from .launches import Copy, distinct
from .wire import CASE, DEVICE, PROTOCOL, Failure

# As the program does it: operands begin at huge pages, and small ones share some. Thousands of copies of a small matrix would
# otherwise take gigabytes.
HUGE, PAGE = 2 << 20, 4096
SHARED, SMALL = 8 << 20, 2 << 20  # bytes of a shared mapping, and of what is too large for one


class Mapping:
    """Memory that begins at a huge page. It goes with the last view of it."""

    def __init__(self, size):
        self.size, self.used = size, 0
        memory = mmap.mmap(-1, size + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                memory.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # a kernel without huge pages
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self.address = begin + -begin % HUGE
        self.view = memoryview(memory)[self.address - begin:][:size]

    def room(self, size):
        return self.used + size <= self.size

    def take(self, size):
        """The address and a view of the next bytes."""
        at = self.used
        self.used += -(-size // PAGE) * PAGE
        return self.address + at, self.view[at:at + size]


class Buffer:
    """Memory of this process."""

    def __init__(self, address, view):
        self.begin, self.memory, self.bytes, self.raw = address, view, len(view), None

    def address(self):
        return self.begin

    def bytes_at(self, offset, size):
        if offset < 0 or size < 0 or offset + size > self.bytes:
            raise Failure(PROTOCOL, "%d bytes at %d of a buffer of %d" % (size, offset, self.bytes))
        return self.memory[offset:offset + size]

    def tensor(self, torch):
        if self.raw is None:
            self.raw = torch.frombuffer(self.memory, dtype=torch.uint8)
        return self.raw


class Device:
    """A CPU. Threads of libraries are limited before they are loaded."""

    on_gpu = needs_torch = False

    def __init__(self, params):
        self.threads, self.shared = int(params.get("threads") or 0), None
        self.settled_kinds = set()  # of launches
        if self.threads:
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                os.environ.setdefault(name, str(self.threads))

    def memory(self, offered):
        return "window" if "window" in offered else ""

    def loaded(self, torch_file):
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_grad_enabled(False)
            if self.threads:
                torch.set_num_threads(self.threads)
        numpy = sys.modules.get("numpy")
        if hasattr(numpy, "seterr"):
            numpy.seterr(all="ignore")  # the check has operands that overflow, on purpose
        if torch is None and numpy is None:
            raise Failure(CASE, "the file imports neither torch nor numpy", hint="operands are tensors of torch or arrays of numpy")

    def half_sums(self):
        return []

    def arrays(self, torch_file):
        return Torch(sys.modules["torch"], "cpu") if torch_file else Numpy(sys.modules["numpy"])

    def open(self, size, handle, offset):
        if handle:
            raise Failure(PROTOCOL, "a CPU has no memory by handle")
        if size >= SMALL:
            return Buffer(*Mapping(size).take(size))
        if self.shared is None or not self.shared.room(size):
            self.shared = Mapping(SHARED)
        return Buffer(*self.shared.take(size))

    def close(self, buffer):
        """Memory goes when its last view does."""

    def write(self, buffer, offset, window):
        buffer.bytes_at(offset, len(window))[:] = window

    def read(self, buffer, offset, window):
        window[:] = buffer.bytes_at(offset, len(window))

    def bind_copy(self, number, source, source_at, to, to_at, size):
        view = to.bytes_at(to_at, size)
        return Copy(number, functools.partial(view.__setitem__, slice(None), source.bytes_at(source_at, size)))

    def clock(self):
        return time.perf_counter()

    def once(self, launch):
        """Runs a launch and returns its seconds."""
        begin = time.perf_counter()
        launch.first()
        return time.perf_counter() - begin

    @contextlib.contextmanager
    def guarded(self, launch):
        """Checks that a launch leaves its operands as they are."""
        digest = launch.digest()
        yield
        unchanged(launch, digest)

    def settled(self, launch):
        """Is called after the last run of a launch that was primed. Others of its kind differ in operands only, and need no first run:
        in a rotation of many weights, that would be every other run."""
        self.settled_kinds.add(launch.kind)

    def record(self, launches):
        """Runs launches that never ran, so that what a kernel keeps of its operands is kept before they change."""
        for launch in launches:
            if not launch.ran:
                launch.result = launch.first()
            launch.fresh = True

    def execute(self, launches, runs, lead_in):
        for launch in launches:
            if not launch.ran and launch.kind not in self.settled_kinds:
                launch.result = launch.first()
        before = [(launch, launch.digest()) for launch in launches if launch.fresh]
        for launch in launches:
            if launch.fresh and launch.result is not None:
                launch.poison(launch.result)  # memory that the next run may get again
            launch.fresh, launch.result = False, None
        gc.collect(0)
        gc.disable()
        try:
            if lead_in:
                block(launches, runs)
            seconds, results = block(launches, runs)
        finally:
            gc.enable()
        for launch, digest in before:
            unchanged(launch, digest)
        distinct(launches, results)
        for launch, result in zip(launches, results):
            launch.check(result)
            launch.deliver(result)
            launch.ran = True
        out = {"seconds": seconds, "graph": False, "label": launches[0].label()}
        if lead_in:
            out["ahead"] = runs
        return out

    def forget(self, launches):
        """Nothing is kept of launches."""

    def sick(self):
        return ""


def unchanged(launch, digest):
    """Raises a Failure unless the operands have the same digest. The worker starts again: other kernels read them too."""
    if launch.digest() != digest:
        raise Failure(DEVICE, "%s wrote into its operands, expected to write its result only" % launch.kernel.name, launch.where)


def block(launches, runs):
    """Runs launches back to back. Returns seconds and the results of those that ran."""
    calls, n = [launch.run for launch in launches], len(launches)
    results = [None] * min(n, runs)
    begin = time.perf_counter_ns()
    for i in range(runs):
        at = i % n
        results[at] = calls[at]()
    return (time.perf_counter_ns() - begin) * 1e-9, results
