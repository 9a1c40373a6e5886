"""Grouped products of NumPy and PyTorch on a CPU, in a worker process."""
import struct
import textwrap
import unittest

from .driving import Refused, Worker
from .test_cpu import NUMPY, TORCH, Files, floats, read

NUMPY_KERNELS = """
    import numpy as np
    from gemmaudit import kernel

    def products(a, b, sizes):
        parts, row = [], 0
        for weights, rows in zip(b, sizes):
            parts.append(a[row:row + rows] @ weights)
            row += rows
        return np.concatenate(parts)

    @kernel("grouped", layout=["nk", "kn"])
    def loop(a, b, sizes, problem):
        assert problem.groups == len(sizes) == len(b) and problem.sizes == tuple(sizes), sizes
        return products(a, b.swapaxes(1, 2) if problem.layout == "nk" else b, sizes)

    @kernel("grouped", out=True, label=lambda problem: "%d groups" % problem.groups)
    def ends(a, b, out, offsets):
        assert offsets.dtype == np.int32 and type(offsets) is np.ndarray, offsets
        out[:] = products(a, b.swapaxes(1, 2), np.diff(offsets, prepend=0))

    @kernel("grouped", prepare=lambda b: np.ascontiguousarray(b.swapaxes(1, 2)))
    def packed(a, b, sizes):
        return products(a, b, sizes)

    @kernel("grouped")
    def forgetful(a, b, sizes):
        sizes.clear()
        return np.zeros((len(a), b.shape[1]), np.float32)
"""

TORCH_KERNELS = """
    import torch
    from gemmaudit import kernel

    @kernel("grouped", out=True)
    def loop(a, b, sizes, offsets, out):
        assert offsets.dtype == torch.int32 and offsets.device == a.device and offsets.is_contiguous(), offsets
        assert offsets.diff(prepend=offsets.new_zeros(1)).tolist() == sizes
        row = 0
        for weights, rows in zip(b, sizes):
            torch.mm(a[row:row + rows], weights.t(), out=out[row:row + rows])
            row += rows
"""

A = [1, 2, 3, 4, 5, 6, 7, 8]               # [4,2]
B = [1, 0, 0, 1, 2, 0, 0, 2, 3, 1, 1, 3]   # [3,2,2]
SIZES = {(1, 1, 2): [1, 2, 6, 8, 21, 23, 29, 31], (0, 4, 0): [2 * x for x in A], (3, 0, 1): A[:6] + [29, 31]}


def grouped(sizes, layout="nk", **more):
    """A normalized task with the operands above."""
    return {"operation": "grouped", "dtype": "fp32", "output": "fp32", "accumulator": "fp32", "m": sum(sizes), "group_rows": list(sizes),
            "dims": {"n": 2, "k": 2, "groups": len(sizes), "top_k": 2, "skew": 100, "draw": 1}, "layout": layout, **more}


class Grouped(Files):
    """The products of the class's file."""

    def setUp(self):
        self.operands(A, B)
        self.w.write(3, floats(*[9] * 12))

    def computes(self, kernel, layouts=("nk",)):
        for sizes, want in SIZES.items():
            for layout in layouts:  # the matrices of B are symmetric
                with self.subTest(kernel, sizes=sizes, layout=layout):
                    self.w.write(3, floats(*[9] * 12))
                    got = self.run_once(kernel, grouped(sizes, layout), runs=3)
                    self.assertEqual(read(self.w, 3, 9), want + [9])
        return got


@unittest.skipUnless(NUMPY, "needs NumPy")
class NumPy(Grouped):
    text = NUMPY_KERNELS

    def test_load(self):
        self.assertEqual({k["operation"] for k in self.loaded["kernels"]}, {"grouped"})
        self.assertEqual([(k["layouts"], k.get("packs", False)) for k in self.loaded["kernels"]],
                         [(["nk", "kn"], False), (["nk"], False), (["nk"], True), (["nk"], False)])

    def test_products(self):
        self.computes("loop", ("nk", "kn"))
        self.assertEqual(self.computes("ends")["label"], "3 groups")
        self.computes("packed")
        self.assertEqual(self.bind("packed", grouped((1, 1, 2)))["bytes"], 48)

    def test_routings_share_weights(self):
        self.w.call("prepare", weights=1, kernel="packed", task=grouped((2, 1, 1)), buffer=2)
        for launch, (sizes, want) in enumerate(SIZES.items(), 1):
            operands = {"in": {"buffer": 1, "offset": 0}, "out": {"buffer": 3, "offset": 0}}
            self.w.call("bind", launch=launch, kernel="packed", task=grouped(sizes), weights=1, **operands)
            self.w.call("execute", launches=[launch], runs=2)
            self.assertEqual(read(self.w, 3, 8), want)

    def test_sizes_of_a_launch_are_its_own(self):
        self.run_once("forgetful", grouped((1, 1, 2)))
        self.computes("loop")

    def test_refusals(self):
        for task, kernel, kind, message in (
            (grouped((1, 1, 2), "kn"), "ends", "unsupported", "its layouts are nk"),
            (grouped((1, 1, 2), m=5), "loop", "protocol", "group_rows has 3 groups of 4 rows, expected 3 of 5"),
            (grouped((1, 1, 2), group_rows=[4]), "loop", "protocol", "group_rows has 1 groups of 4 rows, expected 3 of 4"),
            (grouped((1, 1, 2), dtype="bf16"), "loop", "unsupported", "its dtypes are fp32"),
        ):
            with self.subTest(message), self.assertRaises(Refused) as caught:
                self.w.call("supports", kernel=kernel, task=task)
            self.assertEqual((caught.exception.kind, caught.exception.message), (kind, message))

    def test_declarations(self):
        for text, message in (
            ('@kernel("grouped")\ndef blind(a, b): pass',
             "blind has no parameter that tells the rows of each group: expected offsets or sizes"),
            ('@kernel("grouped", batched=True)\ndef many(a, b, sizes): pass', "ValueError: kernel: batched is for gemm, not for grouped"),
            ('@kernel("softmax", prepare=print)\ndef soft(x): pass',
             "ValueError: kernel: prepare is for gemm and grouped, not for softmax"),
        ):
            text = "import numpy\nfrom gemmaudit import kernel\n" + textwrap.dedent(text)
            with self.subTest(message), Worker({"mine.py": text}) as w, self.assertRaises(Refused) as caught:
                w.load()
            self.assertEqual((caught.exception.kind, caught.exception.message), ("case", message))


@unittest.skipUnless(TORCH, "needs PyTorch")
class PyTorch(Grouped):
    text = TORCH_KERNELS

    def test_products(self):
        self.computes("loop")

    def test_half_precision(self):
        for dtype, cut in (("fp16", lambda v: struct.pack("<e", v)), ("bf16", lambda v: struct.pack("<f", v)[2:])):
            self.w.write(1, b"".join(map(cut, A)))
            self.w.write(2, b"".join(map(cut, B)))
            self.run_once("loop", grouped((1, 1, 2), dtype=dtype, output=dtype))
            self.assertEqual(self.w.read(3, 16), b"".join(map(cut, SIZES[1, 1, 2])))


if __name__ == "__main__":
    unittest.main()
