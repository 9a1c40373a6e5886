package cpu

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type systemLibrary struct {
	name libraryName
	bind func(*Device, *library) (boundLibrary, error)
}

// systemLibraries lists the supported libraries in display order.
var systemLibraries = []systemLibrary{
	{openblasName, bindOpenBLAS},
	{onednnName, bindOneDNN},
}

type boundLibrary interface {
	kernels.Kernel
	// release is the library's version, "0.3.21"; build adds the kernels that it chose for this CPU, or is
	// empty.
	release() string
	build() string
	// isa is the instruction set that it runs, in the library's spelling: "avx512_core_amx", "SkylakeX".
	// Empty if unknown.
	isa() string
	named(name string) kernels.Kernel
}

// openLibraries adds the libraries. If paths has entries for a name, only these are tried.
//
// Several versions of a library open as separate files with local symbols, and each calls its own functions.
// They share common dependencies such as an OpenMP runtime, so each launch sets the number of threads.
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
			// If one version fails, all are missing.
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
