// The driver, opened when it is asked for: an executable that is linked against the
// trampolines starts on a machine without one.
#ifndef GEMMAUDIT_TRAMPOLINE_DRIVER_H
#define GEMMAUDIT_TRAMPOLINE_DRIVER_H

// ga_cuda_open opens libcuda.so.1, finds its functions and initialises it, once.
// It returns NULL when the driver can be used, and else the reason in words, which
// stay valid. Before it and after a failure every cu function returns an error.
const char *ga_cuda_open(void);

// ga_cuda_broken says, after ga_cuda_open, whether a driver is there that can't be used
// though there may be a GPU.
int ga_cuda_broken(void);

// ga_cuda_path is the file that was opened, NULL for none.
const char *ga_cuda_path(void);

#endif
