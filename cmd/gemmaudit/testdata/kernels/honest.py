"""Two kernels without a fault."""
import numpy as np
import gemmaudit


@gemmaudit.kernel("gemm")
def returns(a, b):
    return a @ b.T


@gemmaudit.kernel("gemm", out=True)
def writes(a, b, out):
    np.matmul(a, b.T, out=out)
