"""Kernels that are right except at M 3, where each does something else."""
import ctypes
import os
import sys
import time

import numpy as np
import gemmaudit

AT = 3


def fault(act):
    """Declares a kernel that calls act() at M 3, of the name of act."""

    @gemmaudit.kernel("gemm", name=act.__name__)
    def product(a, b):
        if a.shape[0] == AT:
            act()
        return a @ b.T

    return act


calls = 0


@fault
def sleeps():
    global calls
    calls += 1
    if calls > 1:  # the first call may take as long as a compiler
        time.sleep(3600)


@fault
def holds():
    ctypes.PyDLL(None).sleep(3600)  # does not release the interpreter's lock


@fault
def raises():
    raise ValueError("no such tile")


@fault
def leaves():
    sys.exit("enough")


@fault
def ends():
    os._exit(7)


@fault
def aborts():
    os.abort()


@fault
def reads():
    ctypes.string_at(1)


@fault
def recurses():
    recurses()


@fault
def closes():
    os.close(3)
    os.close(4)


@fault
def mutes():
    os.close(4)


@fault
def interrupts():
    raise KeyboardInterrupt


@fault
def prints():
    for _ in range(50):
        print("x" * 4000)


@fault
def disturbs():
    os.write(4, b"hello\n")


def refuse(problem):
    if problem.m == AT:
        raise KeyError("supports")


gemmaudit.kernel("gemm", name="refuses", supports=refuse)(np.inner)


def pack(b, problem):
    if problem.m == AT:
        raise KeyError("prepare")
    return np.ascontiguousarray(b.T)


gemmaudit.kernel("gemm", name="packs", prepare=pack)(np.matmul)
