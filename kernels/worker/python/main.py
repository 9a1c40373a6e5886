"""The worker's loop: it answers the program's requests in order until there are no more."""
import ctypes
import faulthandler
import gc
import json
import mmap
import os
import platform
import select
import signal
import sys
import time
import traceback

from . import launches, settling, tasks
from .loading import Files
from .wire import DEVICE, PROTOCOL, Failure, Replies, failed, one_line, says_all, users_traceback

VERSION = 2
REQUESTS_FD, REPLIES_FD, WINDOW_FD = 3, 4, 5
PR_SET_PDEATHSIG = 1
STEPS = ("open", "write", "prepare", "bind", "bind_copy", "close")  # of the call setup
PATIENT = 1.0  # seconds without a sign of life between two steps


def run(requests):
    """Serves requests, a binary file, whose program must be alive."""
    end_with_program()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what ends
    descriptors = [REQUESTS_FD, REPLIES_FD, WINDOW_FD]
    for fd in descriptors:
        os.set_inheritable(fd, False)

    def leave():
        while descriptors:
            os.close(descriptors.pop())

    os.register_at_fork(after_in_child=leave)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=False)  # the program asks where a call hangs
    Worker(Replies(REPLIES_FD)).serve(requests)
    sys.stdout.flush()
    os._exit(0)  # threads and atexit functions of user code may hang


def end_with_program():
    """Lets the kernel end this process when the program dies, and ends it if the program is dead already."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (AttributeError, OSError):
        pass  # the end of requests remains
    poll = select.poll()
    poll.register(REQUESTS_FD, select.POLLHUP)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        os._exit(0)


class Worker:
    """The state between requests."""

    def __init__(self, replies):
        self.replies, self.device, self.window = replies, None, None
        self.files, self.number, self.lost = Files(), 0, ""
        self.buffers, self.weights, self.launches = {}, {}, {}
        self.printed = set()
        self.steps, self.same = False, {}  # in setup: by asks, what was checked last, since launches differ in operands only
        self.calls = {
            "hello": self.hello, "load": self.load, "supports": self.supports, "open": self.open, "write": self.write,
            "read": self.read, "prepare": self.prepare, "bind": self.bind, "bind_copy": self.bind_copy, "prime": self.prime,
            "record": self.record, "execute": self.execute, "close": self.close, "setup": self.setup,
        }

    def serve(self, requests):
        try:
            for line in iter(requests.readline, b""):
                if line.strip():
                    self.answer(line)
        except OSError as e:
            os.write(2, ("the pipes of the worker are unusable, a kernel's code may have closed descriptors 3 to 5: %s\n" % e).encode())
            os._exit(1)

    def answer(self, line):
        self.number = 0
        try:
            request = json.loads(line)
            self.number = request["id"]
            call, params = self.calls.get(request["call"]), request.get("params") or {}
            if call is None:
                raise Failure(PROTOCOL, "unknown call %r" % request["call"])
            if self.device is None and call != self.hello:
                raise Failure(PROTOCOL, "the first call must be hello, not %s" % request["call"])
        except (ValueError, KeyError, TypeError) as e:
            return self.replies.error(self.number, Failure(PROTOCOL, "not a request: %s" % one_line(repr(e))))
        except Failure as e:
            return self.replies.error(self.number, e)
        try:
            if self.lost:
                raise Failure(DEVICE, self.lost)
            result = call(params)
        except BaseException as e:  # SystemExit too: user code must not end the worker
            failure = self.failure(e, request["call"])
        else:
            return self.replies.result(self.number, result or {})
        gc.collect()  # the traceback's frames held arrays
        self.replies.error(self.number, failure)

    def failure(self, error, call):
        """The failure to report. The traceback of user code goes to stderr, once for each line that fails."""
        found = failed(error, self.files.folders)
        if not isinstance(error, Failure):
            key = (call, type(error).__name__, found.where)
            if key not in self.printed and not (call == "load" and says_all(error)):
                self.printed.add(key)
                traceback.print_exception(type(error), error, users_traceback(error))
        sick = self.device.sick() if self.device is not None else ""
        if sick:
            self.lost = sick
            found = Failure(DEVICE, found.message, found.where)
        return found

    def progress(self, text):
        self.replies.progress(self.number, text)

    def hello(self, p):
        if need(p, "protocol") != VERSION:
            raise Failure(PROTOCOL, "the program speaks version %s of the protocol, the worker %d" % (p["protocol"], VERSION))
        if self.device is not None:
            raise Failure(PROTOCOL, "a second hello")
        if need(p, "device").get("kind", "cpu") == "cpu":
            from .cpu import Device
            device = Device(p["device"])
        else:
            from .cuda import Device
            device = Device(p["device"], p.get("eager", False), p.get("graph_bytes", 0), p.get("stamps"))
        memory = device.memory(need(p, "memory"))
        if not memory:
            raise Failure(PROTOCOL, "none of the memory that was offered serves %s: %s" % (p["device"].get("id"), ", ".join(p["memory"])))
        if p.get("window"):
            self.window = memoryview(mmap.mmap(WINDOW_FD, p["window"]))
        self.device = device
        return {"protocol": VERSION, "runtime": "Python " + platform.python_version(), "memory": memory}

    def load(self, p):
        result = self.files.load(need(p, "path"), self.device)
        settling.specialise()
        # Collections would look through the modules again and again, between blocks.
        gc.collect()
        gc.freeze()
        return result

    def kernel(self, p, operation):
        """The kernel of a name; of several, the one for the operation."""
        name = need(p, "kernel")
        named = {k.operation: k for k in self.files.kernels.values() if k.name == name}
        return named.get(operation) or found(named, next(iter(named), None), "kernel " + name)

    def checked(self, p, asks=True):
        """A kernel, the problem, and the arrays for it. asks calls the kernel's supports."""
        task = need(p, "task")
        named, same = need(p, "kernel"), self.same.get(asks)
        if same is not None and same[:2] == (named, task):
            return same[2]
        kernel, problem = self.kernel(p, task.get("operation")), tasks.Problem(task)
        arrays = self.device.arrays(kernel.torch_file)
        tasks.check(kernel, problem, arrays, self.device.on_gpu, asks)
        if self.steps:
            self.same[asks] = named, task, (kernel, problem, arrays)
        return kernel, problem, arrays

    def supports(self, p):
        self.checked(p)

    def open(self, p):
        number = need(p, "buffer")
        if number in self.buffers:
            raise Failure(PROTOCOL, "buffer %d is open" % number)
        self.buffers[number] = self.device.open(need(p, "bytes"), p.get("handle", ""), p.get("offset", 0))

    def moved(self, p):
        size, at = need(p, "bytes"), p.get("window", 0)
        if self.window is None or size < 0 or not 0 <= at <= len(self.window) - size:
            raise Failure(PROTOCOL, "%d bytes at %d do not fit into the window" % (size, at))
        return self.buffer(p), p.get("offset", 0), self.window[at:at + size]

    def buffer(self, p):
        return found(self.buffers, need(p, "buffer"), "buffer")

    def write(self, p):
        self.device.write(*self.moved(p))

    def read(self, p):
        self.device.read(*self.moved(p))

    def prepare(self, p):
        kernel, problem, arrays = self.checked(p, asks=False)  # other M share the weights
        weights, size, seconds = launches.prepare(kernel, problem, self.buffer(p), arrays, self.device.clock)
        self.weights[need(p, "weights")] = weights
        return {"bytes": size, "seconds": seconds}

    def operand(self, p):
        return self.buffer(p), p.get("offset", 0)

    def bind(self, p):
        kernel, problem, arrays = self.checked(p)
        number = need(p, "launch")
        weights = found(self.weights, p["weights"], "weights") if p.get("weights") else None
        if weights is None and tasks.stored(problem):
            raise Failure(PROTOCOL, "a launch of %s needs weights" % problem.operation)
        self.launches[number] = launches.Launch(
            number, kernel, problem, arrays, self.operand(need(p, "in")), weights, self.operand(need(p, "out")), p.get("part", False))

    def bind_copy(self, p):
        number, (source, source_at), (to, to_at) = need(p, "launch"), self.operand(need(p, "from")), self.operand(need(p, "to"))
        self.launches[number] = self.device.bind_copy(number, source, source_at, to, to_at, need(p, "bytes"))

    def listed(self, p):
        numbers = need(p, "launches")
        if not numbers:
            raise Failure(PROTOCOL, "no launches")
        return [found(self.launches, n, "launch") for n in numbers]

    def prime(self, p):
        return settling.prime(self.device, found(self.launches, need(p, "launch"), "launch"), self.progress)

    def record(self, p):
        self.device.record(self.listed(p))

    def execute(self, p):
        runs = need(p, "runs")
        if runs < 1:
            raise Failure(PROTOCOL, "%d runs" % runs)
        return self.device.execute(self.listed(p), runs, p.get("lead_in", False))

    def setup(self, p):
        self.steps = True
        try:
            return self.made(p)
        finally:
            self.steps, self.same = False, {}

    def made(self, p):
        results, told = [], time.monotonic()
        for step in need(p, "steps"):
            if need(step, "call") not in STEPS:
                raise Failure(PROTOCOL, "setup has no step %r" % step["call"])
            results.append(self.calls[step["call"]](step.get("params") or {}) or {})
            if time.monotonic() - told > PATIENT:
                self.progress("step %d" % len(results))
                told = time.monotonic()
        return {"results": results}

    def close(self, p):
        self.device.forget([self.launches.pop(n) for n in p.get("launches") or [] if n in self.launches])
        for n in p.get("weights") or []:
            self.weights.pop(n, None)
        for n in p.get("buffers") or []:
            if n in self.buffers:
                self.device.close(self.buffers.pop(n))


def need(params, name):
    if name not in params:
        raise Failure(PROTOCOL, "the field %s is missing" % name)
    return params[name]


def found(among, key, what):
    if key not in among:
        raise Failure(PROTOCOL, "unknown %s" % what if key is None else "unknown %s %r" % (what, key))
    return among[key]
