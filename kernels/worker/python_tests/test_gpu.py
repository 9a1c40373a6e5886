"""Kernels of PyTorch and Triton on a GPU, in a worker process. Skipped without one."""
import array
import gzip
import importlib.util
import struct
import unittest

from . import inside
from .driving import Refused, Worker, base64_of, gemm

torch = None
if importlib.util.find_spec("torch") is not None:
    import torch

GPU = torch is not None and torch.cuda.is_available()
CODE = inside.SOURCES.parent.parent / "cuda" / "artefacts" / "support"
N, K, BIG = 256, 512, 4096

KERNELS = """
    import torch, gemmaudit

    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    cache, static = {}, []

    @gemmaudit.kernel("gemm", dtypes=["fp32", "tf32", "fp16", "bf16"])
    def linear(a, b): return torch.nn.functional.linear(a, b)

    gemmaudit.kernel("gemm", name="eager", graph=False)(linear.fn)
    gemmaudit.kernel("gemm", name="compiled")(torch.compile(linear.fn, dynamic=False))

    @gemmaudit.kernel("gemm", out=True)
    def into(a, b, out): torch.matmul(a, b.t(), out=out)

    @gemmaudit.kernel("gemm")
    def syncs(a, b):
        c = a @ b.t()
        torch.cuda.synchronize()
        return c

    @gemmaudit.kernel("gemm")
    def cached(a, b):
        if a.data_ptr() not in cache: cache[a.data_ptr()] = a @ b.t()
        return cache[a.data_ptr()]

    @gemmaudit.kernel("gemm")
    def packs(a, b):
        if b.data_ptr() not in cache: cache[b.data_ptr()] = b.t().contiguous()
        return a @ cache[b.data_ptr()]

    @gemmaudit.kernel("gemm")
    def unwritten(a, b):
        c = torch.empty(a.shape[0], b.shape[0], dtype=a.dtype, device=a.device)
        c[:, :-1] = a @ b[:-1].t()
        return c

    @gemmaudit.kernel("gemm")
    def elsewhere(a, b):
        with torch.cuda.stream(torch.cuda.default_stream()):
            return a @ b.t()

    @gemmaudit.kernel("gemm")
    def strided(a, b): return (b @ a.t()).t()

    @gemmaudit.kernel("gemm")
    def illegal(a, b):
        far = torch.full((1,), 1 << 40, device=a.device)
        return a.view(-1)[far].expand(a.shape[0], b.shape[0]).contiguous()
"""


def stamps():
    """What the program sends, from its own code for this GPU."""
    p = torch.cuda.get_device_properties(0)
    names = ["sm_%d%d%s" % (p.major, p.minor, suffix) for suffix in ("a", "")]
    path = next(CODE / (name + ".cubin.gz") for name in names if (CODE / (name + ".cubin.gz")).exists())
    slots, sms = 2 * p.multi_processor_count, p.multi_processor_count
    return {
        "module": base64_of(gzip.decompress(path.read_bytes())), "slots": slots,
        "stamp": {"kernel": "ga_stamp", "grid": [sms, 1, 1], "block": [1, 1, 1], "shared": p.shared_memory_per_block_optin,
                  "params": base64_of(struct.pack("<Q3i4x", 0, slots, 4000, 20000))},
        "gate": {"kernel": "ga_gate", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0,
                 "params": base64_of(struct.pack("<QQqi4x", 0, 0, 10**9, 0))},
    }


def halves(values):
    """Small integers as bf16."""
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def ints(data):
    return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]


@unittest.skipUnless(GPU, "needs a GPU")
class Kernels(unittest.TestCase):
    """One worker serves all tests but those that lose it."""

    @classmethod
    def setUpClass(cls):
        cls.w, cls.loaded = cls.begin()
        cls.addClassCleanup(lambda: cls.w.close())

    @classmethod
    def begin(cls, **hello):
        w = Worker({"mine.py": KERNELS}, {"id": "cuda:0", "kind": "cuda"}, {"stamps": stamps(), "graph_bytes": 1 << 30, **hello})
        return w, w.load()

    def bind(self, kernel, m=8, n=N, k=K, launch=1, dtype="bf16", w=None, part=False):
        """Binds a launch whose operands are ones; buffers have the number of the launch, and one or two more."""
        w, size = w or self.w, 4 if dtype in ("fp32", "tf32") else 2
        a, b, c = launch * 10, launch * 10 + 1, launch * 10 + 2
        w.call("close", launches=[launch], weights=[launch], buffers=[a, b, c])
        one = halves([1]) if size == 2 else struct.pack("<f", 1)
        for number, elements in ((a, m * k), (b, n * k), (c, m * n)):
            w.open(number, one * elements)
        task = gemm(m, n, k, dtype=dtype)
        w.call("prepare", weights=launch, kernel=kernel, task=task, buffer=b)
        w.call("bind", launch=launch, kernel=kernel, task=task, weights=launch, part=part,
               **{"in": {"buffer": a, "offset": 0}, "out": {"buffer": c, "offset": 0}})
        return a, b, c

    def test_load(self):
        half = {k["name"]: k.get("half_sums") for k in self.loaded["kernels"]}
        self.assertEqual(half["linear"], ["bf16"])
        self.assertEqual(self.w.hello["memory"], "cuda-ipc")

    def test_products_in_graphs(self):
        for kernel, part in (("linear", False), ("linear", True), ("into", False), ("compiled", False)):
            for dtype in ("bf16", "tf32") if kernel == "linear" else ("bf16",):
                with self.subTest(kernel, part=part, dtype=dtype):
                    _, _, c = self.bind(kernel, dtype=dtype, part=part)
                    primed = self.w.call("prime", launch=1)
                    self.assertTrue(0 < primed["seconds"] < 1e-3, primed)
                    got = self.w.call("execute", launches=[1], runs=1000, lead_in=True)
                    self.assertEqual((got["graph"], got["ahead"]), (True, 1000), got)
                    self.assertTrue(1e-6 < got["seconds"] / 1000 < 1e-3, got)
                    self.assertTrue(300 < got["clock_mhz"] < 3000, got)
                    self.assertTrue(got["nodes"] and got["nodes"][0]["kernel"] and got["nodes"][0]["grid"][0] > 0, got)
                    self.assertNotIn("held", got)
                    data = self.w.read(c, 8 * N * (4 if dtype == "tf32" else 2))
                    values = ints(data) if dtype == "bf16" else list(array.array("f", data))
                    self.assertEqual(set(values), {float(K)})

    def test_graphs_agree_with_the_eager_time(self):
        # A launch of a millisecond or so: its time does not depend on how it is started.
        for launch, kernel in ((1, "linear"), (2, "eager")):
            self.bind(kernel, BIG, BIG, BIG, launch=launch)
            self.w.call("prime", launch=launch)
        times = []
        for launch in (1, 2, 1, 2):
            got = self.w.call("execute", launches=[launch], runs=40, lead_in=True)
            times.append(got["seconds"] / 40)
        self.assertEqual((got["graph"], got["eager"]), (False, "graph=False"))
        self.assertGreater(got["host"], 0)
        self.assertLess(max(times) / min(times), 1.05, times)

    def test_rotations(self):
        launches = [1, 2, 3]
        for launch in launches:
            self.bind("linear", launch=launch)
        for start in range(3):
            got = self.w.call("execute", launches=launches[start:] + launches[:start], runs=700)
            self.assertTrue(got["graph"])
        for launch in launches:
            self.assertEqual(set(ints(self.w.read(launch * 10 + 2, 16))), {float(K)})

    def test_replays_see_new_operands(self):
        for kernel, want in (("linear", {2.0 * K}), ("packs", {float(K)}), ("eager", {2.0 * K})):
            with self.subTest(kernel):
                _, b, c = self.bind(kernel)
                self.w.call("prime", launch=1)
                self.w.call("record", launches=[1])
                self.w.write(b, halves([2]) * (N * K))
                self.w.call("execute", launches=[1], runs=1)
                self.assertEqual(set(ints(self.w.read(c, 8 * N * 2))), want)

    def test_unwritten_elements_are_no_number(self):
        _, _, c = self.bind("unwritten")
        self.w.call("prime", launch=1)
        self.w.call("record", launches=[1])
        self.w.call("execute", launches=[1], runs=1)
        last = ints(self.w.read(c, 2 * N))[-1]
        self.assertNotEqual(last, last)

    def test_what_can_not_be_captured(self):
        for kernel in ("syncs", "elsewhere"):
            with self.subTest(kernel):
                _, _, c = self.bind(kernel)
                self.w.call("prime", launch=1)
                got = self.w.call("execute", launches=[1], runs=10)
                self.assertIn("it can't be captured", got["eager"])
                self.assertTrue(1e-6 < got["seconds"] / 10 < 1e-3, got)
                self.assertEqual(set(ints(self.w.read(c, 16))), {float(K)})
        self.bind("linear")
        self.assertTrue(self.w.call("execute", launches=[1], runs=10)["graph"])

    def test_failures(self):
        for kernel, message in (
            ("cached", "the launch put nothing on the stream (a cached result?)"),
            ("strided", "strided returned a tensor with strides (1, 8), expected a contiguous one"),
        ):
            self.bind(kernel)
            with self.assertRaises(Refused) as caught:
                self.w.call("prime", launch=1)
            self.assertEqual((caught.exception.kind, caught.exception.message), ("case", message))

    def test_everything_eager(self):
        w, _ = self.begin(eager=True)
        with w:
            self.bind("linear", w=w)
            got = w.call("execute", launches=[1], runs=1000)
            self.assertEqual((got["graph"], got["eager"]), (False, "--eager"))
            self.assertNotIn("held", got)

    def test_an_illegal_access_loses_the_device(self):
        w, _ = self.begin()
        with w:
            self.bind("illegal", w=w)
            with self.assertRaises(Refused) as caught:
                w.call("prime", launch=1)
            self.assertEqual(caught.exception.kind, "device", caught.exception)


if __name__ == "__main__":
    unittest.main()
