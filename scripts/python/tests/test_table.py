"""The reader against the golden answers that the readers in Go and C give too."""
import copy
import csv
import json
import pathlib
import sys
import tempfile
import unittest

import gemmaudit


def testdata():
    """results/table/testdata of the repository, or of a bundle that has a copy."""
    for folder in pathlib.Path(__file__).resolve().parents:
        if (folder / "results/table/testdata").is_dir():
            return folder / "results/table/testdata"
    raise FileNotFoundError("results/table/testdata")


DATA = testdata()


class Lookups(unittest.TestCase):
    def test_every_m(self):
        table = gemmaudit.read(DATA / "table.json")
        with open(DATA / "lookups.csv", newline="", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        self.assertGreater(len(rows), 1000)
        for row in rows:
            m = int(row["m"])
            try:
                a = table.lookup(row["kernel"], row["dtype"], row["layout"], int(row["n"]), int(row["k"]), m, row["weights"])
            except LookupError:  # other readers run unknown names direct
                a = gemmaudit.Action()
            found = {"action": a.kind, "pad_to": str(a.pad_to or ""), "pad": a.pad, "use_kernel": a.kernel, "parts": "+".join(map(str, a.parts(m))),
                     "algorithm": " ".join(map(str, a.algorithm)) if a.algorithm else ""}
            self.assertEqual(found, {name: row[name] for name in found}, f"{row['kernel']}/{row['dtype']} m{m}")

    def test_earlier_versions(self):
        now = gemmaudit.read(DATA / "table.json")
        for path in sorted(DATA.glob("table-v*.json")):
            with self.subTest(path.name):
                then = gemmaudit.read(path)
                for series in then.series:
                    for m in range(1, 241):  # where all versions have the same intervals
                        self.assertEqual(series.lookup(m).parts(m), now.lookup(*series.product[:5], m).parts(m), f"{series.product} m{m}")

    def test_epilogues(self):
        text = json.loads((DATA / "table.json").read_text(encoding="utf-8"))
        fused = copy.deepcopy(text["series"][-1])
        fused.update(epilogue="bias", intervals=[{"from": 8, "to": 8, "action": {"kind": "split", "first": [4]}}])
        for name in "from_m", "to_m", "served":
            fused.pop(name, None)
        text["series"].append(fused)
        table = gemmaudit.table.parse(json.dumps(text))
        product = table.series[-1].product
        self.assertEqual(product.epilogue, "bias")
        self.assertEqual(table.lookup(*product[:5], 8, product.weights, "bias").parts(8), (4, 4))
        self.assertEqual(table.lookup(*product[:5], 8, product.weights), table.series[-2].lookup(8))
        with self.assertRaises(LookupError):
            table.lookup(*product[:5], 8, product.weights, "relu")
        text["series"].reverse()
        with self.assertRaises(gemmaudit.TableError):
            gemmaudit.table.parse(json.dumps(text))

    def test_beside_the_series(self):
        table = gemmaudit.read(DATA / "table.json")
        there = sorted({s.product.kernel for s in table.series})
        with self.assertRaises(LookupError) as raised:
            table.lookup("none", "bf16", "kn", 4096, 4096, 65)
        for kernel in there:
            self.assertIn(repr(kernel), str(raised.exception))
        for wrong in (("onednn", "bf17", "kn"), ("onednn", "bf16", "nk"), ("onednn", "bf16", "kn", "int3")):
            with self.assertRaises(LookupError):
                table.lookup(*wrong[:3], 4096, 4096, 65, *wrong[3:])
        self.assertEqual(table.lookup("onednn", "bf16", "kn", 4096, 4097, 65), gemmaudit.Action())
        self.assertIsNone(table.find(gemmaudit.Product("onednn", "bf16", "kn", 4096, 4097)))


class Refused(unittest.TestCase):
    def setUp(self):
        with open(DATA / "table.json", encoding="utf-8") as f:
            self.good = json.load(f)

    def refused(self, change, words):
        bad = copy.deepcopy(self.good)
        change(bad)
        with self.assertRaisesRegex(gemmaudit.TableError, words):
            gemmaudit.parse(json.dumps(bad))

    def test_text(self):
        deep = 100 if sys.platform == "emscripten" else 100000  # its stack is the browser's
        for text in ("", "[]", "null", '{"schema"', '{"schema": 4}', "[" * deep):
            with self.assertRaises(gemmaudit.TableError, msg=text[:20]):
                gemmaudit.parse(text)

    def test_tables(self):
        first = lambda t: t["series"][0]["intervals"][0]
        self.refused(lambda t: t.update(schema="gemmaudit/table/v99"), "schema is 'gemmaudit/table/v99'")
        self.refused(lambda t: t.pop("created"), "has no created")
        self.refused(lambda t: t.update(creation=""), "unknown field 'creation'")
        self.refused(lambda t: t["series"].append(t["series"][0]), "stands twice")
        self.refused(lambda t: t["series"][0].update(layout="ab"), "layout is 'ab'")
        self.refused(lambda t: t["series"][0].update(n="4096"), "n is text, expected whole number")
        self.refused(lambda t: first(t).update({"from": 0}), "expected 1 <= from <= to")
        self.refused(lambda t: first(t).update(to=10000), "pad_to is 96, expected at least 10000|begins before")
        self.refused(lambda t: first(t)["action"].update(kind="fly"), "unknown kind 'fly'")
        self.refused(lambda t: first(t)["action"].update(first=[1]), "a pad with 'first'")
        self.refused(lambda t: first(t)["action"].pop("pad_to"), "a pad without pad_to")
        self.refused(lambda t: t["series"][0]["intervals"][1]["action"].update(first=[99, 1]), "add up to 100, expected less than 100")
        self.refused(lambda t: t["series"][0]["intervals"][1]["action"].update(first=[True]), "first has True in it")
        self.refused(lambda t: t["series"][0].update(default=first(t)["action"]), "the default is a pad")
        self.refused(lambda t: t["validators"].update(features=[1]), "a number in it, expected text")
        self.refused(lambda t: t["validators"]["libraries"].update(x=None), "null in it, expected text")

    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "bad.json")
            path.write_text("{}")
            with self.assertRaisesRegex(gemmaudit.TableError, "bad.json: table has no schema"):
                gemmaudit.read(path)
            path.write_bytes(b"\xff")
            with self.assertRaisesRegex(gemmaudit.TableError, "bad.json"):
                gemmaudit.read(str(path))


class Hostile(unittest.TestCase):
    """The list of texts against which the reader in Go is held too."""

    def text(self, case):
        text = case["text"] if "text" in case else (DATA / case.get("base", "table.json")).read_text(encoding="utf-8")
        for old, by, *times in case.get("edits", []):
            self.assertIn(old, text)
            text = text.replace(old, by * (times[0] if times else 1), 1)
        return text

    def test_list(self):
        cases = json.loads((DATA / "hostile.json").read_text(encoding="utf-8"))
        self.assertGreater(len(cases), 100)
        for case in cases:
            if sys.platform == "emscripten" and case["name"].startswith("too deep"):
                continue  # its stack is the browser's
            with self.subTest(case["name"]):
                try:
                    gemmaudit.parse(self.text(case))
                    outcome = "accept"
                except gemmaudit.TableError as e:
                    self.assertLess(len(str(e)), 10000)
                    outcome = "refuse"
                self.assertEqual(outcome, case["readers"])

    @unittest.skipIf(sys.platform == "emscripten", "its files are in memory")
    def test_too_many_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "large.json")
            with open(path, "wb") as f:
                f.truncate(gemmaudit.table.MAX_BYTES + 1)
            with self.assertRaisesRegex(gemmaudit.TableError, "large.json: more than 268435456 bytes"):
                gemmaudit.read(path)


class Conditions(unittest.TestCase):
    def test_differences(self):
        held = gemmaudit.Validators(device="card", libraries={"cublas": "13.1.0", "cudnn": "9"}, cores=132, features=("b", "a"))
        self.assertEqual(held.differences(held), [])
        self.assertEqual(held.differences(gemmaudit.Validators()), [])
        here = gemmaudit.Validators(device="card", libraries={"cublas": "13.2.0"}, cores=114, features=("a", "b"), driver="580")
        self.assertEqual(held.differences(here), [("cublas", "13.1.0", "13.2.0"), ("cores", "132", "114")])


if __name__ == "__main__":
    unittest.main()
