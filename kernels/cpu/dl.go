package cpu

/*
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "dl.h"

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
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// libraryName says where a library is looked for, and what to install when it
// isn't found.
type libraryName struct {
	kernel  string   // name of the kernel that it becomes
	env     string   // environment variable with a file or a folder instead
	sonames []string // in order of preference
	install string   // the hint
}

// library is an opened shared library. It stays open until the process ends:
// libraries with threads of their own can't be unloaded safely.
type library struct {
	handle unsafe.Pointer
	name   string // the soname or path that was opened
}

var opened struct {
	sync.Mutex
	byName map[string]*library
}

// open loads the library, or says why it can't be had. A path in the environment
// is the only one tried, so that an audit never measures another library than
// the one that was named.
func (n libraryName) open() (*library, *kernels.Missing) {
	candidates := n.sonames
	if path := os.Getenv(n.env); path != "" {
		candidates = []string{path}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			candidates = nil
			for _, soname := range n.sonames {
				candidates = append(candidates, filepath.Join(path, soname))
			}
		}
	}
	var reasons []string
	for _, name := range candidates {
		lib, err := openLibrary(name)
		if err == nil {
			return lib, nil
		}
		reasons = append(reasons, err.Error())
	}
	reason := strings.Join(reasons, "; ")
	if os.Getenv(n.env) != "" {
		reason += " (" + n.env + " is set)"
	} else {
		reason += "; " + n.install + ", or set " + n.env + " to its path"
	}
	return nil, &kernels.Missing{Name: n.kernel, Reason: reason}
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
	if opened.byName == nil {
		opened.byName = map[string]*library{}
	}
	opened.byName[name] = lib
	return lib, nil
}

// symbol finds a function in the library or in what it depends on, nil if there
// is none.
func (l *library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.ga_dl_sym(l.handle, s)
}

// sharedNames spells sonames the way this system does.
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
