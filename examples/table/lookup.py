"""Prints a table's entry for one product: lookup.py TABLE KERNEL DTYPE LAYOUT N K M.
The package gemmaudit is in scripts/python (pip install ./scripts/python)."""

import sys

import gemmaudit

if len(sys.argv) != 8:
    sys.exit("usage: lookup.py TABLE KERNEL DTYPE LAYOUT N K M")
path, kernel, dtype, layout = sys.argv[1:5]
n, k, m = map(int, sys.argv[5:])
try:
    action = gemmaudit.read(path).lookup(kernel, dtype, layout, n, k, m)
except LookupError as e:  # the table lacks the kernel, dtype or layout
    sys.exit(str(e))
print(action.kernel if action.kind == "kernel" else kernel, *action.parts(m))
