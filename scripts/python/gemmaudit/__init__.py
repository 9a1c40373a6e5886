"""Reads the lookup tables of gemmaudit, with the standard library alone; `gemmaudit.torch` applies them to
the linear layers of a model in PyTorch.

    import gemmaudit
    table = gemmaudit.read("table.json")
    action = table.lookup("cublas", "bf16", "nk", n=4096, k=14336, m=1040)
    action.kind, action.parts(1040)
"""
from .table import Action, Algorithm, Interval, Numerics, Product, Proof, Series, Table, TableError, Validators, parse, read

__all__ = ["Action", "Algorithm", "Interval", "Numerics", "Product", "Proof", "Series", "Table", "TableError", "Validators", "parse", "read"]
