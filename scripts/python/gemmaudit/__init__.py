"""Runs gemmaudit, opens its runs and reads its lookup tables. Needs only the standard library. `gemmaudit.torch`
applies tables to the linear layers of a PyTorch model. `gemmaudit.kernel` declares a kernel for `gemmaudit run --kernel mine.py`.

    import gemmaudit
    run = gemmaudit.open("out/NAME/run.db")
    run.problems, run.rows.to_pandas()
    table = gemmaudit.read("out/NAME/table.json")
    action = table.lookup("cublas", "bf16", "nk", n=4096, k=14336, m=1040)
    action.kind, action.parts(1040)
"""
from importlib import metadata as _metadata

from .kernel import Kernel, kernel
from .program import ProgramError
from .runs import Estimate, Problem, Records, Remedy, Row, Run, Sample, open, run
from .table import Action, Algorithm, Interval, Numerics, Product, Proof, Series, Table, TableError, Validators, parse, read

__all__ = ["Action", "Algorithm", "Estimate", "Interval", "Kernel", "Numerics", "Problem", "Product", "ProgramError", "Proof",
           "Records", "Remedy", "Row", "Run", "Sample", "Series", "Table", "TableError", "Validators", "kernel", "open", "parse",
           "read", "run"]

try:
    __version__ = _metadata.version("gemmaudit")
except _metadata.PackageNotFoundError:  # imported from a folder without installation
    __version__ = "0.0.0"
