// The driver, opened on demand: an executable linked with the trampolines starts on a machine without one.
#ifndef GEMMAUDIT_TRAMPOLINE_DRIVER_H
#define GEMMAUDIT_TRAMPOLINE_DRIVER_H

// ga_cuda_open opens libcuda.so.1, finds its functions and initializes it, once. It returns NULL on success,
// otherwise the reason, which stays valid. Before it and after a failure every cu function returns an error.
const char *ga_cuda_open(void);

// ga_cuda_broken reports, after ga_cuda_open, whether an unusable driver is present although there may be a
// GPU.
int ga_cuda_broken(void);

// ga_cuda_path returns the opened file, or NULL.
const char *ga_cuda_path(void);

#endif
