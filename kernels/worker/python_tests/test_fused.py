"""Fused products of NumPy and PyTorch on a CPU, in a worker process."""
import unittest

from .driving import Refused
from .test_cpu import NUMPY, TORCH, Files, floats, read

KERNELS = """
    import %s as np
    from gemmaudit import kernel

    @kernel("fused", layout=["nk", "kn"])
    def both(a, b, bias, activation, gated, residual, problem):
        c = a @ (b.T if problem.layout == "nk" else b)
        if bias is not None:
            c = c + bias
        if gated:
            assert activation == "silu", activation
            half = problem.n // 2
            return c[:, :half].clip(0) * c[:, half:]
        if residual is not None:
            c = c + residual
        return c.clip(0) if activation else c

    @kernel("fused")
    def plain(a, b):
        return a @ b.T

    @kernel("fused", out=True)
    def biased(a, b, bias, out):
        out[:] = a @ b.T + bias
"""

A = [1, -2, 3, 4, 10, 20, 30, 40]  # [2,2], then the residual [2,2]
B = [1, 0, 0, 1, 3, 10]            # [2,2], then the bias [2]
WANT = {"bias": [4, 8, 6, 14], "relu": [1, 0, 3, 4], "bias+relu": [4, 8, 6, 14], "gated": [-2, 12], "bias+gated": [32, 84],
        "residual": [11, 18, 33, 44], "bias+residual": [14, 28, 36, 54]}


def fused(epilogue, layout="nk", **more):
    """A normalized task with the operands above."""
    return {"operation": "fused", "dtype": "fp32", "output": "fp32", "accumulator": "fp32", "m": 2, "epilogue": epilogue,
            "dims": {"n": 2, "k": 2, "epilogue": 3}, "layout": layout, "residual_at": 4 if "residual" in epilogue else 0, **more}


class Fused:
    """The products of the class's file."""

    def setUp(self):
        super().setUp()
        self.operands(A, B)
        self.w.write(3, floats(*[9] * 6))

    def test_products(self):
        for epilogue, want in WANT.items():
            for layout in "nk", "kn":
                with self.subTest(epilogue, layout=layout):
                    self.run_once("both", fused(epilogue, layout))
                    self.assertEqual(read(self.w, 3, len(want)), want)
        self.run_once("biased", fused("bias"))
        self.assertEqual(read(self.w, 3, 4), WANT["bias"])

    def test_refusals(self):
        for kernel, epilogue, message in (
            ("plain", "bias", "a bias needs a parameter bias"),
            ("plain", "relu", "the activation relu needs a parameter activation"),
            ("plain", "gated", "gates need a parameter gated"),
            ("plain", "residual", "a residual needs a parameter residual"),
            ("biased", "bias+relu", "the activation relu needs a parameter activation"),
        ):
            with self.subTest(message), self.assertRaises(Refused) as caught:
                self.w.call("supports", kernel=kernel, task=fused(epilogue))
            self.assertEqual((caught.exception.kind, caught.exception.message), ("unsupported", message))


@unittest.skipUnless(NUMPY, "needs NumPy")
class NumPy(Fused, Files):
    text = KERNELS % "numpy"


@unittest.skipUnless(TORCH, "needs PyTorch")
class PyTorch(Fused, Files):
    text = KERNELS % "torch"


if __name__ == "__main__":
    unittest.main()
