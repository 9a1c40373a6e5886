// Loading libraries at run time, and the thread that runs them.
#ifndef GEMMAUDIT_DL_H
#define GEMMAUDIT_DL_H

#include <stddef.h>

// ga_dl_open opens a library by soname or path with local symbols, resolved at once: a missing symbol must
// fail here, not in a block. On failure it returns NULL and writes the loader's message to err.
void *ga_dl_open(const char *name, char *err, size_t errlen);

void *ga_dl_sym(void *handle, const char *name);

// ga_library_run calls fn(arg) on the library thread and waits. The process has one such thread, allowed on
// all CPUs. It loads, sets up and calls libraries, because OpenMP keeps a team per calling thread: calls from
// arbitrary threads would start new teams in the middle of a block and leave old ones spinning. On the
// library thread it is a plain call.
void ga_library_run(void (*fn)(void *), void *arg);

// ga_library_defaults limits the spinning of idle OpenMP and OpenBLAS threads to about 0.1 ms, unless the
// user set it. That keeps them awake between launches; their defaults of milliseconds disturb the next
// kernel's block. Call it before opening a library.
void ga_library_defaults(void);

#endif
