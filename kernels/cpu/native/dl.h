// Libraries that are opened at run time, and the thread on which they run.
#ifndef GEMMAUDIT_DL_H
#define GEMMAUDIT_DL_H

#include <stddef.h>

// ga_dl_open opens a library by soname or path, its symbols kept to itself, and
// all of them resolved at once: what is missing must show here, not in a block.
// On failure it returns NULL and writes the loader's words to err.
void *ga_dl_open(const char *name, char *err, size_t errlen);

// ga_dl_sym finds a symbol in a library or in what it was linked with, or NULL.
void *ga_dl_sym(void *handle, const char *name);

// ga_library_run calls fn(arg) on the library thread and waits for it. It is one
// thread for the whole process, allowed on every CPU that the process was allowed
// on when it started. Libraries are loaded, set up and called there, since
// OpenMP keeps a team of threads and their number for each thread that calls it:
// called from wherever a goroutine happens to run, it would start new teams in
// the middle of a block, and leave the old ones spinning. From the library
// thread itself it is a plain call.
void ga_library_run(void (*fn)(void *), void *arg);

// ga_library_defaults sets, where the user has not, how long idle threads of
// OpenMP and OpenBLAS spin before they sleep: about 0.1 ms, enough to stay awake
// between launches that follow each other. By their own defaults they spin for
// milliseconds, into the block of the next kernel, whose slowest samples show it.
// To be called before a library is opened.
void ga_library_defaults(void);

#endif
