"""Loads files with kernels."""
import ast
import hashlib
import importlib
import inspect
import os
import sys
import types

from . import kernel as declaring
from . import tasks
from .settings import versions_and_settings
from .wire import CASE, Failure, relative


class Loaded:
    """A kernel of a file: what was declared, and where it is defined."""

    def __init__(self, declared, torch_file, where):
        self.declared, self.torch_file, self.where = declared, torch_file, where
        self.name, self.operation, self.fn = declared.name, declared.operation, declared.fn

    def dtypes(self, on_gpu):
        """The types that were declared, or those that the file's arrays have."""
        d = self.declared
        if d.dtypes is not None:
            return list(d.dtypes)
        if not self.torch_file:
            return ["fp32"]
        return ["fp32", "tf32", "fp16", "bf16"] if d.operation in tasks.PRODUCTS and on_gpu else ["fp32", "fp16", "bf16"]


class Files:
    """The files that were loaded, and their kernels by name and operation."""

    def __init__(self):
        self.kernels, self.folders, self.count = {}, [], 0

    def load(self, path, device):
        """Runs a file and returns the result of the call load."""
        folder, had_torch = os.path.dirname(os.path.realpath(path)), "torch" in sys.modules
        try:
            with open(path, "rb") as f:
                source = f.read()
        except OSError as e:
            raise Failure(CASE, "read %s: %s" % (path, e.strerror))
        if folder not in self.folders:
            self.folders.append(folder)
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
        offer_decorator()
        declared = self.run(path, source)
        if not declared:
            raise Failure(CASE, "%s declares no kernel" % os.path.basename(path),
                          hint='mark a function with @gemmaudit.kernel("gemm"), see docs/kernel.md')
        files = [(os.path.basename(path), source)] + beside(folder, path)
        imports = [imported(data) for name, data in files if name.endswith(".py")]
        torch_file = any("torch" in names for names in imports) or (not had_torch and "torch" in sys.modules)
        device.loaded(torch_file)
        found = {}
        for d in declared:
            key = d.name, d.operation
            if key in found or key in self.kernels:
                raise Failure(CASE, "two kernels of %s are called %s: give one of them another name=" % (d.operation, d.name),
                              defined(d.fn, folder))
            if d.operation == "grouped" and not any(tasks.takes(d.fn, each) for each in ("offsets", "sizes", "problem")):
                raise Failure(CASE, "%s has no parameter that tells the rows of each group: expected offsets or sizes" % d.name,
                              defined(d.fn, folder))
            found[key] = Loaded(d, torch_file or device.needs_torch, defined(d.fn, folder))
        self.kernels.update(found)
        versions, settings = versions_and_settings()
        return {
            "kernels": [text(k, device) for k in found.values()],
            "files": [{"name": name, "sha256": hashlib.sha256(data).hexdigest()} for name, data in files],
            "versions": versions, "settings": settings,
        }

    def run(self, path, source):
        """Executes a file as a module and returns the kernels that it declares."""
        self.count += 1
        stem = os.path.splitext(os.path.basename(path))[0]
        module = types.ModuleType("gemmaudit_file%d_%s" % (self.count, "".join(c if c.isalnum() else "_" for c in stem)))
        module.__file__ = path
        sys.modules[module.__name__] = module
        first = len(declaring.registered)
        try:
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            del sys.modules[module.__name__]
            raise
        return declaring.registered[first:]


def offer_decorator():
    """Makes `import gemmaudit` give this worker's decorator, whether the package is installed or not."""
    sys.modules.setdefault("gemmaudit.kernel", declaring)
    try:
        package = importlib.import_module("gemmaudit")
    except Exception:  # not installed, or not for this Python
        package = None
    if getattr(package, "__file__", None) is None:  # or a folder of that name
        package = sys.modules["gemmaudit"] = types.ModuleType("gemmaudit", "The decorator of gemmaudit's kernels.")
        package.__path__ = []
    package.kernel, package.Kernel = declaring.kernel, declaring.Kernel


def beside(folder, path):
    """The names and contents of imported modules in the file's folder."""
    found = {}
    for module in list(sys.modules.values()):
        at = getattr(module, "__file__", None)
        if not isinstance(at, str) or os.path.realpath(at) == os.path.realpath(path):
            continue
        name = relative(at, [folder])
        if name and name not in found and os.path.isfile(at):
            with open(at, "rb") as f:
                found[name] = f.read()
    return sorted(found.items())


def imported(source):
    """The names of the packages that a module's text imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(a.name.partition(".")[0] for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def defined(fn, folder):
    """Where a function is defined, "mine.py:5"; "" if it is not in the folder."""
    try:
        code = inspect.unwrap(fn).__code__
    except (AttributeError, ValueError):
        return ""
    name = relative(code.co_filename, [folder])
    return "%s:%d" % (name, code.co_firstlineno) if name else ""


def text(k, device):
    """The kernel as the protocol has it."""
    d, dtypes = k.declared, k.dtypes(device.on_gpu)
    out = {"name": d.name, "operation": d.operation, "description": d.description, "dtypes": dtypes, "writes": d.out}
    if d.operation in tasks.PRODUCTS:
        out["layouts"] = list(d.layouts)
        if d.weights:
            out["weights"] = list(d.weights)
        if d.batched:
            out["batched"] = True
        if d.prepare is not None:
            out["packs"] = True
        rounded = device.half_sums() if k.torch_file else []
        if [t for t in rounded if t in dtypes]:
            out["half_sums"] = [t for t in rounded if t in dtypes]
    return out
