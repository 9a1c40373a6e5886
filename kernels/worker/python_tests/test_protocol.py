"""The protocol, with a worker process and no packages."""
import os
import signal
import subprocess
import sys
import time
import unittest

from .driving import HERE, SOURCES, Refused, Worker, gemm

# A stand-in for numpy: enough to load, refuse and fail.
ARRAYS = {"numpy.py": "__version__ = '0'\nimport array\nclass ndarray: pass\n"}

KERNELS = """
    import numpy, gemmaudit

    @gemmaudit.kernel("gemm", supports=lambda problem: "M must be even" if problem.m % 2 else None)
    def even(a, b):
        "Even rows only."

    @gemmaudit.kernel("gemm", name="never", supports=lambda problem: False, batched=True, layout=["nk", "kn"])
    def no(a, b): pass

    @gemmaudit.kernel("gemm", supports=lambda problem: 1 / 0)
    def broken(a, b): pass

    @gemmaudit.kernel("softmax", dtypes=["fp32", "bf16"])
    def softmax(x): pass

    @gemmaudit.kernel("attention-prefill")
    def attend(q, k, v): pass
"""

# A program whose worker hangs in the user's code.
HUNG = """
import time
from python_tests.driving import Worker
w = Worker({"mine.py": "import time; print('here', flush=True); time.sleep(600)"})
w.send({"id": 2, "call": "load", "params": {"path": w.folder.name + "/mine.py"}})
while "here" not in w.printed():
    time.sleep(0.01)
print(w.process.pid, flush=True)
w.lines.readline()
"""


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Protocol(unittest.TestCase):
    def refused(self, w, call, kind, message, where="", **params):
        with self.assertRaises(Refused) as caught:
            w.call(call, **params)
        self.assertEqual((caught.exception.kind, caught.exception.message, caught.exception.where), (kind, message, where))

    def test_hello_and_the_end(self):
        for from_folder in (False, True):
            with self.subTest(from_folder=from_folder):
                w = Worker(from_folder=from_folder)
                self.assertEqual(w.hello, {"protocol": 2, "runtime": "Python %d.%d.%d" % sys.version_info[:3], "memory": "window"})
                self.assertEqual(w.close(), 0)

    def test_it_reads_nothing_and_ends(self):
        boot = (SOURCES / "boot.py").read_text(encoding="utf-8")
        code = "import os, sys\nr, w = os.pipe()\nos.close(w)\nos.dup2(r, 20)\nos.dup2(20, 3)\nos.execv(sys.argv[1], sys.argv[1:])"
        done = subprocess.run([sys.executable, "-c", code, sys.executable, "-c", boot], capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_it_dies_with_the_program(self):
        program = subprocess.Popen([sys.executable, "-c", HUNG], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=HERE.parent)
        with program.stdout:
            worker = int(program.stdout.readline())
        program.kill()
        program.wait()
        until = time.monotonic() + 30
        while alive(worker) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(alive(worker))

    def test_interrupts_are_for_the_program(self):
        with Worker() as w:
            w.process.send_signal(signal.SIGINT)
            self.refused(w, "load", "protocol", "the field path is missing")

    def test_what_is_no_request(self):
        with Worker() as w:
            self.refused(w, "dance", "protocol", "unknown call 'dance'")
            self.refused(w, "hello", "protocol", "a second hello", protocol=2)
            self.refused(w, "hello", "protocol", "the program speaks version 3 of the protocol, the worker 2", protocol=3)
            self.refused(w, "execute", "protocol", "unknown launch 1", launches=[1], runs=1)
            self.refused(w, "write", "protocol", "unknown buffer 3", buffer=3, bytes=8)
            self.refused(w, "supports", "protocol", "unknown kernel x", kernel="x", task={})
            os.write(w.requests, b"{\n\n[]\n")
            for _ in range(2):
                line = w.lines.readline()
                self.assertIn(b'{"id":0,"error":{"kind":"protocol","message":"not a request: ', line)
            self.assertEqual(w.call("close", launches=[1], weights=[2], buffers=[3]), {})

    def test_load(self):
        with Worker({**ARRAYS, "mine.py": KERNELS, "beside.py": "", "unused.py": ""}, env={"OMP_NUM_THREADS": "3"}) as w:
            loaded = w.load()
            self.assertEqual([(k["name"], k["operation"], k["description"], k["dtypes"]) for k in loaded["kernels"]], [
                ("even", "gemm", "Even rows only.", ["fp32"]), ("never", "gemm", "", ["fp32"]), ("broken", "gemm", "", ["fp32"]),
                ("softmax", "softmax", "", ["fp32", "bf16"]), ("attend", "attention-prefill", "", ["fp32"])])
            never = loaded["kernels"][1]
            self.assertEqual((never["layouts"], never["batched"], never["writes"], "packs" in never), (["nk", "kn"], True, False, False))
            self.assertEqual([f["name"] for f in loaded["files"]], ["mine.py", "numpy.py"])
            self.assertEqual((loaded["versions"]["numpy"], loaded["settings"]["OMP_NUM_THREADS"]), ("0", "3"))
            self.refused(w, "load", "case", "two kernels of gemm are called even: give one of them another name=", "mine.py:4",
                         path=os.path.join(w.folder.name, "mine.py"))

    def test_the_decorator_is_the_workers(self):
        package = str(HERE.parent.parent.parent / "scripts" / "python")
        text = """
            import numpy, gemmaudit
            from gemmaudit.kernel import Kernel

            @gemmaudit.kernel("gemm", description="%s, %s" % (hasattr(gemmaudit, "open"), gemmaudit.kernel.__module__))
            def f(a, b): pass
            assert isinstance(f, Kernel)
        """
        for path, installed in (("", False), (package, True)):
            with self.subTest(installed=installed), Worker({**ARRAYS, "mine.py": text}, env={"PYTHONPATH": path}) as w:
                self.assertEqual(w.load()["kernels"][0]["description"], "%s, gemmaudit_worker.kernel" % installed)

    def test_files_that_fail(self):
        files = {
            "none.py": "import numpy", "syntax.py": "x = (\n", "raises.py": "\nraise ValueError('no luck')",
            "absent.py": "import no_such_module", "deep.py": "import raises", "exits.py": "import sys; sys.exit(3)",
            "name.py": "import gemmaudit\ngemmaudit.kernel('gemm', name='A')(print)",
            "plain.py": "import gemmaudit\n@gemmaudit.kernel('gemm')\ndef f(a, b): pass",
        }
        want = {
            "none.py": ("none.py declares no kernel", ""),
            "syntax.py": ("SyntaxError: ", "syntax.py:1"), "absent.py": ("ModuleNotFoundError: ", "absent.py:1"),
            "deep.py": ("ValueError: no luck", "raises.py:2"),
            "raises.py": ("ValueError: no luck", "raises.py:2"),
            "exits.py": ("SystemExit: 3", "exits.py:1"), "name.py": ("ValueError: kernel: name 'A': expected a lower-case", "name.py:2"),
            "plain.py": ("the file imports neither torch nor numpy", ""), "missing.py": ("read ", ""),
        }
        hints = {"none.py": "@gemmaudit.kernel", "absent.py": sys.executable, "syntax.py": "--python", "name.py": "docs/kernel.md"}
        for name, (message, where) in want.items():
            with self.subTest(name), Worker({**files, **({} if name == "plain.py" else ARRAYS)}) as w:
                with self.assertRaises(Refused) as caught:
                    w.load(name)
                self.assertEqual((caught.exception.kind, caught.exception.where), ("case", where))
                self.assertTrue(caught.exception.message.startswith(message), caught.exception.message)
                self.assertIn(hints.get(name, ""), caught.exception.hint)
                # The traceback is printed if it has more than the line of the error, without the worker's own frames.
                self.assertEqual("Traceback" in w.printed(), name == "deep.py", w.printed())
                self.assertNotIn("main.py", w.printed())

    def test_supports(self):
        softmax = {"operation": "softmax", "dtype": "fp32", "output": "fp32", "m": 4, "dims": {"columns": 8}, "scale": 1}
        attention = {"operation": "attention-prefill", "dtype": "fp32", "output": "fp32", "m": 4, "capacity": 256,
                     "dims": {"query_heads": 4, "kv_heads": 2, "head_dim": 8}}
        with Worker({**ARRAYS, "mine.py": KERNELS}) as w:
            w.load()
            for kernel, task in (("even", gemm(4, 8, 8)), ("softmax", softmax), ("attend", attention)):
                self.assertEqual(w.call("supports", kernel=kernel, task=task), {})
            for kernel, task, reason, where in (
                ("even", gemm(3, 8, 8), "M must be even", "mine.py:4"),
                ("even", gemm(4, 8, 8, layout="kn"), "its layouts are nk", ""),
                ("even", gemm(4, 8, 8, products=2), "it computes one product a launch", ""),
                ("even", gemm(4, 8, 8, dtype="bf16"), "its dtypes are fp32", ""),
                ("even", gemm(4, 8, 8, weights={"format": "int4:128"}), "it takes plain weights", ""),
                ("even", softmax, "it computes gemm", ""),
                ("never", gemm(4, 8, 8), "supports refuses it", "mine.py:8"),
                ("softmax", {**softmax, "dtype": "bf16"}, "numpy has no bf16: import torch in the file", ""),
                ("softmax", {**softmax, "scale": 0.5}, "the scale 0.5 needs a parameter problem", ""),
                ("softmax", {**softmax, "dims": {"columns": 8, "queries": 2}}, "the causal mask needs a parameter problem", ""),
                ("softmax", {**softmax, "dims": {"columns": 8, "depth": 2}}, "the worker does not know the dimension depth", ""),
                ("attend", {**attention, "dims": {**attention["dims"], "window": 2}},
                 "the window of 2 tokens needs a parameter problem", ""),
            ):
                self.refused(w, "supports", "unsupported", reason, where, kernel=kernel, task=task)
            self.refused(w, "supports", "case", "ZeroDivisionError: division by zero", "mine.py:11", kernel="broken", task=gemm(2, 8, 8))
            self.assertIn("ZeroDivisionError", w.printed())


if __name__ == "__main__":
    unittest.main()
