"""Runs as plain objects, from a program that prints what a test gives it."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import gemmaudit
from gemmaudit import program

SERIES = {"device": "cpu", "kernel": "<b>naive</b>", "operation": "gemm", "dtype": "fp32", "n": 64, "k": 128, "layout": "nk", "regime": "engine"}
AUDIT = {
    "summary": {"devices": ["<i>CPU</i>"], "sizes": 3, "slow": 1},
    "series": [{"series": SERIES, "rows": [
        {"m": 1, "verdict": "unjudged", "us": {"lo": 1, "mid": 2, "hi": 3}, "mfu": {"lo": 0.1, "mid": 0.2, "hi": 0.3}, "samples": 6},
        {"m": 2, "verdict": "clean", "us": {"lo": 3, "mid": 4, "hi": 5}, "samples": 6},
        {"m": 3, "verdict": "anomalous", "us": {"lo": 9, "mid": 10, "hi": 11}, "samples": 6, "cause": "tile"}]}],
    "problems": [{"number": 1, "device": "<i>CPU</i>", "dtype": "fp32", "n": 64, "k": 128, "kernels": ["<b>naive</b>"], "from_m": 3, "to_m": 3, "m": 3,
                  "us": 10.0, "better_us": 7.5, "gain": {"lo": 1.2, "mid": 1.33, "hi": 1.4}, "status": "confirmed", "cause": "tile",
                  "explanation": "<script>", "worth_us": 2.5, "remedy": {"kind": "split", "m": 3, "parts": [2, 1], "pays": True}}],
}
SAMPLES = [{"device": "cpu", "kernel": "naive", "operation": "gemm", "dtype": "fp32", "layout": "nk", "n": 64, "k": 128, "m": m, "round": 0, "phase": "sweep",
            "us": 1.5 * m, "clock_mhz": None, "launches": 10, "unheard_of": 1} for m in (1, 2, 3)]


class Program(unittest.TestCase):
    """A folder with a program that notes its arguments, prints what the test says and ends as it says."""

    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)
        self.file = self.folder / "program"
        self.file.write_text(f"#!{sys.executable}\nimport json, os, signal, sys\n"
                             "here = os.path.dirname(os.path.abspath(__file__))\n"
                             "open(os.path.join(here, 'asked'), 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
                             "said = json.load(open(os.path.join(here, 'says')))[sys.argv[1]]\n"
                             "print(said['out'])\nprint(said.get('err', ''), file=sys.stderr)\n"
                             "if 'signal' in said: os.kill(os.getpid(), said['signal'])\nsys.exit(said.get('code', 0))\n")
        self.file.chmod(self.file.stat().st_mode | stat.S_IXUSR)
        self.says(audit={"out": json.dumps(AUDIT)}, export={"out": "\n".join(map(json.dumps, SAMPLES))}, run={"out": "", "code": 1})
        patched = mock.patch.dict(os.environ, GEMMAUDIT=str(self.file))
        patched.start()
        self.addCleanup(patched.stop)

    def says(self, **commands):
        (self.folder / "says").write_text(json.dumps(commands))

    def asked(self):
        return [json.loads(line) for line in (self.folder / "asked").read_text().splitlines()]


class Runs(Program):
    def test_open(self):
        run = gemmaudit.open("run.db")
        p = run.problem(1)
        self.assertEqual((p.product, p.kernels, p.us, p.better_us, p.remedy.parts, p.gain.lo), ("n64 k128", ("<b>naive</b>",), 10.0, 7.5, (2, 1), 1.2))
        self.assertEqual([(r.m, r.verdict, r.us.mid) for r in run.rows], [(1, "unjudged", 2), (2, "clean", 4), (3, "anomalous", 10)])
        self.assertIsNone(run.rows[1].mfu)
        self.assertEqual([(s.m, s.us, s.clock_mhz) for s in run.samples], [(1, 1.5, None), (2, 3.0, None), (3, 4.5, None)])
        self.assertEqual(len(run.rows[1:]), 2)
        with self.assertRaisesRegex(LookupError, "problem 9.*: 1"):
            run.problem(9)
        self.assertEqual([a[0] for a in self.asked()], ["audit", "export"])

    def test_a_folder_and_a_name_like_a_flag(self):
        gemmaudit.open(self.folder)
        gemmaudit.open("--out.db")
        self.assertEqual([a[1] for a in self.asked()], [str(self.folder / "run.db"), os.path.join(".", "--out.db")])

    def test_without_problems(self):
        self.says(audit={"out": json.dumps({"series": AUDIT["series"]})})
        run = gemmaudit.open("run.db")
        self.assertEqual((len(run.problems), len(run.rows)), (0, 3))
        self.assertIn("1 of 3", run._repr_html_())
        with self.assertRaisesRegex(LookupError, "none"):
            run.problem(1)

    def test_run(self):
        run = gemmaudit.run("--quiet", out=self.folder / "o", preset="quick", rounds=6, rounds_for="all", confirm=False, model=["a", "b"], seed=None)
        self.assertEqual(run.exit_code, 1)
        self.assertEqual(self.asked()[0], ["run", "--quiet", "--preset=quick", "--rounds=6", "--rounds-for=all", "--confirm=false", "--model=a", "--model=b",
                                           f"--out={self.folder / 'o'}"])

    def test_kernels(self):
        mine = ["--kernel=./mine.py", f"--python={sys.executable}"]
        for given, want in (
            ({"kernels": "mine.py"}, mine),
            ({"kernels": pathlib.Path("mine.py")}, mine),
            ({"kernels": "mine.py,cublas"}, [mine[0], "--kernel=cublas", mine[1]]),
            ({"kernels": ["/a/mine.py", "cublas"]}, ["--kernel=/a/mine.py", "--kernel=cublas", mine[1]]),
            ({"kernels": "mine.py", "python": pathlib.Path("/other/python3")}, [mine[0], "--python=/other/python3"]),
            ({"kernels": "mine", "kernel_file": "a.py"}, ["--kernel=mine", "--kernel-file=a.py", mine[1]]),
            ({"kernels": pathlib.Path("a,b.py")}, ['--kernel="./a,b.py"', mine[1]]),
            ({"kernels": ("auto", "cublas")}, ["--kernel=auto", "--kernel=cublas"]),
            ({"kernels": "mine.so"}, ["--kernel=./mine.so"]),
            ({"kernels": pathlib.Path("worker")}, ["--kernel=./worker"]),
            ({}, []),
        ):
            with self.subTest(given):
                (self.folder / "asked").unlink(missing_ok=True)
                gemmaudit.run(out=self.folder / "o", **given)
                self.assertEqual(self.asked()[0], ["run", *want, f"--out={self.folder / 'o'}"])

    def test_failures(self):
        self.says(audit={"out": "", "err": "no such file", "code": 3}, run={"out": "", "code": 2})
        with self.assertRaisesRegex(gemmaudit.ProgramError, "no such file") as raised:
            gemmaudit.open("run.db")
        self.assertEqual(raised.exception.code, 3)
        with self.assertRaises(gemmaudit.ProgramError) as raised:
            gemmaudit.run("--no-such-flag", out=self.folder / "o")
        self.assertEqual(raised.exception.code, 2)
        with mock.patch.dict(os.environ, GEMMAUDIT=str(self.folder / "none")), self.assertRaisesRegex(gemmaudit.ProgramError, "started"):
            gemmaudit.open("run.db")

    def test_columns(self):
        run = gemmaudit.open("run.db")
        rows, problems = run.rows.columns(), run.problems.columns()
        self.assertEqual((rows["us_lo"], rows["us"], rows["us_hi"], rows["mfu"]), ([1, 3, 9], [2, 4, 10], [3, 5, 11], [0.2, None, None]))
        self.assertEqual((problems["remedy_kind"], problems["remedy_parts"], problems["gain_lo"]), (["split"], [[2, 1]], [1.2]))

    def test_frames(self):
        run = gemmaudit.open("run.db")
        for name, frame in (("pandas", run.to_pandas), ("polars", run.to_polars)):
            with mock.patch.dict(sys.modules, {name: None}), self.assertRaisesRegex(ImportError, name):
                frame()
            with self.subTest(name):
                try:
                    __import__(name)
                except ImportError:
                    self.skipTest(f"{name} is not installed")
                self.assertEqual(frame().shape[0], 3)
                self.assertEqual(getattr(run.problems, "to_" + name)().shape[0], 1)

    def test_notebook(self):
        html = gemmaudit.open("run.db")._repr_html_()
        for hostile in ("<b>naive", "<i>CPU", "<script>"):
            self.assertNotIn(hostile, html)
        self.assertIn("&lt;b&gt;naive", html)
        self.assertEqual(html.count("<circle"), 2)  # the anomalous row, and its time with the remedy
        self.assertIn("2 + 1", html)


class Command(Program):
    def started(self, *args):
        env = {**os.environ, "PYTHONPATH": str(pathlib.Path(program.__file__).parents[1])}
        return subprocess.run([sys.executable, "-m", "gemmaudit", *args], env=env, capture_output=True, text=True, check=False)

    def test_is_the_program(self):
        self.says(version={"out": "v1", "code": 4}, killed={"out": "", "signal": int(signal.SIGTERM)})
        done = self.started("version", "--a b")
        self.assertEqual((done.stdout, done.returncode, self.asked()), ("v1\n", 4, [["version", "--a b"]]))
        self.assertEqual(self.started("killed").returncode, -signal.SIGTERM)

    def test_without_a_program(self):
        (self.folder / "gemmaudit").write_text("#!/bin/sh\nexit 0\n")  # imitates pip's command, which must not start itself
        (self.folder / "gemmaudit").chmod(0o755)
        if (pathlib.Path(program.__file__).parent / "bin/gemmaudit").exists():
            self.skipTest("this package has the program in it")
        with mock.patch.dict(os.environ, GEMMAUDIT="", PATH=str(self.folder)):
            with self.assertRaises(gemmaudit.ProgramError):
                program.path()
            done = self.started("version")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("gemmaudit: error:", done.stderr)


if __name__ == "__main__":
    unittest.main()
