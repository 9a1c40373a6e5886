"""Failures, progress and a lost device, inside this process."""
import ast
import json
import os
import unittest

from . import inside

from gemmaudit_worker import settling, wire
from gemmaudit_worker.main import Worker


class Sources(unittest.TestCase):
    def test_the_oldest_python_reads_them(self):
        for path in sorted(inside.SOURCES.glob("*.py")):
            with self.subTest(path.name):
                text = path.read_text(encoding="utf-8")
                ast.parse(text, feature_version=(3, 9))
                self.assertLessEqual(text.count("\n"), 400)


class Wire(unittest.TestCase):
    def setUp(self):
        read, self.to = os.pipe()
        self.lines = os.fdopen(read)
        self.addCleanup(self.lines.close)
        self.addCleanup(os.close, self.to)
        self.replies = wire.Replies(self.to)

    def test_messages_have_one_line(self):
        self.replies.error(3, wire.Failure(wire.CASE, "a\n\tb " + "c" * 1000, "mine.py:1"))
        error = json.loads(self.lines.readline())["error"]
        self.assertEqual((error["kind"], error["message"], error["where"]), ("case", "a b " + "c" * 395 + "…", "mine.py:1"))
        self.assertEqual(wire.failed(KeyError(), []).message, "KeyError")
        text = "CUDA error: misaligned address\nSearch for `x' in y\nCUDA kernel errors might be asynchronous\nFor debugging consider z\n"
        self.assertEqual(wire.failed(RuntimeError(text), []).message, "RuntimeError: CUDA error: misaligned address")

    def test_where_is_the_innermost_line_of_the_users_files(self):
        code = compile("def f():\n    try:\n        int('x')\n    except ValueError as e:\n        raise RuntimeError('y') from e\n",
                       "/u/v/mine.py", "exec")
        names = {}
        exec(code, names)
        for folders, want in ((["/u/v"], "mine.py:5"), (["/w", "/u"], "v/mine.py:5"), (["/w"], "")):
            try:
                names["f"]()
            except RuntimeError as e:
                self.assertEqual(wire.where(e, folders), want)
        self.assertEqual(wire.relative("/u/lib/site-packages/torch/x.py", ["/u"]), "")
        try:
            try:
                names["f"]()
            except RuntimeError as e:
                e.__traceback__ = None
                raise ValueError("of a library") from e
        except ValueError as e:
            self.assertEqual(wire.where(e, ["/u/v"]), "mine.py:3")  # the cause's cause

    def test_progress_ends(self):
        told = []
        # The thread asks before it waits, and after each of three waits. The second of them sees no work done.
        seconds = iter([1, 2, 2, 3])
        reporting = wire.Reporting(told.append, "compiling", every=0.001, most=0.003, used=lambda: next(seconds))
        with reporting:
            reporting.thread.join(60)
        self.assertEqual(told, ["compiling"] * 2)
        self.assertIsNone(next(seconds, None))

    def test_settled(self):
        noise = [1.3, 1, 1.2, 1.5] * 4
        for times, want in (([1, 1], False), ([9, 1, 1, 1.04], True), ([1, 1, 1.06], False), ([1.04, 1, 1], True),
                            (noise, False), ([9] + noise, False), ([9, 1.04] + noise, True), ([1.2] + noise, False)):
            self.assertEqual(settling.settled(times), want, times)

    def test_a_lost_device_stays_lost(self):
        sick = ["", "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"]

        class Device:
            def sick(self):
                return sick.pop(0)

        worker = Worker(self.replies)
        worker.device = Device()

        def answer(call):
            worker.answer(json.dumps({"id": 1, "call": call, "params": {}}).encode())
            return json.loads(self.lines.readline())["error"]

        self.assertEqual(answer("prime"), {"kind": "protocol", "message": "the field launch is missing"})
        self.assertEqual(answer("prime"), {"kind": "device", "message": "the field launch is missing"})
        sick.append("again")
        self.assertEqual(answer("close"), {"kind": "device", "message": "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access"})


if __name__ == "__main__":
    unittest.main()
