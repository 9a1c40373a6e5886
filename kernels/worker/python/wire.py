"""Replies to the program, and failures as the protocol has them."""
import json
import os
import platform
import sys
import threading
import traceback

UNSUPPORTED, CASE, PROTOCOL, DEVICE = "unsupported", "case", "protocol", "device"

LONGEST_MESSAGE = 400
OWN = "<gemmaudit_worker/"  # how names of the worker's own files begin


class Failure(Exception):
    """An answer with an error. where is the line of the user's code, "mine.py:12". hint advises the user."""

    def __init__(self, kind, message, where="", hint=""):
        super().__init__(message)
        self.kind, self.message, self.where, self.hint = kind, message, where, hint


class Replies:
    """Lines to the program. Threads may send progress."""

    def __init__(self, fd):
        self.fd, self.lock = fd, threading.Lock()

    def send(self, **reply):
        line = json.dumps(reply, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        with self.lock:
            while line:
                line = line[os.write(self.fd, line):]

    def result(self, number, result):
        self.send(id=number, result=result)

    def progress(self, number, text):
        self.send(id=number, progress=text)

    def error(self, number, failure):
        error = {"kind": failure.kind, "message": one_line(failure.message)}
        if failure.where:
            error["where"] = failure.where
        if failure.hint:
            error["hint"] = one_line(failure.hint)
        self.send(id=number, error=error)


LEAST_WORK = 0.02  # share of the time that something that works uses a CPU


def cpu_seconds():
    """The CPU time of this process and, where it leads a group as it does below the program, of those that it started."""
    mine = sum(os.times()[:4])
    if os.getpgrp() != os.getpid():
        return mine
    ticks = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return max(mine, ticks / os.sysconf("SC_CLK_TCK"))


class Reporting:
    """Sends progress every few seconds from a thread while its block runs and uses the CPU, but not forever: user code may hang."""

    def __init__(self, progress, text, every=2.0, most=600.0, used=cpu_seconds):
        self.progress, self.text, self.every, self.most, self.used = progress, text, every, most, used
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.report, daemon=True)

    def report(self):
        before = self.used()
        for _ in range(int(self.most / self.every)):
            if self.ended.wait(self.every):
                return
            used = self.used()
            if used - before >= LEAST_WORK * self.every:
                self.progress(self.text)
            before = used

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *error):
        self.ended.set()
        self.thread.join()


# Lines of PyTorch's messages that tell nothing of the failure.
BOILERPLATE = ("CUDA kernel errors might be", "For debugging consider", "Compile with `TORCH_USE_CUDA_DSA`", "Search for `",
               "Set TORCHDYNAMO_VERBOSE", "You can suppress this exception", "Device-side assertion tracking")


def one_line(text):
    """text in one line of bounded length, without advice."""
    lines = [line for line in str(text).split("\n") if not line.strip().startswith(BOILERPLATE)]
    line = " ".join(" ".join(lines).split())
    return line if len(line) <= LONGEST_MESSAGE else line[:LONGEST_MESSAGE - 1] + "…"


def failed(error, folders):
    """The failure of user code that raised error. folders are those of the user's files."""
    if isinstance(error, Failure):
        return error
    text = str(error)
    if isinstance(error, SyntaxError):
        text = ": ".join(part.strip() for part in (error.msg, error.text) if part)
    message = "%s: %s" % (type(error).__name__, text) if text else type(error).__name__
    return Failure(CASE, one_line(message), where(error, folders), hint(error))


def hint(error):
    """Advice for errors whose cause may be another one than the user's code."""
    python = "Python %s, %s" % (platform.python_version(), sys.executable)
    if isinstance(error, ModuleNotFoundError):
        return "install it for %s, or choose another interpreter with --python" % python
    if isinstance(error, SyntaxError):
        return "read by %s; --python chooses another interpreter" % python
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames and frames[-1] == OWN + "kernel.py>":
        return "docs/kernel.md explains the options of gemmaudit.kernel"
    return ""


def users_traceback(error):
    """The error's traceback without the worker's own frames at its begin."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename.startswith(OWN):
        at = at.tb_next
    return at


def says_all(error):
    """Whether the error's line says as much as its traceback."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(users_traceback(error))]
    frames = [name for name in frames if not name.startswith((OWN, "<frozen"))]
    return len(frames) < 2 and (error.__cause__ or error.__context__) is None


def where(error, folders):
    """The innermost line of the user's code in the error's traceback, or in those of its causes; "" if there is none."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, SyntaxError) and error.filename and relative(error.filename, folders):
            return "%s:%d" % (relative(error.filename, folders), error.lineno or 1)
        frames = traceback.walk_tb(error.__traceback__)
        lines = [(relative(frame.f_code.co_filename, folders), line) for frame, line in frames]
        lines = [at for at in lines if at[0]]
        if lines:
            return "%s:%d" % lines[-1]
        error = error.__cause__ or error.__context__
    return ""


def relative(path, folders):
    """path relative to the first folder that has it, or "". Installed packages are not the user's files."""
    if "site-packages" in path or "dist-packages" in path or path.startswith("<"):
        return ""
    path = os.path.realpath(path)
    for folder in folders:
        if path.startswith(folder + os.sep):
            return os.path.relpath(path, folder)
    return ""
