"""Executes launches on a GPU, with PyTorch's memory and streams."""
import base64
import contextlib
import functools
import gc
import sys
import time

from .arrays import Torch
from .blocks import Blocks
from .driver import Driver, DriverError
from .graphs import FEW, GRAPHS, QUEUE, Graphs, Uncapturable, divide, launch_all, queued
from .launches import Copy, distinct
from .wire import CASE, PROTOCOL, Failure

UNKNOWN_NODES = 4  # of an eager launch, assumed
SPARE = 256 << 20  # bytes of unused memory that PyTorch may keep: the program needs memory, too
MOST_ROTATIONS = 1 << 12  # remembered


class Mapped:
    """Memory of another process, as PyTorch takes it."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 2}


class Buffer:
    """Memory of the GPU as a tensor of bytes. handle is the key of mapped memory."""

    def __init__(self, raw, size, handle=None):
        self.raw, self.bytes, self.handle = raw, size, handle

    def address(self):
        return self.raw.data_ptr()

    def tensor(self, torch):
        return self.raw

    def part(self, offset, size):
        if offset < 0 or size < 0 or offset + size > self.bytes:
            raise Failure(PROTOCOL, "%d bytes at %d of a buffer of %d" % (size, offset, self.bytes))
        return self.raw[offset:offset + size]


class Device:
    """A GPU. It starts when the first file is loaded, since files may set variables that PyTorch reads once."""

    on_gpu = needs_torch = True

    def __init__(self, params, eager=False, graph_bytes=0, stamps=None):
        if not stamps:
            raise Failure(PROTOCOL, "stamps are missing")
        self.id, self.eager, self.limit, self.stamps = params.get("id", "cuda:0"), eager, graph_bytes, stamps
        self.torch = self.driver = None
        self.mapped = {}  # handle: address, users
        self.probes = {}  # kind of launch: nodes
        self.uncapturable = {}  # kind of launch: why
        self.waiting = set()  # kinds of launches that wait for the device
        self.rotations = set()  # whose results PyTorch has memory for
        self.divided = {}  # numbers of launches and of runs: graphs

    def memory(self, offered):
        return next((m for m in offered if m in ("cuda-ipc", "window")), "")

    def loaded(self, torch_file):
        if self.torch is None:
            self.start(find_torch(), Driver)
        self.torch.set_grad_enabled(False)

    def start(self, torch, driver):
        """Prepares the device. driver makes a Driver."""
        if not torch.cuda.is_available():
            raise Failure(CASE, "PyTorch %s of %s sees no GPU" % (torch.__version__, sys.executable))
        if not self.eager:
            try:
                torch.cuda.CUDAGraph(keep_graph=True)
            except TypeError:
                raise Failure(CASE, "PyTorch %s does not hand over its CUDA graphs (keep_graph): expected a newer one, or --eager"
                              % torch.__version__)
        # The program may show the worker its GPU alone.
        self.index = 0 if torch.cuda.device_count() == 1 else int(self.id.partition(":")[2] or 0)
        self.name = "cuda:%d" % self.index
        torch.cuda.set_device(self.index)
        torch.zeros(1, device=self.name)
        torch.cuda.synchronize(self.index)
        self.driver = driver()
        self.driver.enter(self.index)
        self.stream = self.driver.stream()
        self.current = torch.cuda.ExternalStream(self.stream, device=self.name)
        torch.cuda.set_stream(self.current)
        self.blocks = Blocks(self.driver, self.stream, self.stamps)
        self.graphs = Graphs(torch, self.driver, self.index, self.stream, self.limit)
        self.torch = torch

    def half_sums(self):
        matmul = self.torch.backends.cuda.matmul
        return [t for t in ("fp16", "bf16") if getattr(matmul, "allow_%s_reduced_precision_reduction" % t, False)]

    def arrays(self, torch_file):
        return Torch(self.torch, self.name)

    def open(self, size, handle, offset):
        self.started()
        if not handle:
            return Buffer(self.torch.empty(size, dtype=self.torch.uint8, device=self.name), size)
        if handle not in self.mapped:
            try:
                self.mapped[handle] = [self.driver.open_ipc(base64.b64decode(handle)), 0]
            except DriverError as e:
                raise Failure(CASE, "map the program's memory: %s" % e)
        self.mapped[handle][1] += 1
        return Buffer(self.bytes_at(self.mapped[handle][0] + offset, size), size, handle)

    def bytes_at(self, address, size):
        """A tensor of the bytes at an address."""
        torch = self.torch
        try:
            return torch.as_tensor(Mapped(address, size), device=self.name)
        except RuntimeError:  # PyTorch reads the interface with NumPy, which is not there
            storage = torch._C._construct_storage_from_data_pointer(address, torch.device(self.name), size)
            return torch.empty(0, dtype=torch.uint8, device=self.name).set_(storage, 0, (size,), (1,))

    def started(self):
        if self.torch is None:
            raise Failure(PROTOCOL, "no file was loaded")

    def close(self, buffer):
        buffer.raw = None
        if buffer.handle is None:
            return
        users = self.mapped[buffer.handle]
        users[1] -= 1
        if users[1] == 0:
            self.torch.cuda.synchronize(self.index)
            self.driver.close_ipc(self.mapped.pop(buffer.handle)[0])

    def write(self, buffer, offset, window):
        if len(window):
            buffer.part(offset, len(window)).copy_(self.torch.frombuffer(window, dtype=self.torch.uint8))
            self.torch.cuda.synchronize(self.index)

    def read(self, buffer, offset, window):
        if len(window):
            self.torch.frombuffer(window, dtype=self.torch.uint8).copy_(buffer.part(offset, len(window)))

    def bind_copy(self, number, source, source_at, to, to_at, size):
        return Copy(number, functools.partial(to.part(to_at, size).copy_, source.part(source_at, size), True))

    def clock(self):
        self.torch.cuda.synchronize(self.index)
        return time.perf_counter()

    def once(self, launch):
        """Runs a launch, and returns its seconds: on the host's clock if it compiles, on the device's later."""
        with self.precision([launch]):
            if not launch.ran:
                begin = self.clock()
                launch.first()
                return self.clock() - begin
            return self.gated([launch], [[launch]], 0)[0].seconds

    def guarded(self, launch):
        """The operands are not checked: they are the program's memory."""
        return contextlib.nullcontext()

    def settled(self, launch):
        """Tries whether a launch that was primed can be captured."""
        if not self.reason([launch]):
            with self.precision([launch]):
                self.try_capture([launch], lambda: self.nodes_each([launch]))

    def record(self, launches):
        with self.precision(launches):
            self.warm(launches)
            if not self.reason(launches):
                graphs = self.try_capture(launches, lambda: self.graphs_of(rotated(launches), len(launches), False))
                for graph in graphs or []:
                    graph.fresh = True
            for launch in launches:
                launch.fresh = True
                if self.reason(launches) and launch.result is None:
                    launch.result = launch.first()
            self.torch.cuda.synchronize(self.index)

    def execute(self, launches, runs, lead_in):
        with self.precision(launches):
            self.warm(launches)
            order = rotated(launches) if runs >= len(launches) else launches[:runs]
            graphs = None
            if not self.reason(order):
                repeat = not any(launch.fresh for launch in order)
                graphs = self.try_capture(order, lambda: self.graphs_of(order, runs, repeat))
            gc.disable()
            try:
                out = self.replay(graphs, lead_in) if graphs else self.run(order, runs, lead_in)
            finally:
                gc.enable()
            for launch in launches:
                launch.fresh = False
            if not out.get("label"):
                out["label"] = order[0].label()
            if lead_in:
                out["ahead"] = runs
            self.torch.cuda.synchronize(self.index)
        return out

    def warm(self, launches):
        """Runs launches that never ran: code is loaded and workspaces are allocated outside of captures and blocks."""
        cold = [launch for launch in launches if not launch.ran]
        for launch in cold:
            try:
                launch.first()
            except self.torch.cuda.OutOfMemoryError:
                if not self.graphs.drop_others(()):
                    raise
                launch.first()
        if cold:
            self.torch.cuda.synchronize(self.index)

    def reason(self, launches):
        """Why launches run eagerly, or ""."""
        if self.eager:
            return "--eager"
        if not all(launch.graph for launch in launches):
            return "graph=False"
        return next(filter(None, (launch.eager or self.uncapturable.get(launch.kind) for launch in launches)), "")

    def try_capture(self, launches, capture):
        """What capture returns, or None after noting in the launches why they can't be captured."""
        try:
            return capture()
        except Uncapturable as e:
            for launch in launches:
                launch.eager = str(e)
            return None

    def graphs_of(self, order, runs, repeat):
        key = (tuple(launch.number for launch in order), runs, repeat)
        known = self.divided.get(key)
        if known is not None and self.graphs.again(known):
            return known
        most = max(1, QUEUE // self.nodes_each(order))
        if repeat:
            most = min(most, max(len(order), -(-runs // GRAPHS), FEW))
        graphs = self.graphs.all_of(divide(order, runs, most, repeat), not repeat)
        if len(self.divided) >= MOST_ROTATIONS:
            self.divided.clear()
        self.divided[key] = graphs
        return graphs

    def nodes_each(self, launches):
        """The most nodes of a launch."""
        most = 1
        for launch in launches:
            if launch.kind not in self.probes:
                try:
                    graph = self.graphs.capture([launch])
                except Uncapturable as e:
                    self.uncapturable[launch.kind] = str(e)
                    raise
                self.probes[launch.kind] = graph.each
                graph.close()
            most = max(most, self.probes[launch.kind])
        return most

    def replay(self, graphs, lead_in):
        results = {}
        for graph in graphs:
            if graph.fresh:
                for launch, result in graph.results.items():
                    launch.poison(result)
                graph.fresh = False
        parts = [functools.partial(launch_all, part) for part in queued(graphs)]
        span = self.blocks.run(parts * 2 if lead_in else parts, len(parts) if lead_in else 0)
        for graph in graphs:
            results.update(graph.results)
        self.deliver(results)
        out = measured(span)
        first = next(iter(graphs[0].results))
        out.update(graph=True, nodes=graphs[0].nodes, label=first.label())
        return out

    def run(self, launches, runs, lead_in):
        """Runs launches one by one, as Python starts them."""
        for launch in launches:
            if launch.fresh and launch.result is not None:
                launch.poison(launch.result)
                launch.result = None
        self.allocate(launches)
        each = max(self.probes.get(launch.kind, UNKNOWN_NODES) for launch in launches)
        parts = divide(launches, runs, max(1, QUEUE // each))
        span, results = self.gated(launches, parts, len(parts) if lead_in else 0)
        self.deliver(results)
        return dict(measured(span), graph=False, eager=self.reason(launches), host=span.host)

    def allocate(self, launches):
        """Lets PyTorch allocate memory for all results at a time, which may wait for the device: not behind a gate."""
        key = tuple(launch.number for launch in launches)
        if key in self.rotations:
            return
        if len(self.rotations) >= MOST_ROTATIONS:
            self.rotations.clear()
        self.rotations.add(key)
        results = [launch.run() for launch in launches]
        self.torch.cuda.synchronize(self.index)
        del results

    def gated(self, launches, parts, discarded):
        """Runs parts of launches, after as many discarded ones, and returns the Span and the results. Launches that wait for the device
        would wait for the gate: they run without one."""
        results = {}

        def start(part):
            for launch in part:
                results[launch] = launch.run()

        work = [functools.partial(start, part) for part in parts]
        work = work * 2 if discarded else work
        span = self.blocks.run(work, discarded, not any(launch.waits or launch.kind in self.waiting for launch in launches))
        if span.held:
            kinds = {launch.kind for launch in launches}
            if len(kinds) == 1:
                self.waiting |= kinds
            for launch in launches:
                launch.waits = True
            span = self.blocks.run(work, discarded, False)
        return span, results

    def deliver(self, results):
        distinct(list(results), list(results.values()))
        for launch, result in results.items():
            launch.check(result)
            launch.deliver(result)

    @contextlib.contextmanager
    def precision(self, launches):
        """Allows TF32 while launches of that type run."""
        if not any(launch.dtype == "tf32" for launch in launches):
            yield
            return
        matmul = self.torch.backends.cuda.matmul
        name, value = "allow_tf32", True
        try:
            before = getattr(matmul, name)
        except RuntimeError:  # the file uses the newer interface, and PyTorch refuses both
            name, value = "fp32_precision", "tf32"
            before = getattr(matmul, name)
        setattr(matmul, name, value)
        try:
            yield
        finally:
            setattr(matmul, name, before)

    def forget(self, launches):
        if self.torch is None:
            return
        self.graphs.forget(launch.number for launch in launches)
        self.rotations.clear()
        self.divided.clear()
        memory = self.torch.cuda
        if memory.memory_reserved(self.index) - memory.memory_allocated(self.index) > SPARE:
            memory.empty_cache()

    def sick(self):
        return self.driver.health() if self.driver is not None else ""


def find_torch():
    try:
        import torch
    except ImportError as e:
        raise Failure(CASE, "kernels on a GPU need PyTorch in %s: %s" % (sys.executable, e))
    return torch


def rotated(launches):
    """The same rotation from the launch with the least number on, so that one graph serves each beginning."""
    first = min(range(len(launches)), key=lambda i: launches[i].number)
    return launches[first:] + launches[:first]


def measured(span):
    out = {"seconds": span.seconds}
    if span.mhz > 0:
        out["clock_mhz"] = span.mhz
    if span.held > 0:
        out["held"] = span.held
    return out
