#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __linux__
#include <sched.h>

// Threads inherit their creator's affinity, and the caller may be pinned, so the allowed CPUs are recorded
// before main.
enum { MASK_BYTES = 2048 }; // 16384 CPUs
static union { cpu_set_t set; unsigned char bytes[MASK_BYTES]; } allowed;
static int allowed_known;

__attribute__((constructor)) static void note_allowed_cpus(void) {
  allowed_known = sched_getaffinity(0, MASK_BYTES, &allowed.set) == 0;
}

static void allow_all_cpus(void) {
  if (allowed_known) sched_setaffinity(0, MASK_BYTES, &allowed.set);
}
#else
static void allow_all_cpus(void) {}
#endif

void *ga_dl_open(const char *name, char *err, size_t errlen) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == NULL) {
    const char *why = dlerror();
    snprintf(err, errlen, "%s", why != NULL ? why : "dlopen gave no reason");
  }
  return handle;
}

void *ga_dl_sym(void *handle, const char *name) { return dlsym(handle, name); }

void ga_library_defaults(void) {
  if (getenv("OMP_WAIT_POLICY") == NULL) setenv("GOMP_SPINCOUNT", "5000", 0);
  setenv("OPENBLAS_THREAD_TIMEOUT", "18", 0); // 2^18 cycles
}

static struct {
  pthread_mutex_t mu;
  pthread_cond_t posted, done;
  int started;
  pthread_t thread;
  void (*fn)(void *);
  void *arg;
} lib = {.mu = PTHREAD_MUTEX_INITIALIZER, .posted = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

// One caller at a time: locked from request to completion.
static pthread_mutex_t callers = PTHREAD_MUTEX_INITIALIZER;

static void *serve(void *unused) {
  (void)unused;
  allow_all_cpus();
  pthread_mutex_lock(&lib.mu);
  for (;;) {
    while (lib.fn == NULL) pthread_cond_wait(&lib.posted, &lib.mu);
    void (*fn)(void *) = lib.fn;
    void *arg = lib.arg;
    pthread_mutex_unlock(&lib.mu);
    fn(arg);
    pthread_mutex_lock(&lib.mu);
    lib.fn = NULL;
    pthread_cond_signal(&lib.done);
  }
  return NULL;
}

void ga_library_run(void (*fn)(void *), void *arg) {
  pthread_mutex_lock(&lib.mu);
  int inside = lib.started && pthread_equal(lib.thread, pthread_self());
  pthread_mutex_unlock(&lib.mu);
  if (inside) {
    fn(arg);
    return;
  }
  pthread_mutex_lock(&callers);
  pthread_mutex_lock(&lib.mu);
  if (!lib.started) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    // Some libraries need more stack for buffers than a small libc's default.
    pthread_attr_setstacksize(&attr, (size_t)8 << 20);
    lib.started = pthread_create(&lib.thread, &attr, serve, NULL) == 0;
    pthread_attr_destroy(&attr);
  }
  if (lib.started) {
    lib.fn = fn;
    lib.arg = arg;
    pthread_cond_signal(&lib.posted);
    while (lib.fn != NULL) pthread_cond_wait(&lib.done, &lib.mu);
    pthread_mutex_unlock(&lib.mu);
  } else { // no thread available: run on the caller's
    pthread_mutex_unlock(&lib.mu);
    fn(arg);
  }
  pthread_mutex_unlock(&callers);
}
