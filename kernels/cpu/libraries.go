package cpu

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// systemLibrary is a vendor's library that becomes a kernel.
type systemLibrary struct {
	name libraryName
	// bind makes the kernel of an opened library.
	bind func(*Device, *library) (boundLibrary, error)
}

// systemLibraries are the libraries that are looked for, in the order in which they are
// listed.
var systemLibraries = []systemLibrary{
	{openblasName, bindOpenBLAS},
	{onednnName, bindOneDNN},
}

// boundLibrary is a library as a kernel.
type boundLibrary interface {
	kernels.Gemm
	// release is the library's version, "0.3.21"; build says more of it, empty where there
	// is no more: the kernels that it chose for this CPU.
	release() string
	build() string
	// isa is the instruction set that it runs, in its own words: "avx512_core_amx", "SkylakeX". Empty where it doesn't tell.
	isa() string
	// named returns the same kernel under another name.
	named(name string) kernels.Gemm
}

// openLibraries adds the libraries: those at the paths that were given for a name, which are
// then the only ones tried, else the one that is found.
//
// Several versions of a library are opened from files of their own with their symbols kept to
// themselves, so that each calls its own functions. They share what both are linked with, as
// an OpenMP runtime: its number of threads is set at each launch.
func (d *Device) openLibraries(paths map[string][]string) {
	for _, s := range systemLibraries {
		given := paths[s.name.kernel]
		var found []boundLibrary
		var files []string
		var failures []error
		add := func(l *library, err error) {
			if err == nil {
				var k boundLibrary
				if k, err = s.bind(d, l); err == nil {
					found, files = append(found, k), append(files, l.name)
					return
				}
				err = fmt.Errorf("%s: %w", l.name, err)
			}
			failures = append(failures, err)
		}
		if len(given) == 0 {
			add(s.name.open())
		}
		seen := map[*library]bool{}
		for _, path := range given {
			l, err := s.name.openAt(path)
			if err == nil && seen[l] {
				err = fmt.Errorf("%s is a file that was given before: expected another", path)
			}
			seen[l] = true
			add(l, err)
		}
		if len(failures) > 0 {
			// Of several versions all are measured or none.
			d.missing = append(d.missing, kernels.Missing{Name: s.name.kernel, Reason: errors.Join(failures...).Error()})
			continue
		}
		releases := make([]string, len(found))
		for i, k := range found {
			releases[i] = k.release()
		}
		for i, name := range kernels.VersionNames(s.name.kernel, releases) {
			d.spec.AddVersion(name, kernels.LibraryVersion(name, found[i].release(), found[i].build(), files[i]))
			d.spec.Faults = append(d.spec.Faults, faultsOf(s.name.kernel, name, found[i].release(), found[i].isa())...)
			d.gemms = append(d.gemms, found[i].named(name))
		}
	}
}
