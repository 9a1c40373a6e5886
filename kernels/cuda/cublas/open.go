//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// blasLibraries are the two libraries of one installation; either may be nil. They
// stay open until the process ends.
type blasLibraries struct {
	cublas *C.ga_cublas
	lt     *C.ga_cublaslt
	// Why one is not there.
	cublasProblem, ltProblem error
}

// openedBLAS remembers installations by the path or name that was opened, since every
// GPU of a machine asks for the same.
var openedBLAS struct {
	sync.Mutex
	byPath map[string]blasLibraries
}

// openBLAS opens both libraries of a place. cuBLASLt goes first, so that cuBLAS takes
// the one that lies beside it and no other that is on the loader's paths.
func openBLAS(f libraryFile) blasLibraries {
	openedBLAS.Lock()
	defer openedBLAS.Unlock()
	if l, ok := openedBLAS.byPath[f.path]; ok {
		return l
	}
	var l blasLibraries
	openLt := func() error {
		return openLibrary(f.name(cublasLtBase), func(name, message *C.char) bool {
			l.lt = C.ga_cublaslt_open(name, message)
			return l.lt != nil
		})
	}
	l.ltProblem = openLt()
	l.cublasProblem = openLibrary(f.name(cublasBase), func(name, message *C.char) bool {
		l.cublas = C.ga_cublas_open(name, message)
		return l.cublas != nil
	})
	if l.cublas != nil && l.lt == nil {
		// It may be where only cuBLAS itself looks, and is loaded now.
		l.ltProblem = openLt()
	}
	if openedBLAS.byPath == nil {
		openedBLAS.byPath = map[string]blasLibraries{}
	}
	openedBLAS.byPath[f.path] = l
	return l
}

// openLibrary calls open, which says whether the library at path could be had and
// writes the reason to its second argument when not.
func openLibrary(path string, open func(name, message *C.char) bool) error {
	message := (*C.char)(C.calloc(1, C.GA_BLAS_ERROR))
	defer C.free(unsafe.Pointer(message))
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if open(name, message) {
		return nil
	}
	return errors.New(C.GoString(message))
}

// versionOf is the version of an opened library, and its file.
func versionOf(about *C.ga_blas_about) (version [3]C.int, path string) {
	return about.version, C.GoString(&about.path[0])
}

func versionText(v [3]C.int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// findBLAS opens the first installation of cuBLAS that the driver can run, or says
// why there is none and where it was looked for.
func findBLAS(s librarySearch) (blasLibraries, error) {
	files, places := s.files()
	var problems []string
	for _, f := range files {
		l := openBLAS(f)
		if l.cublas == nil {
			if text := l.cublasProblem.Error(); !strings.Contains(text, "No such file") {
				problems = append(problems, text)
			}
			continue
		}
		if v, path := versionOf(C.ga_cublas_about(l.cublas)); s.driver > 0 && int(v[0]) > s.driver/1000 {
			problems = append(problems, fmt.Sprintf("%s is version %s, the driver is for CUDA %d.%d", path, versionText(v), s.driver/1000, s.driver%1000/10))
			continue
		}
		return l, nil
	}
	if len(problems) == 0 {
		problems = []string{"libcublas is not there"}
	}
	reason := fmt.Sprintf("%s (looked at %s)", strings.Join(problems, "; "), strings.Join(places, ", "))
	if s.getenv(Env) == "" {
		reason += "; install CUDA's libcublas or PyTorch, or set " + Env + " to its path"
	}
	return blasLibraries{}, errors.New(reason)
}

// Open makes the kernels cublas and cublaslt of a GPU.
func Open(d *driver.Device) ([]kernels.Gemm, []kernels.Missing) {
	var driver C.int
	C.cuDriverGetVersion(&driver)
	folder, _ := os.Getwd() // where it is not known, relative paths lead nowhere
	l, err := findBLAS(librarySearch{root: os.DirFS("/"), getenv: os.Getenv, folder: folder, driver: int(driver)})
	if err != nil {
		return nil, []kernels.Missing{{Name: "cublas", Reason: err.Error()}, {Name: "cublaslt", Reason: err.Error()}}
	}
	version, path := versionOf(C.ga_cublas_about(l.cublas))
	d.SetVersion("cublas", versionText(version))
	gemms := []kernels.Gemm{&cublas{dev: d, lib: l.cublas, about: fmt.Sprintf("cuBLAS %s (%s)", versionText(version), path)}}
	if l.lt == nil {
		return gemms, []kernels.Missing{{Name: "cublaslt", Reason: l.ltProblem.Error()}}
	}
	version, path = versionOf(C.ga_cublaslt_about(l.lt))
	d.SetVersion("cublaslt", versionText(version))
	lt := &cublasLt{dev: d, lib: l.lt, about: fmt.Sprintf("cuBLASLt %s (%s)", versionText(version), path)}
	return append(gemms, &cublasLtChoice{lt, 0}), nil
}

// blasError is a status of the library in words.
func blasError(what string, status C.int) error {
	return fmt.Errorf("%s: %s (status %d)", what, C.GoString(C.ga_blas_status(status)), int(status))
}
