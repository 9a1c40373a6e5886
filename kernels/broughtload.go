package kernels

import (
	"errors"
	"fmt"
	"slices"
)

// LoadKernelFile loads a file onto each matching device and returns the kernel's name. It fails if no device
// takes the file.
func LoadKernelFile(devices []Device, path string) (name string, err error) {
	var failures []error
	for _, d := range devices {
		loader, ok := d.(KernelLoader)
		if !ok {
			failures = append(failures, fmt.Errorf("%s can't load kernels from files", d.Spec().ID))
			continue
		}
		if softmaxes, ok := d.(SoftmaxLoader); ok {
			k, err := softmaxes.LoadSoftmax(path)
			if err != nil {
				failures = append(failures, err)
				continue
			}
			if k != nil {
				name = k.Name()
				continue
			}
		}
		g, err := loader.LoadKernel(path)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		name = g.Name()
	}
	if name == "" {
		return "", errors.Join(failures...)
	}
	return name, nil
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
