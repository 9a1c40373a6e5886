"""Blocks of work on a stream, timed between stamps as the program times its own (kernels/cuda/driver/execute.c)."""
import array
import base64
import ctypes
import struct
import time

STAMP_BYTES = 32
LEAST_NS = 20e3  # between compared counters, which tick in steps of up to a microsecond
PARAMETERS = 256  # bytes of a parameter buffer, more than any


class Call:
    """A kernel with its parameters. put writes a value into them."""

    def __init__(self, driver, module, text):
        self.driver, self.grid, self.block, self.shared = driver, text["grid"], text["block"], text["shared"]
        self.function = driver.kernel(module, text["kernel"], self.shared)
        self.params = ctypes.create_string_buffer(base64.b64decode(text["params"]), PARAMETERS)

    def put(self, layout, at, value):
        struct.pack_into(layout, self.params, at, value)

    def launch(self, stream):
        self.driver.launch(self.function, self.grid, self.block, self.shared, stream, ctypes.addressof(self.params))


class Chunk:
    """The events, stamps and gate around a part of a block."""

    def __init__(self, driver, module, stamps, host, device):
        self.begin, self.end, self.done = driver.event(), driver.event(), driver.event()
        self.slots = stamps["slots"]
        self.gate_out, self.before, self.after = host, host + 64, host + 64 + self.slots * STAMP_BYTES
        self.stamps = [Call(driver, module, stamps["stamp"]) for _ in range(2)]
        for call, at in zip(self.stamps, (self.before, self.after)):
            call.put("<Q", 0, device + at - host)
        self.gate = Call(driver, module, stamps["gate"])
        self.gate.put("<Q", 8, device)

    def clear(self):
        ctypes.memset(self.gate_out, 0, bytes_of_chunk(self.slots))

    def held(self):
        """The seconds for which the gate stayed closed in vain."""
        timed_out, waited = struct.unpack("<2Q", ctypes.string_at(self.gate_out, 16))
        return 1e-9 * waited if timed_out else 0.0

    def mhz(self):
        return median_mhz(*(ctypes.string_at(at, self.slots * STAMP_BYTES) for at in (self.before, self.after)))


def bytes_of_chunk(slots):
    return 64 + 2 * slots * STAMP_BYTES


def median_mhz(before, after):
    """The median over multiprocessors of cycles by time between two stamps; 0 if no multiprocessor has both."""
    first, last = array.array("Q", before), array.array("Q", after)
    found = sorted((clock2 - clock) / (ended - began) * 1e3 for clock, began, seen, clock2, ended, seen2 in zip(
        first[1::4], first[2::4], first[3::4], last[1::4], last[2::4], last[3::4]) if seen and seen2 and ended - began >= LEAST_NS)
    n = len(found)
    return 0.0 if n == 0 else found[n // 2] if n % 2 else (found[n // 2 - 1] + found[n // 2]) / 2


class Span:
    """Times of a block: seconds on the device, the clock, seconds that gates held in vain, and the host's seconds to start it."""

    def __init__(self):
        self.seconds = self.mhz = self.held = self.host = 0.0

    def add(self, seconds, mhz):
        if mhz > 0:  # weighted by time; a part too short for a clock has almost no weight
            self.mhz = (self.mhz * self.seconds + mhz * seconds) / (self.seconds + seconds)
        self.seconds += seconds


class Blocks:
    """Runs blocks on a stream. stamps is that of the call hello."""

    def __init__(self, driver, stream, stamps):
        self.driver, self.stream, self.ticket = driver, stream, 0
        module = driver.module(base64.b64decode(stamps["module"]))
        each = bytes_of_chunk(stamps["slots"])
        self.page, device = driver.host_memory(64 + 2 * each)
        self.flag = ctypes.c_int32.from_address(self.page)
        self.chunks = [Chunk(driver, module, stamps, self.page + at, device + at) for at in (64, 64 + each)]
        for chunk in self.chunks:
            chunk.gate.put("<Q", 0, device)
        # Code is loaded at its first launch, which may wait for an idle device: never behind a gate.
        self.run([lambda: None], gated=False)
        self.run([lambda: None])

    def run(self, parts, discarded=0, gated=True):
        """Runs parts, functions that put work on the stream, and returns the Span of those after the discarded ones. While one runs,
        the next is put on the stream."""
        span, waiting = Span(), []
        try:
            for i, part in enumerate(parts):
                chunk = self.chunks[i % 2]
                if len(waiting) == 2:
                    self.settle(span, *waiting.pop(0))
                host = self.put(chunk, part, gated)
                waiting.append((chunk, host, i >= discarded))
            for each in waiting:
                self.settle(span, *each)
        except BaseException:
            self.flag.value = self.ticket
            self.driver.health()  # waits for what runs: its memory may be freed after this
            raise
        return span

    def put(self, chunk, part, gated):
        chunk.clear()
        self.ticket += 1
        try:
            if gated:
                chunk.gate.put("<i", 24, self.ticket)
                chunk.gate.launch(self.stream)
            chunk.stamps[0].launch(self.stream)
            self.driver.record(chunk.begin, self.stream)
            began = time.perf_counter()
            part()
            host = time.perf_counter() - began
            self.driver.record(chunk.end, self.stream)
            chunk.stamps[1].launch(self.stream)
            self.driver.record(chunk.done, self.stream)
        finally:
            self.flag.value = self.ticket
        return host

    def settle(self, span, chunk, host, counts):
        self.driver.wait(chunk.done)
        span.held += chunk.held()
        if counts:
            span.add(self.driver.elapsed(chunk.begin, chunk.end), chunk.mhz())
            span.host += host
