"""Weights and inputs of a patched model that are other ones than the table's, or become them."""
import copy
import unittest
import warnings

from .test_torch import ALL, K, N, counted, table
from .test_torch_plain import Case

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import gemmaudit.torch as patching

    from .test_torch_plain import Subclass, Wrapper


class Weights(Case):
    def kinds(self):
        weight = torch.randn(N, K)
        return {
            "sparse": weight.to_sparse(), "csr": weight.to_sparse_csr(), "subclass": weight.as_subclass(Subclass), "wrapper": Wrapper(weight),
            "quantised": torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8), "meta": weight.to("meta"), "bf16": weight.to(torch.bfloat16),
            "turned": weight.t().contiguous().t(), "strided": torch.randn(N, 2 * K)[:, ::2], "larger": torch.randn(N, 2 * K),
        }

    def test_kinds(self):
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, weight in self.kinds().items():
                for before in (True, False):
                    patched, plain = (m[0] for m in self.models())
                    if before:
                        patching.unpatch(patched)
                    for layer in (patched, plain):
                        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
                    if before:
                        patching.patch(patched, table("cpu", ALL), "library")
                    with counted("addmm") as calls:
                        self.same(patched, plain, torch.randn(12, K, device=weight.device), what=name)
                    self.assertEqual(calls["addmm"], [], name)

    def test_inputs(self):
        patched, plain = (m[0] for m in self.models())
        x = torch.randn(12, K)
        inputs = {
            "sparse": x.to_sparse(), "csr": x.to_sparse_csr(), "subclass": x.as_subclass(Subclass), "wrapper": Wrapper(x), "meta": x.to("meta"),
            "nested": torch.nested.nested_tensor([x, x[:3]]), "jagged": torch.nested.nested_tensor([x, x[:3]], layout=torch.jagged),
            "bf16": x.to(torch.bfloat16), "one row": x[0], "scalar": x[0, 0], "narrow": x[:, :-1], "strided": torch.randn(12, 2 * K)[:, ::2],
            "turned": torch.randn(K, 12).t(), "repeated": x[:1].expand(12, K), "none": x[:0], "five": torch.randn(2, 1, 3, 2, K),
        }
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, given in inputs.items():
                self.same(patched, plain, given, what=name)

    def test_swapped(self):
        patched, plain = self.models()
        for layer in (patched[0], plain[0]):  # as sharding does
            layer.weight.data = torch.ones(N, K)
            layer.bias.data = torch.ones(N)
        self.same(patched, plain, torch.randn(12, K))
        self.follows(patched)
        for layer in (patched[0], plain[0]):
            layer.weight.data = torch.randn(K, N, generator=torch.Generator().manual_seed(3)).t()
        self.same(patched, plain, torch.randn(12, K))
        self.runs_as_it_is(patched)
        self.same(patched.double(), plain.double(), torch.randn(12, K, dtype=torch.float64))
        patched.float()
        plain.float()
        self.same(patched.to("meta"), plain.to("meta"), torch.randn(12, K, device="meta"))

    def test_tied(self):
        patched, plain = self.models()
        for model in (patched, plain):
            words = torch.nn.Embedding(N, K)
            words.weight = model[0].weight
            with torch.no_grad():
                words.weight.fill_(2)
        self.same(patched, plain, torch.randn(12, K))
        self.follows(patched)

    def test_parametrized(self):
        class Doubled(torch.nn.Module):
            calls = 0

            def forward(self, weight):
                self.calls += 1
                return 2 * weight

        parametrize = torch.nn.utils.parametrize
        patched, plain = self.models()
        for model in (patched, plain):
            parametrize.register_parametrization(model[0], "weight", Doubled())
        x = torch.randn(12, K)
        self.same(patched, plain, x)
        self.assertEqual(*(m[0].parametrizations.weight[0].calls for m in (patched, plain)))
        self.runs_as_it_is(patched)
        self.same(copy.deepcopy(patched), plain, x)
        patching.unpatch(patched)
        self.same(patched, plain, x)
        for model in (patched, plain):
            parametrize.remove_parametrizations(model[0], "weight")
        self.same(patched, plain, x)
        self.runs_as_it_is(patched)
        patching.patch(patched, table("cpu", ALL), "library")
        self.follows(patched)
        patching.unpatch(patched)
        self.assertIs(type(patched[0]), torch.nn.Linear)
        parametrize.register_parametrization(patched[0], "weight", Doubled())
        with self.assertWarnsRegex(patching.TableWarning, "no product of the model"):
            patching.patch(patched, table("cpu", ALL), "library")


if __name__ == "__main__":
    unittest.main()
