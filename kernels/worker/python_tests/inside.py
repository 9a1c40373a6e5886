"""Lets tests import the worker's modules as gemmaudit_worker."""
import pathlib
import sys
import types

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "python"

if "gemmaudit_worker" not in sys.modules:
    package = types.ModuleType("gemmaudit_worker")
    package.__path__ = [str(SOURCES)]
    sys.modules["gemmaudit_worker"] = package
