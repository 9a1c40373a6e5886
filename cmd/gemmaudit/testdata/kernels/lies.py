"""Kernels whose results are not what they seem."""
import ctypes
import sys

import numpy as np
import gemmaudit

gemm = gemmaudit.kernel


@gemm("gemm")
def wrong(a, b):
    return a @ b.T * np.float32(1.01)


first = {}


@gemm("gemm")
def stale(a, b):
    a, b = first.setdefault((a.ctypes.data, b.ctypes.data, a.shape, b.shape), (a.copy(), b.copy()))
    return a @ b.T


@gemm("gemm")
def unwritten(a, b):
    out = np.empty((len(a), len(b)), np.float32)
    np.matmul(a, b[:-1].T, out=out[:, :-1])
    return out


@gemm("gemm", out=True)
def short(a, b, out):
    np.matmul(a[:-1], b.T, out=out[:-1])


results = {}


@gemm("gemm")
def cached(a, b):
    key = a.shape, b.shape
    if key not in results:
        results[key] = a @ b.T
    return results[key].copy()


packed = {}


@gemm("gemm")
def packs(a, b):
    return a @ packed.setdefault(b.shape, b.T.copy())


@gemm("gemm")
def sometimes(a, b):
    return a @ b.T * (np.float32(1.01) if len(a) == 3 else 1)


recorded = {}


@gemm("gemm")
def eager(a, b):
    """Right except on operands that were there when launches were recorded."""
    at = a.ctypes.data
    if sys._getframe(2).f_code.co_name == "record":
        recorded[at] = a  # kept, so that its memory is not used again
    elif at in recorded:
        return np.zeros((len(a), len(b)), np.float32)
    return a @ b.T


@gemm("gemm")
def strided(a, b):
    return (b @ a.T).T


@gemm("gemm")
def wide(a, b):
    return a.astype(np.float64) @ b.T


@gemm("gemm")
def alias(a, b):
    out = a @ b.T
    return np.ndarray(out.shape, np.float32, buffer=memory(a, out.nbytes))


def memory(a, size):
    return (ctypes.c_char * size).from_address(a.ctypes.data)


@gemm("gemm")
def overwrites(a, b):
    out = a @ b.T
    a[0, 0] = 0
    return out


generator = np.random.default_rng(1)


@gemm("gemm")
def random(a, b):
    return a @ b.T + generator.standard_normal((len(a), len(b)), np.float32)


seen = {}


@gemm("gemm")
def second(a, b):
    """Takes the first copy of the weights for the second one."""
    all = seen.setdefault((a.shape, b.shape), {})
    all.setdefault(b.ctypes.data, b)
    return a @ (list(all.values())[0] if len(all) > 1 else b).T


ran, timed = {}, set()
SLOW = 5


@gemm("gemm", label=lambda problem: "slow" if problem.m in timed else "fast")
def slow(a, b):
    """Takes 20 times as long in its first calls with each M, as a tuner does that tries what is slow."""
    m = len(a)
    ran[m] = ran.get(m, 0) + 1
    if ran[m] <= SLOW:
        if sys._getframe(1).f_code.co_name == "block":  # which is timed
            timed.add(m)
        for _ in range(19):
            a @ b.T
    return a @ b.T


@gemm("gemm")
def honest(a, b):
    return a @ b.T
