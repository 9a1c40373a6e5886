"""Blocks and graphs of a GPU, against a model of its stream."""
import base64
import ctypes
import struct
import types
import unittest

from . import inside  # noqa: F401

from gemmaudit_worker import cuda, graphs, settling
from gemmaudit_worker.blocks import median_mhz
from gemmaudit_worker.wire import Failure

SLOTS, MHZ, NS = 4, 1500, 100_000  # NS is what a node takes
STAMPS = {
    "module": base64.b64encode(b"\x7fELF").decode(), "slots": SLOTS,
    "stamp": {"kernel": "stamp", "grid": [SLOTS, 1, 1], "block": [1, 1, 1], "shared": 100 << 10,
              "params": base64.b64encode(struct.pack("<Q3i4x", 0, SLOTS, 4000, 20000)).decode()},
    "gate": {"kernel": "gate", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0,
             "params": base64.b64encode(struct.pack("<QQqi4x", 0, 0, 10**9, 0)).decode()},
}
POISON = -1


class OutOfMemory(RuntimeError):
    pass


class Stream:
    """Work in order, which runs when somebody waits, and a clock in ns."""

    def __init__(self):
        self.queue, self.now, self.ran, self.most = [], 0, [], 0
        self.capturing = None

    def put(self, work):
        self.queue.append(work)
        self.most = max(self.most, len(self.queue))

    def drain(self):
        while self.queue:
            self.queue.pop(0)()

    def node(self, name, work):
        def act():
            self.now += NS
            self.ran.append(name)
            work()

        if self.capturing is not None:
            self.capturing.nodes.append((name, act))
        else:
            self.put(act)


class FakeDriver:
    """The methods of Driver. Addresses of the device are those of the host."""

    def __init__(self, stream):
        self.work, self.events, self.launched, self.executables, self.sick, self.opened = stream, {}, [], 0, "", []

    def enter(self, index):
        self.index = index

    def stream(self):
        return 7

    def health(self):
        self.work.drain()
        return self.sick

    def module(self, image):
        assert image == b"\x7fELF"
        return 1

    def kernel(self, module, name, shared):
        return name

    def host_memory(self, length):
        self.page = ctypes.create_string_buffer(length)
        return ctypes.addressof(self.page), ctypes.addressof(self.page)

    def launch(self, function, grid, block, shared, stream, params):
        assert (grid, block, stream) == (STAMPS[function]["grid"], [1, 1, 1], 7)
        data = ctypes.string_at(params, 32)
        self.work.put({"gate": self.gate, "stamp": self.stamp}[function](data))

    def gate(self, data):
        flag, out, limit, ticket = struct.unpack_from("<QQqi", data)

        def act():
            held = ctypes.c_int32.from_address(flag).value < ticket
            self.work.now += limit if held else 0
            ctypes.memmove(out, struct.pack("<QQ", held, limit if held else 5), 16)

        return act

    def stamp(self, data):
        out, slots, hold, limit = struct.unpack_from("<Q3i", data)
        assert (slots, hold, limit) == (SLOTS, 4000, 20000)
        # One multiprocessor is never seen, one is twice as fast.
        def act():
            for i in range(slots):
                clock = self.work.now * MHZ * (2 if i == 0 else 1) // 1000
                ctypes.memmove(out + 32 * i, struct.pack("<4Q", 0, clock, self.work.now, i != 3), 32)

        return act

    def event(self):
        self.events[len(self.events)] = 0
        return len(self.events) - 1

    def record(self, event, stream):
        self.work.put(lambda: self.events.__setitem__(event, self.work.now))

    def wait(self, event):
        self.work.drain()

    def elapsed(self, begin, end):
        return 1e-9 * (self.events[end] - self.events[begin])

    def count_nodes(self, raw):
        return len(raw.nodes)

    def nodes(self, raw, most):
        return [{"kernel": name, "grid": [1, 1, 1], "block": [32, 1, 1]} for name, _ in raw.nodes[:most]]

    def instantiate(self, raw, stream):
        self.executables += 1
        return list(raw.nodes)

    def launch_graph(self, executable, stream):
        self.launched.append(len(executable))
        for _, act in executable:
            self.work.put(act)

    def destroy(self, executable):
        self.executables -= 1

    def open_ipc(self, handle):
        self.opened.append(handle)
        return 4096

    def close_ipc(self, address):
        self.opened.remove(b"handle")


def fake_torch(stream):
    class CUDAGraph:
        def __init__(self, keep_graph):
            self.nodes = []

        def capture_begin(self, pool, capture_error_mode):
            assert stream.capturing is None and capture_error_mode == "thread_local"
            stream.capturing = self

        def capture_end(self):
            assert stream.capturing is self
            stream.capturing = None
            torch.reserved += len(self.nodes)

        def raw_cuda_graph(self):
            return self

        def reset(self):
            torch.reserved -= len(self.nodes)

    def synchronize(index=0):
        if stream.capturing is not None:
            raise RuntimeError("operation not permitted when stream is capturing")
        stream.drain()

    nothing = lambda *args, **kwargs: None  # noqa: E731
    torch = types.SimpleNamespace(
        __version__="2.11.0", reserved=0, uint8="uint8", zeros=nothing, set_grad_enabled=nothing, _C=types.SimpleNamespace(),
        as_tensor=lambda memory, device: types.SimpleNamespace(data_ptr=lambda: memory.__cuda_array_interface__["data"][0]),
        backends=types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(
            allow_tf32=False, allow_bf16_reduced_precision_reduction=True, allow_fp16_reduced_precision_reduction=False))),
        cuda=types.SimpleNamespace(
            is_available=lambda: True, device_count=lambda: 1, set_device=nothing, set_stream=nothing, ExternalStream=nothing,
            empty_cache=nothing, graph_pool_handle=lambda: (0, 1), memory_reserved=lambda index: torch.reserved,
            memory_allocated=lambda index: 0,
            synchronize=synchronize, CUDAGraph=CUDAGraph, OutOfMemoryError=OutOfMemory))
    return torch


class Launch:
    """A stand-in: its nodes write the operand, as it is then, to the result."""

    def __init__(self, number, stream, operand, nodes=1, dtype="bf16", graph=True):
        self.number, self.stream, self.operand, self.count, self.dtype, self.graph = number, stream, operand, nodes, dtype, graph
        self.kind, self.where, self.eager, self.result, self.out = ("k", nodes), "mine.py:1", "", None, None
        self.ran = self.fresh = self.waits = False
        self.returns = True
        self.arrays, self.place = types.SimpleNamespace(address=lambda result: (id(result), 1)), number
        self.before = lambda: None

    def run(self):
        self.before()
        result = [None]
        for i in range(self.count):
            self.stream.node("node%d of %d" % (i, self.number), lambda: result.__setitem__(0, self.operand[0]))
        return result

    def first(self):
        self.ran = True
        return self.run()

    def check(self, result):
        assert isinstance(result, list)

    def poison(self, result):
        result[0] = POISON

    def deliver(self, result):
        self.out = result[0]

    def label(self):
        return "mine"


class GPU(unittest.TestCase):
    def setUp(self):
        self.stream, self.operand = Stream(), [1]
        self.device = self.start()

    def start(self, **more):
        device = cuda.Device({"id": "cuda:3"}, stamps=STAMPS, **more)
        self.driver = FakeDriver(self.stream)
        device.start(fake_torch(self.stream), lambda: self.driver)
        self.stream.ran.clear()
        return device

    def launches(self, n, **more):
        out = [Launch(i, self.stream, self.operand, **more) for i in range(1, n + 1)]
        self.device.warm(out)
        self.stream.ran.clear()
        return out

    def test_a_block(self):
        launches = self.launches(3)
        for start in range(3):
            self.stream.ran.clear()
            got = self.device.execute(launches[start:] + launches[:start], 7, False)
            self.assertEqual(self.stream.ran, ["node0 of %d" % n for n in (1, 2, 3, 1, 2, 3, 1)])
        self.assertAlmostEqual(got.pop("seconds"), 7e-9 * NS)
        self.assertAlmostEqual(got.pop("clock_mhz"), MHZ)
        self.assertEqual(got, {"graph": True, "label": "mine", "nodes": [
            {"kernel": "node0 of 1", "grid": [1, 1, 1], "block": [32, 1, 1]}]})
        self.assertEqual(self.driver.executables, 1)
        self.assertEqual([l.out for l in launches], [1, 1, 1])

    def test_parts_of_a_block(self):
        launches = self.launches(7, nodes=2)
        got = self.device.execute(launches, 700, True)
        self.assertEqual((got["ahead"], len(self.stream.ran)), (700, 2 * 2 * 700))
        self.assertAlmostEqual(got["seconds"], 2 * 700e-9 * NS)
        self.assertAlmostEqual(got["clock_mhz"], MHZ)
        self.assertEqual(self.driver.launched, [280] * 10)
        self.assertLess(self.stream.most, 1000)

    def test_results_at_one_place(self):
        launches = self.launches(3)
        launches[1].place = launches[0].place
        self.device.execute(launches, 3, False)
        self.assertEqual([l.out for l in launches], [None, 1, 1])

    def test_divide(self):
        for n, runs, most, repeat, want in (
            (1, 5, 480, True, [5]), (1, 1000, 480, True, [480, 480, 40]), (3, 10, 4, True, [3, 3, 3, 1]), (3, 10, 9, True, [9, 1]),
            (3, 6, 9, False, [3, 3]), (5, 12, 4, True, [3, 2, 3, 2, 2]), (5, 3, 480, True, [3]), (480, 960, 480, True, [480, 480]),
        ):
            with self.subTest(n=n, runs=runs, most=most):
                parts = graphs.divide(list(range(n)), runs, most, repeat)
                self.assertEqual([len(p) for p in parts], want)
                self.assertEqual([i for p in parts for i in p], [i % n for i in range(runs)])

    def test_record_captures_before_the_operands_are_final(self):
        launches = self.launches(3)
        self.device.record(launches)
        captured = self.driver.executables
        self.operand[0] = 2
        self.device.execute(launches[1:] + launches[:1], 3, False)
        self.assertEqual(([l.out for l in launches], self.driver.executables), ([2, 2, 2], captured))

    def test_unwritten_results_show(self):
        launches = self.launches(2)
        launches[1].run = lambda: self.stream.node("nothing", lambda: None) or [0]
        self.device.record(launches)
        self.device.execute(launches, 2, False)
        self.assertEqual([l.out for l in launches], [1, POISON])
        for eager in (False, True):
            cached = self.launches(1, graph=not eager)[0]
            kept = cached.run()
            cached.run = lambda: self.stream.node("copy", lambda: None) or kept
            self.device.record([cached])
            self.device.execute([cached], 1, False)
            self.assertEqual(cached.out, POISON)

    def test_nothing_on_the_stream(self):
        launch = self.launches(1)[0]
        launch.count = 0
        with self.assertRaises(Failure) as caught:
            self.device.execute([launch], 1, False)
        self.assertEqual((caught.exception.message, caught.exception.where), (graphs.EMPTY, "mine.py:1"))
        launches = self.launches(3)
        self.device.execute(launches, 3, False)
        launches[2].count = 0
        with self.assertRaises(Failure) as caught:
            self.device.execute(launches, 2 * 3, False)
        self.assertEqual(caught.exception.message, "6 launches put 4 nodes on the stream (cached results?)")

    def test_eager(self):
        for reason, prepare in (
            ("graph=False", lambda l: setattr(l, "graph", False)),
            ("--eager", lambda l: setattr(self.device, "eager", True)),
            ("it can't be captured: RuntimeError: operation not permitted when stream is capturing",
             lambda l: setattr(l, "before", lambda: self.stream.capturing and self.device.torch.cuda.synchronize())),
        ):
            with self.subTest(reason):
                self.device = self.start()
                launches = self.launches(2, nodes=5)
                for launch in launches:
                    prepare(launch)
                self.operand[0] += 1
                got = self.device.execute(launches, 300, True)
                self.assertEqual((got["graph"], got["eager"], got["label"], got["ahead"]), (False, reason, "mine", 300))
                self.assertGreater(got["host"], 0)
                self.assertAlmostEqual(got["seconds"], 300 * 5e-9 * NS)
                self.assertEqual([l.out for l in launches], [self.operand[0]] * 2)
                self.assertIsNone(self.stream.capturing)

    def test_launches_that_wait_for_the_device_have_no_gate(self):
        launch = self.launches(1, graph=False)[0]
        launch.before = self.device.torch.cuda.synchronize
        got = self.device.execute([launch], 4, False)
        self.assertTrue(launch.waits)
        self.assertAlmostEqual(got["seconds"], 4e-9 * NS)
        self.assertNotIn("held", got)

    def test_graphs_within_their_memory(self):
        self.device = self.start(graph_bytes=25)
        a, b, c = self.launches(10), self.launches(10), self.launches(10)
        for i, l in enumerate(a + b + c):
            l.number = i
        self.device.execute(a, 10, False)
        self.device.execute(b, 10, False)
        self.device.execute(a, 10, False)
        self.device.execute(c, 10, False)
        self.assertEqual([key[0] for key in self.device.graphs.kept], [0, 20])
        self.device.forget(a)
        self.assertEqual((self.driver.executables, self.device.torch.reserved), (1, 10))

    def test_memory_that_runs_out_drops_graphs(self):
        launches = self.launches(2)
        self.device.execute(launches[:1], 1, False)

        def short():
            if self.stream.capturing and self.device.graphs.kept:
                raise OutOfMemory("none left")

        launches[1].before = short
        self.device.execute(launches[1:], 1, False)
        self.assertEqual(list(self.device.graphs.kept), [(2,)])
        launches[1].before = lambda: (_ for _ in ()).throw(OutOfMemory("none left"))
        with self.assertRaises(OutOfMemory):
            self.device.execute(launches[1:], 2, False)
        self.assertIsNone(self.stream.capturing)

    def test_errors_open_the_gate(self):
        launch = self.launches(1, graph=False)[0]
        launch.before = lambda: 1 / 0
        with self.assertRaises(ZeroDivisionError):
            self.device.execute([launch], 1, False)
        self.assertFalse(self.stream.queue)
        launch.before = lambda: None
        self.assertNotIn("held", self.device.execute([launch], 1, False))

    def test_tf32_only_while_it_runs(self):
        launch, seen = self.launches(1, dtype="tf32")[0], set()
        matmul = self.device.torch.backends.cuda.matmul
        launch.before = lambda: seen.add(matmul.allow_tf32)
        self.device.execute([launch], 1, False)
        self.assertEqual((seen, matmul.allow_tf32), ({True}, False))

    def test_prime(self):
        launch = self.launches(1)[0]
        launch.ran = False
        slow = [5, 3, 0, 0, 0, 0]
        launch.before = lambda: launch.stream.node("tune", lambda: None) if slow and slow.pop(0) else None
        told = []
        got = settling.prime(self.device, launch, told.append)
        self.assertEqual((got["runs"], told), (8, ["run %d" % n for n in range(2, 9)]))
        self.assertAlmostEqual(got["seconds"], 1e-9 * NS)

    def test_mapped_memory_is_closed_after_its_last_buffer(self):
        handle = base64.b64encode(b"handle").decode()
        buffers = [self.device.open(8, handle, offset) for offset in (0, 64)]
        self.assertEqual(([b.address() for b in buffers], self.driver.opened), ([4096, 4160], [b"handle"]))
        self.device.close(buffers[0])
        self.assertEqual(self.driver.opened, [b"handle"])
        self.device.close(buffers[1])
        self.assertEqual(self.driver.opened, [])

    def test_clock(self):
        def stamps(*values):
            return b"".join(struct.pack("<4Q", 0, *v) for v in values)

        before = stamps((0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 0))
        self.assertEqual(median_mhz(before, stamps((30000, 20000, 1), (50000, 20000, 1), (40000, 20000, 1), (9, 20000, 1))), 2000)
        self.assertEqual(median_mhz(before, stamps((30000, 20000, 1), (50000, 20000, 1), (4, 1000, 1), (9, 20000, 1))), 2000)
        self.assertEqual(median_mhz(before, stamps((30, 20, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1))), 0)

    def test_what_starts(self):
        self.assertEqual((self.device.index, self.device.half_sums()), (0, ["bf16"]))
        old = fake_torch(self.stream)
        old.cuda.CUDAGraph = lambda: None
        old.__version__ = "2.6.0"
        device = cuda.Device({"id": "cuda:0"}, stamps=STAMPS)
        with self.assertRaisesRegex(Failure, r"PyTorch 2.6.0 does not hand over its CUDA graphs \(keep_graph\)"):
            device.start(old, lambda: self.driver)
        with self.assertRaisesRegex(Failure, "stamps are missing"):
            cuda.Device({"id": "cuda:0"})


if __name__ == "__main__":
    unittest.main()
