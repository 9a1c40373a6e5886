"""Launches captured into CUDA graphs, kept within a limit of memory."""
import collections
import gc

from .wire import CASE, Failure, one_line

# A stream queues about a thousand launches; the next blocks, which deadlocks behind a closed gate. Two graphs of this many nodes
# fit. It is the number of the program's own chunks, too.
QUEUE = 480

# A long block is as many graphs: a shorter one is captured sooner, and the gap between two of a millisecond is too short to matter.
# A block of few launches is one.
GRAPHS, FEW = 5, 64

EMPTY = "the launch put nothing on the stream (a cached result?)"


class Uncapturable(Exception):
    """Why launches can't be captured."""


def divide(launches, runs, most, repeat=True):
    """Divides runs back to back, run i of launches[i % n], into parts of at most most launches. All but few are equal, so that few
    graphs suffice: a part has whole rotations, with repeat as many as fit, or is a fixed piece of a rotation."""
    n = len(launches)
    size = max(1, most // n) * n if repeat else n
    if n > most:
        pieces = -(-n // most)
        size = -(-n // pieces)
    at, parts = 0, []
    while runs > 0:
        take = min(size, runs, n - at if n > most else size)
        parts.append([launches[(at + i) % n] for i in range(take)])
        at, runs = (at + take) % n, runs - take
    return parts


def queued(graphs):
    """Divides graphs into those that wait behind a gate together."""
    parts, nodes = [], QUEUE
    for graph in graphs:
        if nodes + graph.count > QUEUE:
            parts.append([])
            nodes = 0
        parts[-1].append(graph)
        nodes += graph.count
    return parts


def launch_all(graphs):
    for graph in graphs:
        graph.launch()


class Graph:
    """A captured sequence of launches with the results that it writes, which it owns."""

    def __init__(self, owner, captured, launches, results):
        self.owner, self.captured, self.results, self.bytes, self.fresh = owner, captured, results, 0, False
        raw, driver = captured.raw_cuda_graph(), owner.driver
        count = driver.count_nodes(raw)
        if count < len(launches):
            text = EMPTY if count == 0 else "%d launches put %d nodes on the stream (cached results?)" % (len(launches), count)
            raise Failure(CASE, text, launches[0].where)
        self.count, self.each = count, -(-count // len(launches))
        self.nodes = driver.nodes(raw, self.each)
        self.executable = driver.instantiate(raw, owner.stream)
        self.key = ()

    def launch(self):
        self.owner.driver.launch_graph(self.executable, self.owner.stream)

    def close(self):
        self.owner.driver.destroy(self.executable)
        self.executable, self.results = None, {}
        self.captured.reset()


class Graphs:
    """The graphs of a device, by the numbers of their launches, the last used at the end."""

    def __init__(self, torch, driver, index, stream, limit):
        self.torch, self.driver, self.index, self.stream, self.limit = torch, driver, index, stream, limit
        self.kept = collections.OrderedDict()

    def all_of(self, parts, every):
        """The graphs of parts of a block. None of them is dropped for another. With every, they keep the result of every launch, else of
        the last at each place."""
        keys = [tuple(launch.number for launch in part) for part in parts]
        keep = set(keys)
        for key, part in zip(keys, parts):
            if key in self.kept:
                self.kept.move_to_end(key)
            else:
                self.kept[key] = self.capture_within(part, keep, every)
                self.kept[key].key = key
        self.trim(keep)
        return [self.kept[key] for key in keys]

    def again(self, graphs):
        """Whether all graphs of an earlier block are still there. They count as used."""
        for graph in graphs:
            if graph.executable is None:
                return False
        for graph in set(graphs):
            self.kept.move_to_end(graph.key)
        return True

    def capture_within(self, part, keep, every):
        try:
            return self.capture(part, every)
        except self.torch.cuda.OutOfMemoryError:
            if not self.drop_others(keep):
                raise
        return self.capture(part, every)

    def capture(self, launches, every=True):
        """Captures launches in order. The stream must be current."""
        torch = self.torch
        before = torch.cuda.memory_reserved(self.index)
        captured, pool, results = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.graph_pool_handle(), {}
        torch.cuda.synchronize(self.index)
        gc.disable()  # freeing memory or events of something else may end the capture
        try:
            error = self.within(captured, pool, launches, results, every)
        finally:
            gc.enable()
        if error is not None:
            results.clear()
            self.abandon(pool)
            if isinstance(error, torch.cuda.OutOfMemoryError) or not isinstance(error, Exception):
                raise error
            raise Uncapturable(one_line("it can't be captured: %s: %s" % (type(error).__name__, error))) from error
        for launch, result in results.items():
            launch.check(result)
        graph = Graph(self, captured, launches, results)
        graph.bytes = max(0, torch.cuda.memory_reserved(self.index) - before)
        return graph

    def within(self, captured, pool, launches, results, every):
        """Captures, and returns the error if there was one."""
        error, last = None, {}
        try:
            captured.capture_begin(pool=pool, capture_error_mode="thread_local")
        except Exception as e:
            return e
        try:
            for launch in launches:
                earlier = last.get(launch.place)
                if earlier is not None and not every:
                    results.pop(earlier, None)  # PyTorch gives its memory to the next, as where it is called one by one
                last[launch.place] = launch
                results[launch] = launch.run()
        except BaseException as e:
            error = e
        try:
            captured.capture_end()  # always, or the stream stays unusable
        except Exception as e:
            error = error or e
        return error

    def abandon(self, pool):
        """Ends what PyTorch leaves open after a failed capture, as far as it can be."""
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            try:
                getattr(self.torch._C, name)(self.index, pool)
            except (AttributeError, RuntimeError):
                pass  # it was ended, or this version ends it
        for _ in range(2):  # the first call may report the capture's error
            try:
                self.torch.cuda.synchronize(self.index)
            except RuntimeError:
                pass

    def trim(self, keep):
        """Drops the graphs that were not used for longest until the limit is kept."""
        dropped = False
        for key in list(self.kept):
            if not self.limit or sum(g.bytes for g in self.kept.values()) <= self.limit:
                break
            if key not in keep and not self.kept[key].fresh:
                self.kept.pop(key).close()
                dropped = True
        if dropped:
            self.torch.cuda.empty_cache()

    def drop_others(self, keep):
        keys = [key for key, graph in self.kept.items() if key not in keep and not graph.fresh]
        for key in keys:
            self.kept.pop(key).close()
        self.torch.cuda.empty_cache()
        return bool(keys)

    def forget(self, numbers):
        """Drops the graphs with launches of these numbers."""
        numbers = set(numbers)
        keys = [key for key in self.kept if not numbers.isdisjoint(key)]
        for key in keys:
            self.kept.pop(key).close()
        if keys:
            self.torch.cuda.empty_cache()
