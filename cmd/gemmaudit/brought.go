package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// brought is what comes from outside: kernels as files, and libraries by their paths.
type brought struct {
	files     []string // shared libraries with a kernel
	libraries []string // NAME=PATH
	// paths are those of the libraries by name.
	paths map[string][]string
	// warned are the versions of which it was said that they are left out.
	warned map[string]bool
}

// broughtFlags adds the flags to a command that measures.
func broughtFlags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&a.brought.files, "kernel-file", nil, "load a kernel of yours from the shared library `PATH` into this process; see examples/README.md (repeatable)")
	flags.StringArrayVar(&a.brought.libraries, "library", nil, "open cublas, openblas or onednn as `NAME=PATH`; two of a name are measured side by side (repeatable)")
	complete(cmd, "kernel-file", filesWith("so", "dylib"))
	complete(cmd, "library", cobra.NoFileCompletions)
}

// isFile says whether a value of --kernel is the path of a shared library.
func isFile(kernel string) bool { return strings.Contains(kernel, "/") }

// check reads --library; choosers name the libraries that there are.
func (b *brought) check(providers func() []kernels.Provider) error {
	if len(b.libraries) == 0 {
		return nil
	}
	var known []string
	for _, p := range providers() {
		if c, ok := p.(kernels.LibraryChooser); ok {
			known = append(known, c.Libraries()...)
		}
	}
	b.paths, b.warned = map[string][]string{}, map[string]bool{}
	for _, word := range b.libraries {
		name, path, ok := strings.Cut(word, "=")
		switch {
		case !ok || path == "":
			return usagef("--library: %q, expected NAME=PATH as in openblas=/opt/lib/libopenblas.so", word)
		case len(known) == 0:
			return usagef("--library: no device of this machine opens libraries")
		case !slices.Contains(known, name):
			return usagef("--library: unknown library %q, expected one of %s", name, strings.Join(known, ", "))
		}
		b.paths[name] = append(b.paths[name], path)
	}
	return nil
}

// choose has each provider open the libraries that were given to it.
func (b *brought) choose(providers []kernels.Provider) []kernels.Provider {
	out := slices.Clone(providers)
	for i, p := range out {
		c, ok := p.(kernels.LibraryChooser)
		if !ok {
			continue
		}
		mine := map[string][]string{}
		for _, name := range c.Libraries() {
			if paths := b.paths[name]; len(paths) > 0 {
				mine[name] = paths
			}
		}
		if len(mine) > 0 {
			out[i] = c.WithLibraries(mine)
		}
	}
	return out
}

// args are the flags with which a command brings the same again.
func (b *brought) args() []string {
	var out []string
	for _, f := range b.files {
		out = append(out, "--kernel-file", f)
	}
	for _, l := range b.libraries {
		out = append(out, "--library", l)
	}
	return out
}

// bring loads the kernels that were given as files onto the devices that they are for, and
// makes sure that the libraries could be opened. It may be called more than once.
func (a *app) bring(devices []kernels.Device) error {
	for _, path := range a.brought.files {
		if _, err := loadKernel(devices, path); err != nil {
			return usagef("--kernel-file: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.brought.paths)) {
		if err := opensLibrary(devices, name); err != nil {
			return usagef("--library: %w", err)
		}
		for _, d := range devices {
			for _, m := range d.Missing() {
				if kernels.IsVersionOf(m.Name, name) && !a.brought.warned[m.Name] {
					a.brought.warned[m.Name] = true
					a.warnf("%s on %s is left out: %s", m.Name, d.Spec().ID, m.Reason)
				}
			}
		}
	}
	return nil
}

// loadKernel loads a file onto each device that it is for, and returns the kernel's name. The
// error is that of a device where none takes it.
func loadKernel(devices []kernels.Device, path string) (name string, err error) {
	var failures []error
	for _, d := range devices {
		loader, ok := d.(kernels.KernelLoader)
		if !ok {
			failures = append(failures, fmt.Errorf("%s takes no kernels from outside", d.Spec().ID))
			continue
		}
		if softmaxes, ok := d.(kernels.SoftmaxLoader); ok {
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

// opensLibrary returns nil when a device has the kernel of a library, in one version or more.
func opensLibrary(devices []kernels.Device, name string) error {
	found := false
	for _, d := range devices {
		for _, m := range d.Missing() {
			if m.Name == name {
				return fmt.Errorf("%s on %s: %s", name, d.Spec().ID, m.Reason)
			}
		}
		found = found || len(versionsOf(d, name)) > 0
	}
	if !found {
		return fmt.Errorf("%s is no library of the selected devices", name)
	}
	return nil
}

// versionsOf lists the kernels of a library on a device: the one of its name, or those of its
// versions.
func versionsOf(d kernels.Device, name string) []string {
	var out []string
	for _, g := range d.Gemms() {
		if g.Name() == name || kernels.IsVersionOf(g.Name(), name) {
			out = append(out, g.Name())
		}
	}
	return out
}

// kernelsNamed are the names of the kernels that --kernel selects: the path of a shared
// library stands for its kernel, which is loaded; the name of a library for all its versions.
func (a *app) kernelsNamed(devices []kernels.Device, selected []string) ([]string, error) {
	var out []string
	add := func(names ...string) {
		for _, name := range names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	for _, word := range selected {
		if isFile(word) {
			name, err := loadKernel(devices, word)
			if err != nil {
				return nil, usagef("--kernel: %w", err)
			}
			if !slices.Contains(a.brought.files, word) {
				a.brought.files = append(a.brought.files, word)
			}
			add(name)
			continue
		}
		if ext := filepath.Ext(word); ext == ".so" || ext == ".dylib" {
			return nil, hint(usagef("--kernel: no kernel is named %q", word), "a file is named by a path with a slash: --kernel ./%s", word)
		}
		var versions []string
		for _, d := range devices {
			versions = append(versions, versionsOf(d, word)...)
		}
		if len(versions) == 0 {
			versions = []string{word}
		}
		add(versions...)
	}
	return out, nil
}

// sameBrought refuses to go on with a run without the very kernels that were brought to it,
// whose files it does not know: what a file from elsewhere names is not loaded.
func sameBrought(run *results.Run, devices []kernels.Device) error {
	for _, spec := range run.Meta().Fingerprint.Devices {
		i := slices.IndexFunc(devices, func(d kernels.Device) bool { return d.Spec().ID == spec.ID })
		if i < 0 {
			continue
		}
		here := devices[i].Spec().Versions
		for _, name := range kernels.BroughtKernels(spec.Versions) {
			switch here[name] {
			case spec.Versions[name]:
			case "":
				return hint(usagef("%s was measured with the kernel %q, which was brought as a file", run.Path(), name),
					"give it again: --kernel-file PATH")
			default:
				return hint(usagef("%s was measured with another build of the kernel %q: %s, here it is %s", run.Path(), name, spec.Versions[name], here[name]),
					"a new run, which diff compares with this one")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Versions)) {
			if _, version := kernels.SplitVersion(name); version == "" || here[name] == spec.Versions[name] {
				continue
			}
			err := usagef("%s was measured with several versions of a library, among them %q", run.Path(), name)
			if here[name] != "" {
				err = usagef("%s was measured with another file as %q: %s, here it is %s", run.Path(), name, spec.Versions[name], here[name])
			}
			return hint(err, "give them again, in the same order: --library NAME=PATH")
		}
	}
	return nil
}
