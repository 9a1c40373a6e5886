"""Drives a worker process as the program does."""
import base64
import json
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parent / "python"
WINDOW = 1 << 20

# Puts the descriptors where the worker expects them, and becomes the worker.
LAUNCHER = """
import os, sys
for to, at in enumerate(sys.argv[1].split(","), 3):
    os.dup2(int(at), to)
os.execv(sys.argv[2], sys.argv[2:])
"""


class Refused(Exception):
    """An error that the worker answered."""

    def __init__(self, error):
        super().__init__("%(kind)s: %(message)s" % error + (" (%s)" % error["where"] if "where" in error else ""))
        self.kind, self.message, self.where = error["kind"], error["message"], error.get("where", "")
        self.hint = error.get("hint", "")


def modules():
    """The worker's modules, as the program sends them."""
    return {p.stem: p.read_text(encoding="utf-8") for p in SOURCES.glob("*.py") if p.name != "boot.py"}


class Worker:
    """A worker in a folder of its own. files are written there."""

    def __init__(self, files=None, device=None, hello=None, from_folder=False, env=None):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in (files or {}).items():
            pathlib.Path(self.folder.name, name).write_text(textwrap.dedent(text), encoding="utf-8")
        self.output = tempfile.TemporaryFile()
        self.window_file = tempfile.TemporaryFile()
        self.window_file.truncate(WINDOW)
        self.window = mmap.mmap(self.window_file.fileno(), WINDOW)
        requests, self.requests = os.pipe()
        self.replies, replies = os.pipe()
        high = [os.dup(fd) for fd in (requests, replies, self.window_file.fileno())]
        while min(high) < 10:  # so that none is in the way of another
            high = [os.dup(fd) for fd in high]
        worker = [str(SOURCES / "boot.py")] if from_folder else ["-c", (SOURCES / "boot.py").read_text(encoding="utf-8")]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, ",".join(map(str, high)), sys.executable, "-u"] + worker,
            stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output, pass_fds=high, cwd=self.folder.name,
            env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {})))
        for fd in high + [requests, replies]:
            if fd > 2:
                os.close(fd)
        self.lines = os.fdopen(self.replies, "rb")
        self.number, self.progress = 0, []
        if not from_folder:
            self.send({"modules": modules()})
        self.device = device or {"id": "cpu", "kind": "cpu", "threads": 1}
        self.hello = self.call("hello", protocol=2, device=self.device, window=WINDOW, memory=["cuda-ipc", "window"], **(hello or {}))

    def send(self, line):
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self.requests, data):]

    def call(self, call, **params):
        """The result of a call; Refused if the answer is an error."""
        self.number += 1
        self.send({"id": self.number, "call": call, "params": params})
        self.progress = []
        while True:
            line = self.lines.readline()
            if not line:
                raise EOFError("the worker ended with %s:\n%s" % (self.process.wait(), self.printed()))
            reply = json.loads(line)
            assert reply["id"] == self.number, reply
            if "progress" in reply:
                self.progress.append(reply["progress"])
            elif "error" in reply:
                raise Refused(reply["error"])
            else:
                return reply["result"]

    def load(self, name="mine.py"):
        return self.call("load", path=os.path.join(self.folder.name, name))

    def open(self, number, data):
        """Opens a buffer with contents."""
        self.call("open", buffer=number, bytes=len(data))
        self.write(number, data)

    def write(self, number, data, offset=0):
        for at in range(0, len(data), WINDOW):
            part = data[at:at + WINDOW]
            self.window[:len(part)] = part
            self.call("write", buffer=number, offset=offset + at, bytes=len(part))

    def read(self, number, size, offset=0):
        out = b""
        while len(out) < size:
            part = min(WINDOW, size - len(out))
            self.call("read", buffer=number, offset=offset + len(out), bytes=part)
            out += self.window[:part]
        return out

    def printed(self):
        # Not by seek and read: the worker writes at the same position in the file.
        file = self.output.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode()

    def close(self):
        """Ends the requests and returns the exit code."""
        if self.requests >= 0:
            os.close(self.requests)
            self.requests = -1
        code = self.process.wait(timeout=60)
        self.lines.close()
        self.output.close()
        self.window.close()
        self.window_file.close()
        self.folder.cleanup()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None and error[0] is not None:
            self.process.kill()
        self.close()


def gemm(m, n, k, dtype="fp32", layout="nk", output=None, products=0, **more):
    """A normalized task."""
    output = output or {"tf32": "fp32", "fp8": "bf16", "int8": "int32"}.get(dtype, dtype)
    dims = {"n": n, "k": k}
    task = {"operation": "gemm", "dtype": dtype, "output": output, "accumulator": "int32" if dtype == "int8" else "fp32", "m": m,
            "dims": dims, "layout": layout, "lda": k, "ldb": k if layout == "nk" else n, "ldc": n}
    if products:
        dims["products"] = products
        task.update(stride_a=m * k, stride_b=n * k, stride_c=m * n)
    return {**task, **more}


def base64_of(data):
    return base64.b64encode(data).decode()
