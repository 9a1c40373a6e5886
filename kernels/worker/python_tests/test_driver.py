"""The calls of libcuda, against a library of the same functions in C."""
import ctypes
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from . import inside  # noqa: F401

from gemmaudit_worker.driver import Driver, DriverError

# Handles are small numbers; functions check what they are given.
LIBRARY = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef struct { char reserved[64]; } handle;
typedef struct { void *func; unsigned grid[3], block[3], shared; void **params, **extra; void *kern, *ctx; } node;
#define H(n) ((void *)(uintptr_t)(n))
#define CHECK(x) do { if (!(x)) return 1; } while (0)
int sick;
int cuGetErrorName(int code, const char **s) { *s = code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_INVALID_VALUE"; return 0; }
int cuGetErrorString(int code, const char **s) { *s = code == 700 ? "an illegal memory access" : "invalid argument"; return 0; }
int cuInit(unsigned f) { return 0; }
int cuCtxGetCurrent(void **c) { *c = NULL; return 0; }
int cuDeviceGet(int *d, int i) { *d = i + 1; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { CHECK(d == 3); *c = H(0x7fff00000001); return 0; }
int cuCtxSetCurrent(void *c) { CHECK(c == H(0x7fff00000001)); return 0; }
int cuCtxSynchronize(void) { return sick; }
int cuStreamCreate(void **s, unsigned f) { CHECK(f == 0); *s = H(0x7fff00000002); return 0; }
int cuStreamSynchronize(void *s) { CHECK(s == H(0x7fff00000002)); return 0; }
int cuModuleLoadData(void **m, const void *image) { CHECK(!memcmp(image, "a\0b", 3)); *m = H(3); return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) { CHECK(m == H(3) && !strcmp(name, "ga_stamp")); *f = H(4); return 0; }
int cuFuncSetAttribute(void *f, int a, int v) { CHECK(f == H(4) && a == 8 && v == 100000); return 0; }
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *s,
                   void **params, void **extra) {
  CHECK(f == H(4) && gx == 132 && gy == 1 && gz == 2 && bx == 3 && by == 4 && bz == 5 && shared == 100000);
  CHECK(s == H(0x7fff00000002) && extra == NULL);
  (*(int *)params[0])++;
  return 0;
}
int cuMemHostAlloc(void **p, size_t n, unsigned f) { CHECK(f == 2); *p = malloc(n); memset(*p, 1, n); return 0; }
int cuMemHostGetDevicePointer_v2(uint64_t *d, void *p, unsigned f) { *d = (uintptr_t)p + (1ull << 60); return 0; }
int cuEventCreate(void **e, unsigned f) { *e = H(5); return 0; }
int cuEventRecord(void *e, void *s) { CHECK(e == H(5) && s == H(0x7fff00000002)); return 0; }
int cuEventSynchronize(void *e) { CHECK(e == H(5)); return 0; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 2.5f; return 0; }
int cuGraphInstantiateWithFlags(void **x, void *g, unsigned long long f) { CHECK(g == H(6)); *x = H(7); return 0; }
int cuGraphUpload(void *x, void *s) { CHECK(x == H(7)); return 0; }
int cuGraphLaunch(void *x, void *s) { CHECK(x == H(7)); return 0; }
int cuGraphExecDestroy(void *x) { CHECK(x == H(7)); return 0; }
int cuGraphGetNodes(void *g, void **nodes, size_t *n) {
  CHECK(g == H(6));
  if (nodes != NULL) for (size_t i = 0; i < *n; i++) nodes[i] = H(10 + i);
  *n = 4;
  return 0;
}
int cuGraphNodeGetType(void *n, int *type) { static const int types[] = {0, 5, 2, 0}; *type = types[(uintptr_t)n - 10]; return 0; }
int cuGraphKernelNodeGetParams_v2(void *n, node *p) {
  memset(p, 0, sizeof *p);
  p->grid[0] = 8; p->grid[1] = 9; p->grid[2] = 1; p->block[0] = 128; p->block[1] = p->block[2] = 1;
  if (n == H(10)) p->func = H(20); else p->kern = H(21);
  return 0;
}
int cuFuncGetName(const char **s, void *f) { CHECK(f == H(20)); *s = "gemm"; return 0; }
int cuKernelGetName(const char **s, void *k) { CHECK(k == H(21)); *s = "reduce"; return 0; }
int cuIpcOpenMemHandle_v2(uint64_t *d, handle h, unsigned f) {
  CHECK(f == 1);
  for (int i = 0; i < 64; i++) CHECK(h.reserved[i] == i);
  *d = 0x7f0000000000;
  return 0;
}
int cuIpcCloseMemHandle(uint64_t d) { CHECK(d == 0x7f0000000000); return 0; }
"""

COMPILER = shutil.which("cc") or shutil.which("gcc")


@unittest.skipUnless(COMPILER, "needs a C compiler")
class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        source, library = pathlib.Path(folder.name, "cuda.c"), pathlib.Path(folder.name, "libcuda.so.1")
        source.write_text(LIBRARY, encoding="utf-8")
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, source], check=True)
        cls.driver = Driver(str(library))

    def test_what_it_passes(self):
        d = self.driver
        d.enter(2)
        stream = d.stream()
        f = d.kernel(d.module(b"a\0b"), "ga_stamp", 100000)
        launched = ctypes.c_int(0)
        d.launch(f, [132, 1, 2], [3, 4, 5], 100000, stream, ctypes.addressof(launched))
        self.assertEqual(launched.value, 1)
        host, device = d.host_memory(64)
        self.assertEqual((device - host, ctypes.string_at(host, 64)), (1 << 60, bytes(64)))
        event = d.event()
        d.record(event, stream)
        d.wait(event)
        self.assertEqual(d.elapsed(event, event), 2.5e-3)
        executable = d.instantiate(6, stream)
        d.launch_graph(executable, stream)
        d.destroy(executable)
        d.close_ipc(d.open_ipc(bytes(range(64))))

    def test_nodes(self):
        kernel = {"grid": [8, 9, 1], "block": [128, 1, 1]}
        memset = {"kernel": "memset", "grid": [0, 0, 0], "block": [0, 0, 0]}
        self.assertEqual(self.driver.nodes(6, 9), [dict(kernel, kernel="gemm"), memset, dict(kernel, kernel="reduce")])
        self.assertEqual(self.driver.nodes(6, 1), [dict(kernel, kernel="gemm")])

    def test_errors(self):
        with self.assertRaises(DriverError) as caught:
            self.driver.module(b"nothing")
        self.assertEqual(str(caught.exception), "cuModuleLoadData: CUDA_ERROR_INVALID_VALUE: invalid argument")
        self.assertEqual(self.driver.health(), "")
        sick = ctypes.c_int.in_dll(self.driver.library, "sick")
        sick.value = 700
        self.addCleanup(setattr, sick, "value", 0)
        self.assertEqual(self.driver.health(), "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access")


if __name__ == "__main__":
    unittest.main()
