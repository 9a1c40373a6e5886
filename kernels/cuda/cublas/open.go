//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"slices"
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
	// Why a library is absent.
	cublasProblem, ltProblem error
}

// openedBLAS caches installations by path or name, because every GPU of a machine needs the same one.
var openedBLAS struct {
	sync.Mutex
	byPath map[string]blasLibraries
}

// openBLAS opens both libraries of a place, cuBLASLt first. cuBLAS then uses the one in its own folder
// instead of another on the loader's paths.
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
		// cuBLAS's own search may have found and loaded it.
		l.ltProblem = openLt()
	}
	if openedBLAS.byPath == nil {
		openedBLAS.byPath = map[string]blasLibraries{}
	}
	openedBLAS.byPath[f.path] = l
	return l
}

// openLibrary calls open, which reports success and otherwise writes the reason to its second argument.
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

func versionOf(about *C.ga_blas_about) (version [3]C.int, path string) {
	return about.version, C.GoString(&about.path[0])
}

func versionText(v [3]C.int) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func findBLAS(s librarySearch) (blasLibraries, error) {
	files, places := s.files()
	var problems []string
	for _, f := range files {
		l := openBLAS(f)
		if l.cublas == nil {
			if s.present(f) {
				problems = append(problems, l.cublasProblem.Error())
			}
			continue
		}
		if v, path := versionOf(C.ga_cublas_about(l.cublas)); s.driver > 0 && int(v[0]) > s.driver/1000 {
			problems = append(problems,
				fmt.Sprintf("%s is version %s, the driver is for CUDA %d.%d", path, versionText(v), s.driver/1000, s.driver%1000/10))
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

// Open makes the kernels cublas, cublaslt and cublaslt-fast of a GPU, with the library at the given path (a file or folder),
// or with the one found by search. Each of several paths is a separate version, named by
// [kernels.VersionNames]; then all must be present or none is used.
func Open(d *driver.Device, paths ...string) ([]kernels.Kernel, []kernels.Missing) {
	var driver C.int
	C.cuDriverGetVersion(&driver)
	folder, _ := os.Getwd() // if unknown, relative paths are not found
	search := librarySearch{root: os.DirFS("/"), getenv: os.Getenv, folder: folder, driver: int(driver)}
	if len(paths) == 0 {
		l, err := findBLAS(search)
		if err != nil {
			return nil, []kernels.Missing{{Name: "cublas", Reason: err.Error()}, {Name: "cublaslt", Reason: err.Error()}}
		}
		return kernelsOf(d, l, "cublas", "cublaslt", nil)
	}
	var found []blasLibraries
	var versions []string
	var failures []error
	for _, at := range paths {
		search.getenv = func(name string) string {
			if name == Env {
				return at
			}
			return ""
		}
		l, err := findBLAS(search)
		if err == nil && slices.ContainsFunc(found, func(other blasLibraries) bool { return other.handle() == l.handle() }) {
			err = fmt.Errorf("%s is a file that was given before: expected another", at)
		}
		if err != nil {
			failures = append(failures, err)
			continue
		}
		version, _ := versionOf(C.ga_cublas_about(l.cublas))
		found, versions = append(found, l), append(versions, versionText(version))
	}
	if err := errors.Join(failures...); err != nil {
		return nil, []kernels.Missing{{Name: "cublas", Reason: err.Error()}, {Name: "cublaslt", Reason: err.Error()}}
	}
	var gemms []kernels.Kernel
	var missing []kernels.Missing
	names, ltNames := kernels.VersionNames("cublas", versions), kernels.VersionNames("cublaslt", versions)
	for i, l := range found {
		g, m := kernelsOf(d, l, names[i], ltNames[i], l.borrowed())
		gemms, missing = append(gemms, g...), append(missing, m...)
	}
	return gemms, missing
}

func (l blasLibraries) handle() unsafe.Pointer {
	return unsafe.Pointer(C.ga_cublas_about(l.cublas).handle)
}

// borrowed returns an error if cuBLAS uses a cuBLASLt from another folder: the loader reuses one of that
// name, which belongs to another version.
func (l blasLibraries) borrowed() error {
	if l.lt == nil {
		return nil
	}
	_, path := versionOf(C.ga_cublaslt_about(l.lt))
	used := C.GoString(&C.ga_cublas_about(l.cublas).lt_path[0])
	if used == "" || used == path {
		return nil
	}
	return fmt.Errorf("it computes by %s, which is loaded already under the name that it asks for: two versions of cublas need different "+
		"major versions, or are compared as cublaslt", used)
}

func kernelsOf(d *driver.Device, l blasLibraries, name, ltName string, why error) (gemms []kernels.Kernel, missing []kernels.Missing) {
	version, path := versionOf(C.ga_cublas_about(l.cublas))
	if why == nil {
		d.SetVersion(name, kernels.LibraryVersion(name, versionText(version), "", path))
		gemms = append(gemms,
			&cublas{dev: d, kernel: name, lib: l.cublas, loading: new(sync.Mutex),
				about: fmt.Sprintf("cuBLAS %s (%s)", versionText(version), path)})
	} else {
		missing = append(missing, kernels.Missing{Name: name, Reason: why.Error()})
	}
	if l.lt == nil {
		return gemms, append(missing, kernels.Missing{Name: ltName, Reason: l.ltProblem.Error()})
	}
	version, path = versionOf(C.ga_cublaslt_about(l.lt))
	d.SetVersion(ltName, kernels.LibraryVersion(ltName, versionText(version), "", path))
	lt := &cublasLt{dev: d, kernel: ltName, lib: l.lt, about: fmt.Sprintf("cuBLASLt %s (%s)", versionText(version), path)}
	gemms = append(gemms, &cublasLtChoice{cublasLt: lt})
	if fast := fastKernel(lt); fast != nil {
		gemms = append(gemms, fast)
	}
	return gemms, missing
}

func blasError(what string, status C.int) error {
	return fmt.Errorf("%s: %s (status %d)", what, C.GoString(C.ga_blas_status(status)), int(status))
}
