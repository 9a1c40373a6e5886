package cpu

/*
#include <stdlib.h>
#include "native/dl.h"

typedef struct { const char *name; char err[1024]; void *handle; } ga_open_request;
static void ga_open_there(void *p) {
	ga_open_request *r = p;
	ga_library_defaults();
	r->handle = ga_dl_open(r->name, r->err, sizeof r->err);
}
static void ga_open_request_run(ga_open_request *r) { ga_library_run(ga_open_there, r); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// libraryName describes where to find a library, and what to install if it is missing.
type libraryName struct {
	kernel  string
	env     string   // environment variable for a file or folder
	sonames []string // in order of preference
	install string   // the hint
}

// library is an opened shared library. It stays open until the process ends, because libraries with threads
// can't be unloaded safely.
type library struct {
	handle unsafe.Pointer
	name   string // soname or path
}

var opened struct {
	sync.Mutex
	byName map[string]*library
}

// open loads the library or returns the reason for a failure. A path in the environment is the only one
// tried: an audit must not measure another library.
func (n libraryName) open() (*library, error) {
	path := os.Getenv(n.env)
	if path != "" {
		lib, err := n.openAt(path)
		if err != nil {
			err = fmt.Errorf("%w (%s is set)", err, n.env)
		}
		return lib, err
	}
	lib, err := openFirst(n.sonames)
	if err != nil {
		err = fmt.Errorf("%w; %s, or set %s to its path", err, n.install, n.env)
	}
	return lib, err
}

// openAt loads the library from a file or a folder. A name without a slash may be in the working folder,
// which the loader does not search.
func (n libraryName) openAt(path string) (*library, error) {
	info, err := os.Stat(path)
	if err != nil {
		return openLibrary(path)
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("open library: %w", err)
	}
	if !info.IsDir() {
		return openLibrary(path)
	}
	var files []string
	for _, soname := range n.sonames {
		files = append(files, filepath.Join(path, soname))
	}
	return openFirst(files)
}

func openFirst(names []string) (*library, error) {
	var reasons []string
	for _, name := range names {
		lib, err := openLibrary(name)
		if err == nil {
			return lib, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, errors.New(strings.Join(reasons, "; "))
}

func openLibrary(name string) (*library, error) {
	opened.Lock()
	defer opened.Unlock()
	if lib := opened.byName[name]; lib != nil {
		return lib, nil
	}
	r := (*C.ga_open_request)(C.calloc(1, C.sizeof_ga_open_request))
	defer C.free(unsafe.Pointer(r))
	r.name = C.CString(name)
	defer C.free(unsafe.Pointer(r.name))
	C.ga_open_request_run(r)
	if r.handle == nil {
		return nil, fmt.Errorf("%s", C.GoString(&r.err[0]))
	}
	lib := &library{handle: r.handle, name: name}
	for _, known := range opened.byName {
		if known.handle == lib.handle { // the same file under another name
			lib = known
		}
	}
	if opened.byName == nil {
		opened.byName = map[string]*library{}
	}
	opened.byName[name] = lib
	return lib, nil
}

// kept references C memory that must live as long as the libraries that use it, independent of devices.
var kept struct {
	sync.Mutex
	memory []unsafe.Pointer
}

// keep marks C memory as never freed; leak checkers find the reference here.
func keep(memory unsafe.Pointer) {
	kept.Lock()
	defer kept.Unlock()
	kept.memory = append(kept.memory, memory)
}

// symbol finds a function in the library or its dependencies, or returns nil.
func (l *library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.ga_dl_sym(l.handle, s)
}

func sharedNames(base string, versions ...string) []string {
	var out []string
	for _, v := range versions {
		if runtime.GOOS == "darwin" {
			name := "lib" + base + "." + v + ".dylib"
			if v == "" {
				name = "lib" + base + ".dylib"
			}
			out = append(out, name, "/opt/homebrew/lib/"+name, "/usr/local/lib/"+name)
			continue
		}
		name := "lib" + base + ".so"
		if v != "" {
			name += "." + v
		}
		out = append(out, name)
	}
	return out
}
