package kernels

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// LoadKernelFile loads a file onto each matching device and returns the names of its kernels: one of a shared
// library, or those of a file that [ByWorker] runs. It fails if no device takes the file.
func LoadKernelFile(devices []Device, path string, how WorkerOptions) (names []string, err error) {
	load := loadLibrary
	if ByWorker(path) {
		load = func(d Device, path string) ([]Kernel, error) { return loadByWorker(d, path, how) }
	}
	var failures []error
	for _, d := range devices {
		loaded, err := load(d, path)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		for _, k := range loaded {
			if !slices.Contains(names, k.Name()) {
				names = append(names, k.Name())
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.Join(failures...)
	}
	return names, nil
}

// IsPython reports whether a file is Python by its name.
func IsPython(path string) bool { return strings.EqualFold(filepath.Ext(path), ".py") }

// ByWorker reports whether another process runs a file's kernels: a file in Python, or one that can be executed and
// is no shared library.
func ByWorker(path string) bool {
	if IsPython(path) {
		return true
	}
	info, err := os.Stat(path)
	name := filepath.Base(path)
	library := strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.") || strings.HasSuffix(name, ".dylib")
	return err == nil && !library && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func loadByWorker(d Device, path string, how WorkerOptions) ([]Kernel, error) {
	loader, ok := d.(WorkerLoader)
	if !ok {
		return nil, fmt.Errorf("%s can't run kernels of another process", d.Spec().ID)
	}
	return loader.LoadWorker(path, how)
}

// loadLibrary loads a shared library with a kernel of products or of softmax.
func loadLibrary(d Device, path string) ([]Kernel, error) {
	loader, ok := d.(KernelLoader)
	if !ok {
		return nil, fmt.Errorf("%s can't load kernels from files", d.Spec().ID)
	}
	if softmaxes, ok := d.(SoftmaxLoader); ok {
		if k, err := softmaxes.LoadSoftmax(path); err != nil || k != nil {
			return []Kernel{k}, err
		}
	}
	k, err := loader.LoadKernel(path)
	if err != nil {
		return nil, err
	}
	return []Kernel{k}, nil
}

// OpensLibrary returns an error unless a device has the library, and none fails to open it.
func OpensLibrary(devices []Device, name string) error {
	found := false
	for _, d := range devices {
		for _, m := range d.Missing() {
			if m.Name == name {
				return fmt.Errorf("%s on %s: %s", name, d.Spec().ID, m.Reason)
			}
		}
		found = found || len(LibraryKernels(d, name)) > 0
	}
	if !found {
		return fmt.Errorf("%s is not a library of the selected devices", name)
	}
	return nil
}

// LibraryKernels lists a library's kernels on a device: its name, or all its versions.
func LibraryKernels(d Device, name string) []string {
	var out []string
	for _, g := range Products(d) {
		if g.Name() == name || IsVersionOf(g.Name(), name) {
			out = append(out, g.Name())
		}
	}
	return out
}

// ChooseLibraries makes providers open the libraries at these paths, by library name.
func ChooseLibraries(providers []Provider, byName map[string][]string) []Provider {
	out := slices.Clone(providers)
	for i, p := range out {
		c, ok := p.(LibraryChooser)
		if !ok {
			continue
		}
		mine := map[string][]string{}
		for _, name := range c.Libraries() {
			if paths := byName[name]; len(paths) > 0 {
				mine[name] = paths
			}
		}
		if len(mine) > 0 {
			out[i] = c.WithLibraries(mine)
		}
	}
	return out
}
