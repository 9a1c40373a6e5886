"""A patched model beside the model as it was: hooks, copies and files of it, gradients and transforms."""
import copy
import functools
import gc
import io
import itertools
import json
import pathlib
import pickle
import tempfile
import threading
import unittest
import warnings

import gemmaudit

from .test_torch import ALL, K, MS, N, counted, table

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    import gemmaudit.torch as patching
    import torch._dynamo.testing
    from torch.autograd import forward_ad
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Subclass(torch.Tensor):
        """A tensor that PyTorch's functions keep the type of."""

    class Wrapper(torch.Tensor):
        """A tensor around another one, as sharded tensors are."""

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args, kwargs = tree_map(lambda t: t.inner if isinstance(t, cls) else t, (args, kwargs or {}))
            return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, func(*args, **kwargs))

    class Operators(TorchDispatchMode):
        """Records the operators that run, and the shapes that they return."""

        def __init__(self):
            super().__init__()
            self.ran = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            self.ran.append((func.overloadpacket.__name__, tuple(out.shape)))
            return out


class Case(unittest.TestCase):
    def setUp(self):
        if torch is None:
            self.skipTest("there is no PyTorch")

    def models(self, bias=True):
        """A model that follows a table, and the same as it was."""
        torch.manual_seed(1)
        plain = torch.nn.Sequential(torch.nn.Linear(K, N, bias=bias), torch.nn.ReLU(), torch.nn.Linear(N, K)).eval()
        patched = copy.deepcopy(plain)
        patching.patch(patched, table("cpu", ALL), "library")
        return patched, plain

    def launches(self, layer, want, m=12):
        """What a layer of m rows launches by itself: none where it runs as PyTorch does."""
        with torch.no_grad(), counted("addmm") as calls:
            layer(torch.randn(m, K))
        self.assertEqual(calls["addmm"], want)

    def follows(self, layer):
        self.launches(layer, [4, 3, 5])

    def runs_as_it_is(self, layer):
        self.launches(layer, [])

    def dense(self, t):
        if t.is_nested:
            return t.unbind()
        if t.is_meta:
            return [t.shape]
        return [t.inner if type(t) is Wrapper else t]

    def same(self, patched, plain, *arguments, what=""):
        """Both return the same, or both refuse with the same words."""
        def outcome(call):
            try:
                return call(*arguments)
            except Exception as e:
                return type(e), str(e)

        found, expected = outcome(patched), outcome(plain)
        if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
            self.assertEqual((type(found), found.dtype, found.layout, found.device, found.requires_grad, found.is_inference()),
                             (type(expected), expected.dtype, expected.layout, expected.device, expected.requires_grad, expected.is_inference()), what)
            for a, b in zip(self.dense(found), self.dense(expected)):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=what or None)
        else:
            self.assertEqual(found, expected, what)
        return expected


class Told(Case):
    """What patch takes and says."""

    def test_path(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            here = patching.validators(torch.device("cpu"))
            path.write_text(json.dumps({
                "schema": gemmaudit.table.SCHEMA, "created": "2024-05-06T07:08:09Z", "validators": {"device": here.device},
                "series": [{"kernel": "library", "dtype": "fp32", "layout": "nk", "n": N, "k": K, "epilogue": "bias", "intervals": ALL}],
            }))
            for given in (path, str(path)):
                model = torch.nn.Sequential(torch.nn.Linear(K, N))
                self.assertEqual(patching.patch(model, given).layers, ("0",))
                self.follows(model)
            path.write_text("{}")
            with self.assertRaisesRegex(gemmaudit.TableError, "table.json: table has no schema"):
                patching.patch(model, path)
        self.follows(model)  # an unreadable table leaves the model unchanged
        with self.assertRaisesRegex(TypeError, r"table is a dict, expected the path of a table in JSON, or what gemmaudit.read returns"):
            patching.patch(model, {})
        with self.assertRaisesRegex(TypeError, r"model is a function, expected a torch.nn.Module"):
            patching.patch(lambda x: x, table("cpu", ALL))

    def test_printed(self):
        for layers, want in (((), "no layer follows the table"), (("0",), "1 layer follows the table (0); intervals: 3 apply, 1 skipped (another kernel)"),
                             (("a", "b"), "2 layers follow the table (a, b); intervals: 3 apply, 1 skipped (another kernel)"),
                             (("a", "b", "c", "d"), "4 layers follow the table (a to d); intervals: 3 apply, 1 skipped (another kernel)")):
            self.assertEqual(str(patching.Patched(layers, 3, 1)), want)

    def test_plans_end_with_their_layers(self):
        gc.collect()
        before = len(patching._plans)
        model = torch.nn.Sequential(torch.nn.Linear(K, N), torch.nn.Linear(K, N))
        numbers = set()
        for _ in range(20):
            patching.patch(model, table("cpu", ALL), "library")
            numbers.add(model[0]._gemmaudit_plan.number)
        self.assertEqual(len(numbers), 1)  # compiled code that refers to it stays valid
        self.assertEqual(len(patching._plans), before + 1)
        patching.unpatch(model)
        gc.collect()
        self.assertEqual(len(patching._plans), before)

    def test_operator_of_no_plan(self):
        x, weight = torch.randn(12, K), torch.randn(N, K)
        patched, _ = self.models()
        with self.assertRaisesRegex(ValueError, "plan is -1, expected that of a layer"):
            torch.ops.gemmaudit.linear(x, weight, None, -1)
        for plan in (0, patched[0]._gemmaudit_plan.number):
            for shape in ((12, K), (3, 4, K), (K,), (0, K)):
                x = torch.randn(shape)
                torch.testing.assert_close(torch.ops.gemmaudit.linear(x, weight, None, plan), torch.nn.functional.linear(x, weight))

    def test_precision(self):
        kept = torch.backends.cuda.matmul.fp32_precision
        torch.backends.cuda.matmul.fp32_precision = "tf32"  # PyTorch then refuses to read allow_tf32
        try:
            self.assertEqual(patching.dtype_name(torch.float32), "tf32")
            self.assertEqual(patching.dtype_name(torch.float32, "cpu"), "fp32")
            self.follows(self.models()[0])
        finally:
            torch.backends.cuda.matmul.fp32_precision = kept
        patched, _ = self.models()
        kept = torch.backends.mkldnn.matmul.fp32_precision
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"
        try:
            self.runs_as_it_is(patched)
        finally:
            torch.backends.mkldnn.matmul.fp32_precision = kept
        self.follows(patched)


class Forwards(Case):
    """A forward of a layer's own."""

    def hook(self, layer):
        """Wraps a layer's forward as accelerate does."""
        layer._old_forward = layer.forward
        layer.seen = 0

        def forward(layer, *arguments, **named):
            layer.seen += 1
            return layer._old_forward(*arguments, **named) + 1

        layer.forward = functools.update_wrapper(functools.partial(forward, layer), layer._old_forward)

    def test_before(self):
        model = torch.nn.Sequential(torch.nn.Linear(K, N), torch.nn.Linear(K, N))
        self.hook(model[0])
        before = dict(vars(model[0]))
        with self.assertWarnsRegex(patching.TableWarning, "1 layers have their own forward, such as 0: they run unchanged"):
            self.assertEqual(patching.patch(model, table("cpu", ALL), "library").layers, ("1",))
        x = torch.randn(12, K)
        self.same(model[0], lambda x: torch.nn.Linear.forward(model[0], x) + 1, x)
        self.assertEqual(model[0].seen, 1)
        self.follows(model[1])
        patching.unpatch(model)
        self.assertEqual(vars(model[0]), dict(before, seen=1))

    def test_after(self):
        patched, plain = self.models()
        self.hook(patched[0])
        self.hook(plain[0])
        own = patched[0].forward
        self.same(patched, plain, torch.randn(12, K))
        self.follows(patched)
        patching.unpatch(patched)
        self.assertIs(vars(patched[0])["forward"], own)
        self.same(patched, plain, torch.randn(12, K))
        self.runs_as_it_is(patched)

    def test_unpatch(self):
        patched, plain = self.models()
        before = {name: vars(m).keys() for name, m in plain.named_modules()}
        patching.patch(patched, table("cpu", ALL), "library")  # replaces the first patch's table
        self.assertEqual(repr(patched), repr(plain))
        self.follows(patched)
        patching.unpatch(patched)
        patching.unpatch(patched)
        self.assertEqual({name: vars(m).keys() for name, m in patched.named_modules()}, before)
        self.assertIs(type(patched[0]), torch.nn.Linear)
        self.runs_as_it_is(patched)

    def test_named(self):
        patched, plain = self.models()
        self.same(lambda x: patched[0](input=x), lambda x: plain[0](input=x), torch.randn(12, K))


class Kept(Case):
    """Copies and files of patched models."""

    def test_copies(self):
        patched, plain = self.models()
        deep, shallow = copy.deepcopy(patched), copy.copy(patched[0])
        replica = patched[0]._replicate_for_data_parallel()
        replica.weight, replica.bias = torch.ones(N, K), None
        patching.unpatch(patched)
        self.runs_as_it_is(patched)
        self.follows(deep)
        self.assertIsNot(deep[0].weight, patched[0].weight)
        self.runs_as_it_is(shallow)
        self.assertIs(shallow.weight, patched[0].weight)
        x = torch.randn(12, K)
        with torch.no_grad():
            self.same(replica, lambda x: x.sum(1, keepdim=True).expand(12, N), x)
            self.same(deep, plain, x)

    def test_files(self):
        patched, plain = self.models()
        x = torch.randn(12, K)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            text = pickle.dumps(patched, protocol)
            self.assertNotIn(b"gemmaudit", text)  # it then loads without this package
            loaded = pickle.loads(text)
            self.assertEqual([type(m) for m in loaded.modules()], [type(m) for m in plain.modules()])
            self.assertEqual(vars(loaded[0]).keys(), vars(plain[0]).keys())
            self.same(loaded, plain, x)
        file = io.BytesIO()
        torch.save(patched, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        self.same(loaded, plain, x)
        self.runs_as_it_is(loaded)
        patching.patch(loaded, table("cpu", ALL), "library")
        self.follows(loaded)
        self.follows(patched)

    def test_state(self):
        patched, plain = self.models()
        self.assertEqual(patched.state_dict().keys(), plain.state_dict().keys())
        state = {name: torch.ones_like(t) for name, t in plain.state_dict().items()}
        patched.load_state_dict(state)
        plain.load_state_dict(state)
        self.same(patched, plain, torch.randn(12, K))
        patched.load_state_dict({name: t.clone() for name, t in state.items()}, assign=True)
        self.same(patched, plain, torch.randn(12, K))
        self.follows(patched)


class Observed(Case):
    """Products that are differentiated, transformed, cast or recorded."""

    def test_gradients(self):
        patched, plain = (m[0] for m in self.models())
        modes = {
            "grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode,
            "autocast": functools.partial(torch.autocast, "cpu", dtype=torch.bfloat16),
        }
        for mode, train, wanted in itertools.product(modes, (False, True), itertools.product((False, True), repeat=3)):
            what = f"{mode}, train {train}, x, w, b want gradients: {wanted}"
            gradients = []
            x = torch.randn(12, K)
            for layer in (patched, plain):
                layer.train(train).zero_grad()
                own = x.clone().requires_grad_(wanted[0])
                layer.weight.requires_grad_(wanted[1])
                layer.bias.requires_grad_(wanted[2])
                with modes[mode]():
                    out = layer(own)
                if out.requires_grad:
                    out.sum().backward()
                gradients.append((out.detach(), out.requires_grad, out.is_inference(), own.grad, layer.weight.grad, layer.bias.grad))
            for found, expected in zip(*gradients):
                if isinstance(expected, torch.Tensor):
                    torch.testing.assert_close(found, expected, msg=what)
                else:
                    self.assertEqual(found, expected, what)

    def test_transforms(self):
        patched, plain = self.models()

        def dual(model):
            def call(x):
                with forward_ad.dual_level():
                    return forward_ad.unpack_dual(model(forward_ad.make_dual(x, x + 1))).tangent

            return call

        for name, transform in {
            "vmap": torch.vmap, "jacrev": torch.func.jacrev, "jacfwd": torch.func.jacfwd, "dual": dual,
            "jvp": lambda model: lambda x: torch.func.jvp(model, (x,), (x + 1,))[1],
            "vjp": lambda model: lambda x: torch.func.vjp(model, x)[1](torch.ones(12, K))[0],
            "functionalize": torch.func.functionalize,
        }.items():
            x = torch.randn((3, 12, K) if name == "vmap" else (12, K))
            for mode in (torch.no_grad, torch.enable_grad):
                with mode():
                    found = self.same(transform(patched), transform(plain), x, what=name)
                    self.assertIsInstance(found, torch.Tensor, name)
        weights = {"0.weight": torch.ones(3, N, K)}
        x = torch.randn(12, K)
        with torch.no_grad():  # an ensemble of models
            self.same(*(torch.vmap(lambda w, m=m: torch.func.functional_call(m, w, (x,))) for m in (patched, plain)), weights)

    def test_recorded(self):
        patched, plain = self.models()
        x = torch.randn(15, K)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(torch.jit.trace(patched, torch.randn(12, K)), plain, x)
            for strict in (False, True):
                rows = torch.export.Dim("rows", min=2, max=100)
                exported = torch.export.export(patched, (torch.randn(12, K),), dynamic_shapes=({0: rows},), strict=strict)
                self.assertNotIn("gemmaudit", str(exported.graph))
                self.same(exported.module(), plain, x)
        torch._dynamo.reset()

    def test_compiled_once(self):
        patched, plain = self.models()
        counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(patched, backend=counter, fullgraph=True)
        with torch.no_grad():
            for m in range(2, 52):
                self.same(compiled, plain, torch.randn(m, K))
            self.assertEqual(counter.frame_count, 2)  # for the first m, and for every m
            self.assertIn("gemmaudit", str(counter.graphs[-1].graph))
            patching.unpatch(patched)
            self.same(compiled, plain, torch.randn(12, K))
            self.assertNotIn("gemmaudit", str(counter.graphs[-1].graph))
            patching.patch(patched, table("cpu", ALL), "library")
            before = counter.frame_count
            self.same(compiled, plain, torch.randn(12, K))
            self.assertEqual(counter.frame_count, before)
            x = torch.randn(3, 12, K)
            self.same(torch.compile(torch.vmap(patched), backend="aot_eager"), torch.vmap(plain), x)
        torch._dynamo.reset()

    def test_nothing_depends_on_data(self):
        """A CUDA graph can hold what runs: no values are fetched, and sizes follow from the number of rows."""
        patched, _ = self.models()
        for m in MS:
            seen = []
            for x in (torch.zeros(m, K), torch.full((m, K), float("nan"))):
                with torch.no_grad(), Operators() as operators:
                    patched[0](x)
                seen.append(operators.ran)
            self.assertEqual(seen[0], seen[1])
            self.assertFalse({"_local_scalar_dense", "nonzero", "item"} & {name for name, _ in seen[0]})

    def test_threads(self):
        patched, plain = self.models()
        x = torch.randn(12, K)
        with torch.no_grad():
            want = plain(x)
        wrong, over = [], threading.Event()

        def call():
            while not over.is_set():
                with torch.no_grad():
                    try:
                        torch.testing.assert_close(patched(x), want, rtol=1e-4, atol=1e-4)
                    except Exception as e:
                        wrong.append(e)
                        return

        threads = [threading.Thread(target=call) for _ in range(3)]
        for t in threads:
            t.start()
        for _ in range(30):
            patching.unpatch(patched)
            patching.patch(patched, table("cpu", ALL), "library")
        over.set()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
