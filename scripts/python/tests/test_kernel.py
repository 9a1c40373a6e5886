"""The decorator that declares kernels."""
import ast
import functools
import pathlib
import unittest

import gemmaudit
from gemmaudit import kernel

# `from gemmaudit import kernel` is the decorator; its module has the same name.
FILE = pathlib.Path(gemmaudit.__file__).parent / "kernel.py"


class Kernels(unittest.TestCase):
    def test_it_imports_nothing(self):
        tree = ast.parse(FILE.read_text(encoding="utf-8"))
        self.assertFalse([n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))])

    def test_decorator(self):
        @kernel("gemm", dtypes=["bf16", "torch.float16"], layout=["nk", "kn"], weights="int4:128")
        def linear_1(a, b=2):
            """Multiplies.

            And more."""
            return a * b

        self.assertEqual((linear_1(3), linear_1.fn(3, b=3)), (6, 9))
        self.assertEqual((linear_1.name, linear_1.operation, linear_1.description), ("linear_1", "gemm", "Multiplies."))
        self.assertEqual((linear_1.dtypes, linear_1.layouts, linear_1.weights), (("bf16", "fp16"), ("nk", "kn"), ("int4:128",)))
        self.assertIsInstance(linear_1, gemmaudit.Kernel)
        again = kernel("gemm", name="again")(linear_1)
        self.assertIs(again.fn, linear_1.fn)
        self.assertIsNone(again.dtypes)
        self.assertEqual(repr(again), "<gemmaudit kernel again: gemm>")

    def test_mistakes(self):
        def f(a, b):
            """Does nothing."""

        def Linear(a, b):
            """Has no name that selects it."""

        for want, wrong in (
            ("the operation is missing", lambda: kernel(f)),
            ("unknown operation 'conv'", lambda: kernel("conv")),
            ("unknown dtype 'fp4'", lambda: kernel("gemm", dtypes="fp4")),
            ("dtypes is empty", lambda: kernel("gemm", dtypes=[])),
            ("unknown layout 'tn'", lambda: kernel("gemm", layout=["tn"])),
            ("name 'a b'", lambda: kernel("gemm", name="a b")(f)),
            ("name 'A': .*, as in name='a'", lambda: kernel("gemm", name="A")(f)),
            ("name 'Linear': .*, as in name='linear'", lambda: kernel("gemm")(Linear)),
            ("name '1'", lambda: kernel("gemm", name="1")(f)),
            ("name ''", lambda: kernel("gemm", name="")(f)),
            ("at most 32", lambda: kernel("gemm", name="a" * 33)(f)),
            ("has no name", lambda: kernel("gemm")(lambda a, b: a)),
            ("has no name", lambda: kernel("gemm")(functools.partial(f, 1))),
            ("is no function", lambda: kernel("gemm")(3)),
            ("supports is 'x'", lambda: kernel("gemm", supports="x")),
            ("label is 3", lambda: kernel("gemm", label=3)),
            ("batched is for gemm", lambda: kernel("softmax", batched=True)),
        ):
            with self.subTest(want), self.assertRaisesRegex((TypeError, ValueError), want):
                wrong()


if __name__ == "__main__":
    unittest.main()
