"""Kernels of NumPy and PyTorch on a CPU, in a worker process."""
import importlib.util
import os
import struct
import unittest

from .driving import WINDOW, Refused, Worker, gemm

NUMPY, TORCH = (importlib.util.find_spec(name) is not None for name in ("numpy", "torch"))

NUMPY_KERNELS = """
    import numpy as np, gemmaudit
    from gemmaudit import kernel

    @kernel("gemm", dtypes=["fp32", "int8"], layout=["nk", "kn"], batched=True)
    def product(a, b, problem):
        return np.matmul(a, np.swapaxes(b, -1, -2) if problem.layout == "nk" else b, dtype=problem.dtype == "int8" and np.int32 or None)

    @kernel("gemm", out=True, label=lambda problem: "m%d" % problem.m)
    def into(a, b, out):
        np.matmul(a, b.T, out=out)

    @kernel("gemm", prepare=lambda b: {"packed": np.ascontiguousarray(b.T)})
    def packed(a, b):
        return a @ b["packed"]

    @kernel("softmax")
    def softmax(x, problem):
        e = np.exp(problem.scale * (x - x.max(axis=1, keepdims=True)))
        return e / e.sum(axis=1, keepdims=True)

    @kernel("attention-decode")
    def attend(q, k, v, problem):
        assert k.shape == v.shape == (problem.kv_heads, problem.visible, problem.head_dim), k.shape
        out = np.empty_like(q)
        for h in range(problem.query_heads):
            kv = h * problem.kv_heads // problem.query_heads
            e = np.exp(problem.scale * q[:, h] @ k[kv].T)
            out[:, h] = e @ v[kv] / e.sum()
        return out

    @kernel("gemm", weights=["int4"], dtypes=["fp16"])
    def codes(a, b, problem):
        both = np.stack([b.codes & 15, b.codes >> 4], -1).reshape(problem.n, problem.k).astype(np.float32)
        zeros = 8
        if b.zeros is not None:
            zeros = np.stack([b.zeros & 15, b.zeros >> 4], -1).reshape(-1)[:b.scales.size].reshape(b.scales.shape).repeat(b.group, 1)
        return (a.astype(np.float32) @ ((both - zeros) * b.scales.repeat(b.group, 1)).T).astype(np.float16)

    calls = []

    @kernel("gemm", out=True, label=lambda problem: str(len(calls)))
    def counts(a, b, out):
        calls.append(0)
        np.matmul(a, b.T, out=out)

    last = {}
    fixed = np.zeros((2, 3), np.float32)
    cache = {}

    @kernel("gemm")
    def strided(a, b): return (b @ a.T).T

    @kernel("gemm")
    def wide(a, b): return a.astype(np.float64) @ b.T

    @kernel("gemm")
    def short(a, b): return (a @ b.T)[:1]

    @kernel("gemm")
    def nothing(a, b): pass

    @kernel("gemm")
    def same(a, b):
        np.matmul(a, b.T, out=fixed)
        return fixed

    @kernel("gemm")
    def operand(a, b): return a

    @kernel("gemm")
    def cached(a, b):
        key = a.ctypes.data
        if key not in cache:
            cache[key] = a @ b.T
        return cache[key]

    @kernel("gemm")
    def overwrites(a, b):
        out = a @ b.T
        a[0, 0] = -1
        return out

    @kernel("gemm", supports=lambda problem: 1 // (problem.m - 3))
    def unsure(a, b):
        return a @ b.T

    @kernel("gemm")
    def raises(a, b):
        raise ValueError("no " + str(a.shape[0]))
"""

TORCH_KERNELS = """
    import torch, gemmaudit

    @gemmaudit.kernel("gemm", batched=True)
    def linear(a, b):
        return torch.matmul(a, b.transpose(-1, -2))

    gemmaudit.kernel("gemm", name="other")(linear.fn)

    @gemmaudit.kernel("attention-prefill")
    def attend(q, k, v):
        q = q.transpose(0, 1)[None]
        out = torch.nn.functional.scaled_dot_product_attention(q, k[None], v[None], is_causal=True, enable_gqa=True)
        return out[0].transpose(0, 1).contiguous()

    @gemmaudit.kernel("gemm")
    def strided(a, b): return (b @ a.T).T

    @gemmaudit.kernel("gemm", dtypes=["fp8"], weights="fp8")
    def scaled(a, b, scale_a):
        out = 0
        for g in range(scale_a.shape[1]):
            k, columns = slice(g * b.group, (g + 1) * b.group), b.scales[:, g].repeat_interleave(b.columns)[:b.codes.shape[0]]
            out = out + (a[:, k].float() @ b.codes[:, k].float().T) * scale_a[:, g:g + 1] * columns
        return out.bfloat16()

    @gemmaudit.kernel("gemm", dtypes=["fp8"], weights="fp8:2x2")
    def without(a, b): return None

    compiled = []

    def count(graph, inputs):
        compiled.append(inputs[0].shape)
        return graph

    @gemmaudit.kernel("gemm", name="compiled", label=lambda problem: "%d compilations" % len(compiled))
    @torch.compile(backend=count)
    def specialised(a, b): return a @ b.T
"""


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


def read(w, buffer, count, kind="f", offset=0):
    size = struct.calcsize("<" + kind)
    return list(struct.unpack("<%d%s" % (count, kind), w.read(buffer, count * size, offset)))


A, B = [1, 2, 3, 4, 5, 6, 7, 8], [1, 0, 0, 1, 2, 0, 0, 2, 1, 1, 1, 1]  # [2,4] and [3,4]
C = [5, 10, 10, 13, 26, 26]                                            # A · Bᵀ


class Files(unittest.TestCase):
    """A worker with the file of the class, and the operands of a small product."""

    text = ""

    @classmethod
    def setUpClass(cls):
        cls.w = Worker({"mine.py": cls.text})
        cls.addClassCleanup(cls.w.close)
        cls.loaded = cls.w.load()
        for buffer, size in ((1, len(A)), (2, len(B)), (3, 12)):
            cls.w.open(buffer, floats(*[9] * size))

    def setUp(self):
        self.operands(A, B)
        self.w.write(3, floats(*[9] * 12))

    def operands(self, a, b):
        self.w.write(1, floats(*a))
        self.w.write(2, floats(*b))

    def bind(self, kernel, task, launch=1, weights=1, **more):
        out = self.w.call("prepare", weights=weights, kernel=kernel, task=task, buffer=2)
        params = {"in": {"buffer": 1, "offset": 0}, "out": {"buffer": 3, "offset": 0}, "weights": weights, **more}
        self.w.call("bind", launch=launch, kernel=kernel, task=task, **params)
        return out

    def run_once(self, kernel, task, runs=1, **more):
        self.bind(kernel, task, **more)
        return self.w.call("execute", launches=[1], runs=runs)

    def decorated(self, kernel):
        """Where a kernel is defined: the line of its decorator."""
        lines = self.text.split("\n")
        return "mine.py:%d" % next(i for i, line in enumerate(lines) if "def %s(" % kernel in line)

    def refused(self, message, where, act):
        with self.assertRaises(Refused) as caught:
            act()
        self.assertEqual((caught.exception.kind, caught.exception.message, caught.exception.where), ("case", message, where))


@unittest.skipUnless(NUMPY, "needs NumPy")
class NumPy(Files):
    text = NUMPY_KERNELS

    def test_products(self):
        for kernel, label in (("product", ""), ("into", "m2"), ("packed", "")):
            with self.subTest(kernel):
                self.w.write(3, floats(*[9] * 6))
                got = self.run_once(kernel, gemm(2, 3, 4), runs=3)
                self.assertEqual(read(self.w, 3, 7), C + [9])
                self.assertEqual((got["graph"], got["label"], got.get("host", 0)), (False, label, 0))
                self.assertTrue(0 < got["seconds"] < 1)

    def test_packing_counts(self):
        self.assertEqual(self.bind("packed", gemm(2, 3, 4))["bytes"], 48)
        self.assertEqual(self.bind("product", gemm(2, 3, 4)), {"bytes": 0, "seconds": 0.0})

    def test_layouts_leading_dimensions_and_offsets(self):
        # A [2,2] in rows of 4 from element 1 on, B [2,3] in rows of 4, C in rows of 4.
        task = gemm(2, 3, 2, layout="kn", lda=4, ldb=4, ldc=4)
        self.bind("product", task, **{"in": {"buffer": 1, "offset": 1}, "out": {"buffer": 3, "offset": 2}})
        self.w.call("execute", launches=[1], runs=1)
        self.assertEqual(read(self.w, 3, 10), [9, 9, 8, 0, 0, 9, 20, 0, 0, 9])

    def test_batches(self):
        self.run_once("product", gemm(1, 1, 4, products=2))
        self.assertEqual(read(self.w, 3, 3), [1 * 1 + 4 * 1, 5 * 2 + 8 * 2, 9])

    def test_integers(self):
        self.w.write(1, bytes([1, 255, 2, 3]))
        self.w.write(2, bytes([1, 2, 3, 4]))
        self.run_once("product", gemm(1, 1, 4, dtype="int8"))
        self.assertEqual(read(self.w, 3, 1, "i"), [1 - 2 + 6 + 12])

    def test_quantized(self):
        # Codes 9 8 | 8 9 and 8 8 | 10 9 in groups of 2, with scales 1, 2, 0.5 and 1.
        raw = bytes([0x89, 0x98, 0x88, 0x9A]) + bytes(12) + struct.pack("<4e", 1, 2, 0.5, 1) + bytes(8) + bytes([0x21, 0x43])
        for zeros, want in (
            ({}, [(9 - 8) * 1 + (9 - 8) * 2, 0 + (9 - 8) * 1]),
            ({"zero_bits": 4, "zeros_at": 32}, [(9 - 1) * 1 + (9 - 2) * 2, (8 - 3) * 0.5 + (9 - 4) * 1]),
        ):
            with self.subTest(zeros):
                self.w.write(1, struct.pack("<4e", 1, 0, 0, 1))
                self.w.open(7, raw)
                weights = {"format": "int4:2", "bits": 4, "group": 2, "scale": "fp16", "scales_at": 16, **zeros}
                task = gemm(1, 2, 4, dtype="fp16", weights=weights)
                self.w.call("prepare", weights=5, kernel="codes", task=task, buffer=7)
                operands = {"in": {"buffer": 1, "offset": 0}, "out": {"buffer": 3, "offset": 0}}
                self.w.call("bind", launch=5, kernel="codes", task=task, weights=5, **operands)
                self.w.call("execute", launches=[5], runs=1)
                self.assertEqual(read(self.w, 3, 2, "e"), want)
                self.w.call("close", launches=[5], weights=[5], buffers=[7])

    def test_softmax(self):
        self.w.write(1, floats(0, 0, 0, 0))
        task = {"operation": "softmax", "dtype": "fp32", "output": "fp32", "m": 2, "dims": {"columns": 2}, "scale": 2}
        self.w.call("bind", launch=1, kernel="softmax", task=task, **{"in": {"buffer": 1, "offset": 0}, "out": {"buffer": 3, "offset": 0}})
        self.w.call("execute", launches=[1], runs=1)
        self.assertEqual(read(self.w, 3, 5), [0.5] * 4 + [9])

    def test_attention_sees_its_tokens(self):
        # 3 of 4 slots, head of 1, one key head: equal keys, so that the result is the mean of the visible values.
        self.w.write(2, floats(0, 0, 0, 50, 1, 2, 6, 1000))
        for window, m, want in ((0, 3, 3.0), (2, 3, 4.0), (2, 6, (1 + 2) / 2)):
            with self.subTest(window=window, m=m):
                if m == 6:  # tokens 4 and 5 are in slots 0 and 1
                    self.w.write(2, floats(0, 0, 0, 50))
                dims = {"query_heads": 2, "kv_heads": 1, "head_dim": 1, **({"window": window} if window else {})}
                task = {"operation": "attention-decode", "dtype": "fp32", "output": "fp32", "m": m, "dims": dims, "capacity": 4}
                self.run_once("attend", task)
                self.assertEqual(read(self.w, 3, 2), [want] * 2)

    def test_results_that_are_refused(self):
        for kernel, message in (
            ("strided", "strided returned an array with strides (1, 2), expected a contiguous one"),
            ("wide", "wide returned elements of float64, expected float32"),
            ("short", "short returned shape (1, 3), expected (2, 3)"),
            ("nothing", "nothing returned nothing, expected a numpy array"),
        ):
            with self.subTest(kernel):
                self.bind(kernel, gemm(2, 3, 4))
                self.refused(message, self.decorated(kernel), lambda: self.w.call("execute", launches=[1], runs=1))
        self.bind("operand", gemm(2, 3, 3, lda=3, ldb=3))
        self.refused("operand returned memory of an operand, expected a new result", self.decorated("operand"),
                     lambda: self.w.call("execute", launches=[1], runs=1))

    def test_one_result_for_two_launches(self):
        for launch in (1, 2):
            self.bind("same", gemm(2, 3, 4), launch=launch, weights=launch)
        self.refused("same returned the same memory for different operands, expected new results (or out=True)", self.decorated("same"),
                     lambda: self.w.call("execute", launches=[1, 2], runs=4))

    def test_operands_that_change(self):
        self.bind("overwrites", gemm(2, 3, 4))
        with self.assertRaises(Refused) as caught:
            self.w.call("prime", launch=1)
        self.assertEqual((caught.exception.kind, caught.exception.message, caught.exception.where),
                         ("device", "overwrites wrote into its operands, expected to write its result only", self.decorated("overwrites")))

    def test_setup(self):
        task, steps = gemm(2, 3, 4), []

        def step(call, **params):
            steps.append({"call": call, "params": params})

        # Both operands are in the window together.
        a, b = floats(*A), floats(*[2 * x for x in B])
        self.w.window[:len(a) + len(b)] = a + b
        step("open", buffer=11, bytes=len(a))
        step("write", buffer=11, offset=0, bytes=len(a))
        step("open", buffer=12, bytes=len(b))
        step("write", buffer=12, offset=0, bytes=len(b), window=len(a))
        step("prepare", weights=11, kernel="product", task=task, buffer=12)
        step("bind", launch=11, kernel="product", task=task, weights=11,
             **{"in": {"buffer": 11, "offset": 0}, "out": {"buffer": 3, "offset": 0}})
        got = self.w.call("setup", steps=steps)["results"]
        self.assertEqual(got[:4] + got[5:], [{}] * 5)
        self.assertEqual(got[4]["bytes"], 0)
        self.w.call("execute", launches=[11], runs=1)
        self.assertEqual(read(self.w, 3, 6), [2 * x for x in C])
        # A step that fails ends it; those before were made.
        steps.clear()
        step("open", buffer=13, bytes=4)
        step("open", buffer=12, bytes=4)
        step("open", buffer=14, bytes=4)
        for wrong, message in ((None, "buffer 12 is open"), ("execute", "setup has no step 'execute'")):
            if wrong:
                steps[:] = [{"call": wrong}]
            with self.assertRaises(Refused) as caught:
                self.w.call("setup", steps=steps)
            self.assertEqual((caught.exception.kind, caught.exception.message), ("protocol", message))
        self.w.call("open", buffer=14, bytes=4)
        for buffer in (13, 14):
            with self.assertRaisesRegex(Refused, "buffer %d is open" % buffer):
                self.w.call("open", buffer=buffer, bytes=4)
        with self.assertRaisesRegex(Refused, "8 bytes at %d do not fit into the window" % (WINDOW - 4)):
            self.w.call("write", buffer=12, bytes=8, window=WINDOW - 4)
        self.w.call("setup", steps=[{"call": "close", "params": {"launches": [11], "weights": [11], "buffers": [11, 12, 13, 14, 99]}}])

    def test_small_buffers_take_little_memory(self):
        def resident():
            with open("/proc/%d/statm" % self.w.process.pid) as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        before, numbers, size = resident(), range(100, 700), 16 << 10
        for n in numbers:
            self.w.open(n, bytes([n % 251]) * size)
        self.assertLess(resident() - before, 64 << 20)  # with a huge page for each 1200 MiB
        for n in numbers:
            self.assertEqual(self.w.read(n, size), bytes([n % 251]) * size)
        self.w.call("close", buffers=list(numbers))

    def test_weights_do_not_depend_on_supports_of_one_m(self):
        task = gemm(3, 3, 4)
        self.w.call("prepare", weights=1, kernel="unsure", task=task, buffer=2)
        for call in ("supports", "bind"):
            with self.subTest(call), self.assertRaises(Refused) as caught:
                operands = {"in": {"buffer": 1, "offset": 0}, "out": {"buffer": 3, "offset": 0}, "weights": 1}
                self.w.call(call, launch=1, kernel="unsure", task=task, **(operands if call == "bind" else {}))
            self.assertIn("ZeroDivisionError", caught.exception.message)

    def test_exceptions_name_the_line(self):
        self.bind("raises", gemm(2, 3, 4))
        line = self.text.split("\n").index('        raise ValueError("no " + str(a.shape[0]))') + 1
        self.refused("ValueError: no 2", "mine.py:%d" % line, lambda: self.w.call("prime", launch=1))

    def test_prime(self):
        self.bind("product", gemm(2, 3, 4))
        got = self.w.call("prime", launch=1)
        self.assertTrue(3 <= got["runs"] <= 50 and 0 < got["seconds"] < 1 and got["warmup"] >= got["seconds"], got)

    def test_launches_like_a_primed_one_have_no_first_run(self):
        def calls(launch, task=gemm(2, 3, 4)):
            self.bind("counts", task, launch=launch)
            return int(self.w.call("execute", launches=[launch], runs=1)["label"])

        first = calls(1)
        self.assertEqual(calls(2), first + 2)
        self.w.call("prime", launch=2)
        primed = calls(3)
        self.assertEqual((calls(4), calls(5)), (primed + 1, primed + 2))
        self.assertEqual(read(self.w, 3, 6), C)
        self.assertEqual(calls(6, gemm(1, 3, 4)), primed + 4)

    def test_what_is_cached_is_stale(self):
        for kernel, stale in (("product", False), ("cached", True)):
            self.operands(A, B)
            self.bind(kernel, gemm(2, 3, 4))
            self.w.call("record", launches=[1])
            self.operands([2 * x for x in A], B)
            self.w.call("execute", launches=[1], runs=2)
            got = read(self.w, 3, 6)
            if stale:
                self.assertTrue(all(x != x for x in got), got)  # poisoned
            else:
                self.assertEqual(got, [2 * x for x in C])

    def test_rotation_lead_in_parts_and_copies(self):
        self.bind("product", gemm(1, 3, 4))
        self.bind("product", gemm(1, 3, 4), launch=2, part=True, **{"in": {"buffer": 1, "offset": 4}, "out": {"buffer": 3, "offset": 3}})
        self.w.call("bind_copy", launch=3, **{"from": {"buffer": 1, "offset": 4}, "to": {"buffer": 3, "offset": 24}, "bytes": 8})
        got = self.w.call("execute", launches=[1, 2, 3], runs=7, lead_in=True)
        self.assertEqual(got["ahead"], 7)
        self.assertEqual(read(self.w, 3, 9), C + [2, 3, 9])


@unittest.skipUnless(TORCH, "needs PyTorch")
class PyTorch(Files):
    text = TORCH_KERNELS

    def test_load(self):
        dtypes = {k["name"]: k["dtypes"] for k in self.loaded["kernels"]}
        self.assertEqual([dtypes.pop("scaled"), dtypes.pop("without")], [["fp8"]] * 2)
        self.assertEqual(list(dtypes.values()), [["fp32", "fp16", "bf16"]] * 5)
        self.assertFalse([k for k in self.loaded["kernels"] if "half_sums" in k])
        self.assertIn("torch", self.loaded["versions"])
        settings = self.loaded["settings"]
        self.assertEqual(settings["torch.num_threads"], "1")
        self.assertIn(settings["torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction"], ("true", "false"))

    def test_products(self):
        self.run_once("linear", gemm(2, 3, 4), runs=2)
        self.assertEqual(read(self.w, 3, 7), C + [9])
        for dtype in ("fp16", "bf16"):
            cut = (lambda v: struct.pack("<e", v)) if dtype == "fp16" else (lambda v: struct.pack("<f", v)[2:])
            self.w.write(1, b"".join(map(cut, A)))
            self.w.write(2, b"".join(map(cut, B)))
            self.run_once("other", gemm(2, 3, 4, dtype=dtype))
            self.assertEqual(self.w.read(3, 12), b"".join(map(cut, C)))

    def test_scales(self):
        # Three rows of scales at a distance of 4, behind 8 bytes of A; scales of blocks of 2 x 2.
        w, codes = self.w, {1: 0x38, 2: 0x40, 0: 0, -1: 0xb8}
        a = [1, 2, -1, 1, 0, 1, 2, 2, 0]  # [3,3]
        b = [1, 1, 1, 0, 1, 2, 2, -1, 1]  # [3,3]
        rows, blocks = [[1, 10], [2, 20], [3, 30]], [[1, 2], [4, 8]]
        scales = [row[g] for g in range(2) for row in rows + [[99, 99]]]
        w.open(21, bytes(codes[x] for x in [0] + a) + bytes(6) + floats(*scales))
        w.open(22, bytes(codes[x] for x in b) + bytes(7) + floats(*sum(blocks, [])))
        w.open(23, bytes(2 * 9))
        weights = {"format": "fp8:2x2", "bits": 8, "group": 2, "columns": 2, "scale": "fp32", "scales_at": 16}
        task = gemm(3, 3, 3, dtype="fp8", weights=weights, scales={"type": "fp32", "at": 15, "ld": 4, "groups": 2, "group": 2})
        w.call("prepare", weights=21, kernel="scaled", task=task, buffer=22)
        operands = {"in": {"buffer": 21, "offset": 1}, "out": {"buffer": 23, "offset": 0}}
        w.call("bind", launch=21, kernel="scaled", task=task, weights=21, **operands)
        w.call("execute", launches=[21], runs=1)
        want = [sum(a[3 * i + k] * b[3 * j + k] * rows[i][k // 2] * blocks[j // 2][k // 2] for k in range(3))
                for i in range(3) for j in range(3)]
        self.assertEqual(w.read(23, 18), b"".join(struct.pack("<f", x)[2:] for x in want))
        with self.assertRaisesRegex(Refused, "activations with scales need a parameter scale_a"):
            w.call("supports", kernel="without", task=task)

    def test_batches_and_parts(self):
        self.run_once("linear", gemm(1, 1, 4, products=2), part=True)
        self.assertEqual(read(self.w, 3, 3), [5, 26, 9])

    def test_attention(self):
        # One head of 1; equal keys: token i gets the mean of the first i+1 values.
        self.w.write(2, floats(0, 0, 0, 0, 1, 3, 5, 7))
        task = {"operation": "attention-prefill", "dtype": "fp32", "output": "fp32", "m": 3, "capacity": 4,
                "dims": {"query_heads": 2, "kv_heads": 1, "head_dim": 1}}
        self.run_once("attend", task)
        self.assertEqual(read(self.w, 3, 7), [1, 1, 2, 2, 3, 3, 9])

    def test_strides(self):
        self.bind("strided", gemm(2, 3, 4))
        with self.assertRaises(Refused) as caught:
            self.w.call("execute", launches=[1], runs=1)
        self.assertEqual(caught.exception.message, "strided returned a tensor with strides (1, 2), expected a contiguous one")

    def test_each_m_is_compiled(self):
        w = self.w
        w.open(4, floats(*[1] * 4 * 12))
        w.open(5, floats(*[0] * 3 * 12))
        for m in range(2, 13):
            task = gemm(m, 3, 4)
            w.call("prepare", weights=m, kernel="compiled", task=task, buffer=2)
            operands = {"in": {"buffer": 4, "offset": 0}, "out": {"buffer": 5, "offset": 0}}
            w.call("bind", launch=m, kernel="compiled", task=task, weights=m, **operands)
            w.call("prime", launch=m)
            got = w.call("execute", launches=[m], runs=1)
        self.assertEqual((got["label"], read(w, 5, 36)), ("11 compilations", [2, 4, 4] * 12))

    def test_operands_that_do_not_fit(self):
        with self.assertRaises(Refused) as caught:
            self.bind("linear", gemm(4, 3, 4))
        self.assertEqual(caught.exception.message, "ValueError: an operand (4, 4) of fp32 ends at byte 64 of a buffer of 32")


if __name__ == "__main__":
    unittest.main()
