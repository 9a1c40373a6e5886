"""Linear layers that follow a table, on a CPU, and on a GPU where there is one."""
import contextlib
import copy
import json
import shutil
import unittest
import warnings

import gemmaudit

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import gemmaudit.torch as patching

N, K = 24, 16


def devices():
    return ["cpu"] + (["cuda:0"] if torch.cuda.is_available() else [])


def table(on, intervals, layout="nk", dtype="fp32", kernel="library", epilogues=("", "bias"), **changed):
    """A table with a series of the product for each epilogue."""
    here = patching.validators(torch.device(on))
    conditions = {"device": here.device, "libraries": dict(here.libraries), "cores": here.cores}
    conditions.update(changed)
    return gemmaudit.parse(json.dumps({
        "schema": gemmaudit.table.SCHEMA, "created": "2024-05-06T07:08:09Z", "validators": conditions,
        "series": [{"kernel": "cublaslt" if kernel == "cublas" and epilogue else kernel, "dtype": dtype, "layout": layout, "n": N, "k": K,
                    "epilogue": epilogue, "default": {"kind": "direct"}, "intervals": intervals} for epilogue in epilogues],
    }))


SPLIT = {"from": 10, "to": 20, "action": {"kind": "split", "first": [4, 3]},
         "proofs": [{"m": 12, "direct_us": 20, "remedy_us": 10, "gain_lo": 1.9, "gain_mid": 2, "gain_hi": 2.1}]}
COPIED = {"from": 21, "to": 30, "action": {"kind": "pad", "pad_to": 32, "pad": "copied"}}
IN_PLACE = {"from": 31, "to": 40, "action": {"kind": "pad", "pad_to": 48, "pad": "in-place"}}
OTHER = {"from": 41, "to": 50, "action": {"kind": "kernel", "kernel": "theirs"}}
ALL = [SPLIT, COPIED, IN_PLACE, OTHER]
MS = (1, 9, 10, 15, 20, 21, 25, 30, 31, 40, 41, 50, 51)


@contextlib.contextmanager
def counted(*names):
    """Counts calls of functions of torch."""
    calls = {name: [] for name in names}
    kept = {name: getattr(torch, name) for name in names}

    def counting(name):
        def call(*arguments, **named):
            calls[name].append(arguments[-2].shape[0])
            return kept[name](*arguments, **named)

        return call

    for name in names:
        setattr(torch, name, counting(name))
    try:
        yield calls
    finally:
        for name in names:
            setattr(torch, name, kept[name])


@unittest.skipIf(torch is None, "there is no PyTorch")
class Layers(unittest.TestCase):
    def model(self, device, bias=True, dtype=None):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(K, N, bias=bias), torch.nn.ReLU(), torch.nn.Linear(N, K))
        return layers.to(device, dtype or torch.float32).eval()

    def alike(self, found, expected):
        torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2 if expected.dtype != torch.float32 else 1e-5)

    def test_every_m(self):
        for device in devices():
            for bias in (True, False):
                model = self.model(device, bias)
                plain = copy.deepcopy(model)
                done = patching.patch(model, table(device, ALL), "library")
                self.assertEqual(done, (("0",), 3, 1))
                with torch.no_grad():
                    for m in MS:
                        x = torch.randn(m, K, device=device)
                        self.alike(model(x), plain(x))
                        self.alike(model(x.view(1, m, K)), plain(x.view(1, m, K)))
                        with torch.inference_mode():
                            self.alike(model(x), plain(x))

    def test_launches(self):
        model = self.model("cpu", bias=False)
        patching.patch(model, table("cpu", ALL), "library")
        layer = model[0]
        roomy = torch.randn(60, K)
        for m, x, want in ((9, None, []), (12, None, [4, 3, 5]), (25, None, [32]), (35, None, []), (35, roomy[:35], [48]), (35, roomy[20:55], []), (45, None, [])):
            with torch.no_grad(), counted("mm") as calls:
                out = layer(torch.randn(m, K) if x is None else x)
            self.assertEqual(calls["mm"], want, f"m{m}")
            self.assertEqual(out.shape, (m, N))
            if x is not None:
                self.alike(out, torch.nn.functional.linear(x, layer.weight))
        # A padded output has room behind its rows, which the next layer may use.
        with torch.no_grad():
            out = layer(torch.randn(25, K))
        self.assertEqual(out.untyped_storage().nbytes() // out.element_size(), 32 * N)

    def test_biases_need_proof(self):
        model = self.model("cpu")
        with self.assertWarnsRegex(patching.TableWarning, "no product with bias for 1 layers, such as 0"):
            self.assertEqual(patching.patch(model, table("cpu", ALL, epilogues=("",)), "library"), ((), 0, 0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(patching.patch(model, table("cpu", ALL, epilogues=("bias",))), (("0",), 3, 1))
        layer, x = model[0], torch.randn(12, K)
        with torch.no_grad(), counted("addmm") as calls:
            self.alike(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
            layer.bias = None
            self.alike(layer(x), torch.nn.functional.linear(x, layer.weight))
        self.assertEqual(calls["addmm"], [4, 3, 5])
        # The product with its bias proves nothing for the product alone.
        with self.assertWarnsRegex(patching.TableWarning, "no product of the model for library"):
            self.assertEqual(patching.patch(self.model("cpu", bias=False), table("cpu", ALL, epilogues=("bias",)), "library"), ((), 0, 0))

    def test_parts_are_written_into_one_output(self):
        weight, x = torch.randn(N, K), torch.randn(12, K)
        with torch.no_grad():
            out = patching.execute(gemmaudit.Action("split", (4, 3)), x, weight)
        self.assertEqual(out.untyped_storage().nbytes(), 12 * N * 4)
        self.alike(out, x @ weight.t())

    def test_gradients(self):
        model = self.model("cpu")
        plain = copy.deepcopy(model)
        patching.patch(model, table("cpu", ALL), "library")
        x = torch.randn(12, K)
        model(x).sum().backward()
        plain(x).sum().backward()
        self.alike(model[0].weight.grad, plain[0].weight.grad)

    def test_compiled(self):
        for device in devices():
            model = self.model(device)
            plain = copy.deepcopy(model)
            patching.patch(model, table(device, ALL), "library")
            compiled = torch.compile(model, fullgraph=True, backend="inductor" if device != "cpu" and shutil.which("cc") else "aot_eager")
            with torch.no_grad():
                for m in (12, 25, 26, 35, 45, 8):
                    x = torch.randn(m, K, device=device)
                    self.alike(compiled(x), plain(x))
            torch._dynamo.reset()

    def test_operator(self):
        model = self.model("cpu")
        patching.patch(model, table("cpu", ALL), "library")
        plan = model[0]._gemmaudit_plan.number
        for m in MS:
            torch.library.opcheck(torch.ops.gemmaudit.linear, (torch.randn(m, K), torch.randn(N, K), torch.randn(N), plan),
                                  test_utils=("test_schema", "test_faketensor"))

    def test_graphs(self):
        if not torch.cuda.is_available():
            self.skipTest("there is no GPU")
        model = self.model("cuda:0", dtype=torch.bfloat16)
        plain = copy.deepcopy(model)
        patching.patch(model, table("cuda:0", ALL, dtype="bf16", kernel="cublas"))
        with torch.inference_mode():
            for m in MS:
                x = torch.randn(m, K, device="cuda:0", dtype=torch.bfloat16)
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    model(x)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    out = model(x)
                for _ in range(2):
                    x.copy_(torch.randn_like(x))
                    graph.replay()
                    self.alike(out, plain(x))

    def test_what_is_promised(self):
        model = self.model("cpu")
        patching.patch(model, table("cpu", ALL), "library")
        self.assertEqual(patching.sizes(model), (10, 12, 15, 20, 21, 25, 30))
        self.assertEqual(patching.sizes(model, 20), (10, 12, 15, 20))
        self.assertAlmostEqual(patching.saving(model, 15), 10e-6)
        self.assertEqual(patching.saving(model, 25), 0)


@unittest.skipIf(torch is None, "there is no PyTorch")
class Warned(unittest.TestCase):
    def left_alone(self, t, words, model=None, kernel="library"):
        model = model or torch.nn.Sequential(torch.nn.Linear(K, N))
        with self.assertWarnsRegex(patching.TableWarning, words):
            self.assertEqual(patching.patch(model, t, kernel), ((), 0, 0))
        with torch.no_grad(), counted("addmm", "mm") as calls:
            model(torch.randn(12, K))
        self.assertEqual(calls, {"addmm": [], "mm": []})

    def test_conditions(self):
        self.left_alone(table("cpu", ALL, device="another one"), "device 'another one', here ")
        self.left_alone(table("cpu", ALL, threads=torch.get_num_threads() + 1), "threads ")

    def test_layout(self):
        self.left_alone(table("cpu", ALL, layout="kn"), "the other weight layout for 1 layers, such as 0")
        turned = torch.nn.Sequential(torch.nn.Linear(K, N))
        turned[0].weight = torch.nn.Parameter(turned[0].weight.detach().t().contiguous().t())
        self.left_alone(table("cpu", ALL), "the other weight layout", turned)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            patching.patch(turned, table("cpu", ALL, layout="kn"), "library")

    def test_no_product(self):
        self.left_alone(table("cpu", ALL, dtype="bf16"), "no product of the model for library")
        self.left_alone(table("cpu", ALL), "no product of the model for cublas", kernel="cublas")

    def test_library(self):
        found = gemmaudit.Validators(device="card", libraries={"cublas": "13.1.0"})
        held = table("cpu", ALL, device="card", libraries={"cublas": "13.2.0", "cublaslt": "13.2.0"})
        self.assertEqual(held.validators.differences(found), [("cublas", "13.2.0", "13.1.0")])
        if torch.cuda.is_available():
            here = patching.validators(torch.device("cuda:0"))
            self.assertRegex(here.libraries["cublas"], r"^\d+\.\d+\.\d+$")


if __name__ == "__main__":
    unittest.main()
