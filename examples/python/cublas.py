"""cuBLAS through ctypes: the library that PyTorch has loaded, called as gemmaudit's own kernel `cublas` calls it."""
import ctypes

import torch

import gemmaudit

TYPES = {torch.bfloat16: 14, torch.float16: 2, torch.float32: 0}  # CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F
TRANSPOSE, PLAIN = 1, 0
COMPUTE_32F, DEFAULT = 68, -1
WORKSPACE = 32 << 20

library = ctypes.CDLL(f"libcublas.so.{torch.version.cuda.split('.')[0]}")
library.cublasCreate_v2.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
library.cublasSetStream_v2.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
library.cublasSetWorkspace_v2.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
library.cublasSetMathMode.argtypes = [ctypes.c_void_p, ctypes.c_int]
pointer, number = ctypes.c_void_p, ctypes.c_int
library.cublasGemmEx.argtypes = [pointer, number, number, number, number, number, pointer, pointer, number, number, pointer, number, number,
                                 pointer, pointer, number, number, number, number]
# Partial sums of a split K stay in fp32.
NO_REDUCED_PRECISION = 16

handle = ctypes.c_void_p()
one, zero = ctypes.c_float(1), ctypes.c_float(0)
workspace = None


def ready():
    global workspace
    if workspace is None:
        torch.cuda.current_stream()  # makes PyTorch's context
        check(library.cublasCreate_v2(ctypes.byref(handle)))
        workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
        check(library.cublasSetMathMode(handle, NO_REDUCED_PRECISION))


def check(code):
    if code != 0:
        raise RuntimeError(f"cuBLAS returned {code}")


@gemmaudit.kernel("gemm", dtypes=["bf16", "fp16"], layout="nk", out=True)
def cublas_ctypes(a, b, out):
    ready()
    m, k = a.shape
    n = b.shape[0]
    check(library.cublasSetStream_v2(handle, torch.cuda.current_stream().cuda_stream))
    check(library.cublasSetWorkspace_v2(handle, workspace.data_ptr(), WORKSPACE))
    # Row-major C = A·Bᵀ is column-major Cᵀ = B·Aᵀ.
    check(library.cublasGemmEx(handle, TRANSPOSE, PLAIN, n, m, k, ctypes.byref(one), b.data_ptr(), TYPES[b.dtype], b.stride(0),
                               a.data_ptr(), TYPES[a.dtype], a.stride(0), ctypes.byref(zero), out.data_ptr(), TYPES[out.dtype],
                               out.stride(0), COMPUTE_32F, DEFAULT))
