"""Tests of wheel.py: what it refuses, versions, and that a wheel is the same bytes twice."""
import hashlib
import os
import pathlib
import tempfile
import unittest
import zipfile

import wheel

SYMBOL = "    12: 0000000000000000     0 FUNC    {bind}  DEFAULT  UND {name}\n"


class Symbols(unittest.TestCase):
    def check(self, name, bind="GLOBAL"):
        wheel.check_symbols(SYMBOL.format(bind=bind, name=name), "2.28")

    def test_as_old_as_the_tag(self):
        for name in ("dlopen@GLIBC_2.2.5 (2)", "exp@GLIBC_2.28 (3)", "nvmlInit_v2"):
            self.check(name)
        self.check("__gmon_start__", bind="WEAK")

    def test_refused(self):
        for name in ("dlopen@GLIBC_2.34 (2)", "exp@GLIBC_3.1", "_Znwm@GLIBCXX_3.4", "res_search", "x@GLIBC_PRIVATE"):
            with self.subTest(name), self.assertRaises((wheel.Refused, ValueError)):
                self.check(name)

    def test_libraries(self):
        needed = " 0x0000000000000001 (NEEDED)             Shared library: [{}]\n"
        wheel.check_libraries(needed.format("libc.so.6") + needed.format("ld-linux-aarch64.so.1"))
        for name in ("libstdc++.so.6", "libcuda.so.1"):
            with self.subTest(name), self.assertRaises(wheel.Refused):
                wheel.check_libraries(needed.format(name))


class Wheels(unittest.TestCase):
    def test_versions(self):
        for version, want in (("v0.9.0", "0.9.0"), ("v0.9.0-rc1", "0.9.0rc1"), ("v0.9.0-12-gabc-dirty", "0.9.0+12.gabc.dirty"),
                              ("v1.2.3-rc2-1-gabc", "1.2.3rc2+1.gabc"), ("855e3a7e", "0.0.0+855e3a7e"), ("", "0.0.0"), ("v0.9.0-ci", "0.9.0+ci")):
            self.assertEqual(wheel.python_version(version), want)

    def test_the_same_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            program.write_bytes(b"\x7fELF")
            hashes = []
            for umask, name in ((0o022, "a.whl"), (0o077, "b.whl")):
                old = os.umask(umask)
                path = pathlib.Path(folder, name)
                wheel.write(path, wheel.contents(program, "1.0", "py3-none-any"), "gemmaudit-1.0.dist-info/RECORD")
                os.umask(old)
                hashes.append(hashlib.sha256(path.read_bytes()).hexdigest())
                program.touch()
            self.assertEqual(*hashes)
            with zipfile.ZipFile(path) as z:
                modes = {i.filename: i.external_attr >> 16 & 0o777 for i in z.infolist()}
                recorded = [line.split(",")[0] for line in z.read("gemmaudit-1.0.dist-info/RECORD").decode().splitlines()]
                metadata = z.read("gemmaudit-1.0.dist-info/METADATA").decode()
                declaring = z.read("gemmaudit/kernel.py")
            self.assertEqual(declaring, (wheel.ROOT / "kernels/worker/python/kernel.py").read_bytes())
            self.assertEqual(modes["gemmaudit/bin/gemmaudit"], 0o755)
            self.assertEqual(recorded, list(modes))
            self.assertIn("gemmaudit/py.typed", modes)
            for field in ("Version: 1.0\n", "License-Expression: Apache-2.0\n", "Author: ", "Requires-Python: >=3.9\n"):
                self.assertIn(field, metadata)


if __name__ == "__main__":
    unittest.main()
