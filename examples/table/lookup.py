"""What a table says of one product, as an engine asks: lookup.py TABLE KERNEL DTYPE LAYOUT N K M.
The package gemmaudit is that of scripts/python (pip install ./scripts/python)."""

import sys

import gemmaudit

if len(sys.argv) != 8:
    sys.exit("usage: lookup.py TABLE KERNEL DTYPE LAYOUT N K M")
path, kernel, dtype, layout = sys.argv[1:5]
n, k, m = map(int, sys.argv[5:])
action = gemmaudit.read(path).lookup(kernel, dtype, layout, n, k, m)
print(action.kernel if action.kind == "kernel" else kernel, *action.parts(m))
