package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// brought holds external code: kernels as files, and libraries by path.
type brought struct {
	files     []string // with kernels: shared libraries, Python, executables
	python    string   // interpreter
	eager     bool
	libraries []string // NAME=PATH
	// paths holds library paths by library name.
	paths map[string][]string
	// warned holds the skipped versions already mentioned.
	warned map[string]bool
}

func broughtFlags(a *app, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&a.brought.files, "kernel-file", nil,
		"load your own kernels from `PATH`: Python, or a shared library; see docs/kernel.md (repeatable)")
	flags.StringVar(&a.brought.python, "python", "", "interpreter at `PATH` for kernels in Python")
	flags.BoolVar(&a.brought.eager, "eager", false, "call kernels in Python one by one, not in CUDA graphs")
	flags.StringArrayVar(&a.brought.libraries, "library", nil,
		"load cublas, openblas or onednn from `NAME=PATH`; repeat to compare versions")
	complete(cmd, "kernel-file", filesWith(kernelFiles...))
	complete(cmd, "python", anyFile)
}

func isFile(kernel string) bool { return strings.Contains(kernel, "/") }

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
			return usagef("--library: no device of this machine can load libraries")
		case !slices.Contains(known, name):
			return usagef("--library: unknown library %q, expected one of %s", name, strings.Join(known, ", "))
		}
		b.paths[name] = append(b.paths[name], path)
	}
	return nil
}

// args returns the flags that load the same code in another command, whose --kernel has the paths in loaded.
func (b *brought) args(loaded ...string) []string {
	var out []string
	for _, f := range b.files {
		if !slices.Contains(loaded, f) {
			out = append(out, "--kernel-file", f)
		}
	}
	for _, l := range b.libraries {
		out = append(out, "--library", l)
	}
	if b.python != "" {
		out = append(out, "--python", b.python)
	}
	if b.eager {
		out = append(out, "--eager")
	}
	return out
}

// load loads a file and returns the names of its kernels.
func (a *app) load(devices []kernels.Device, path string) ([]string, error) {
	return kernels.LoadKernelFile(devices, path, kernels.WorkerOptions{
		Python: a.brought.python, Eager: a.brought.eager, Limit: a.faults.timeout,
		Log: func(line string) { fmt.Fprintln(a.stderr, filepath.Base(path)+": "+oneLine(line)) },
	})
}

// bring loads the given kernel files onto their devices, and checks that the libraries could be opened. It
// may be called more than once.
func (a *app) bring(devices []kernels.Device) error {
	for _, path := range a.brought.files {
		if _, err := a.load(devices, path); err != nil {
			return usagef("--kernel-file: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.brought.paths)) {
		if err := kernels.OpensLibrary(devices, name); err != nil {
			return usagef("--library: %w", err)
		}
		for _, d := range devices {
			for _, m := range d.Missing() {
				if kernels.IsVersionOf(m.Name, name) && !a.brought.warned[m.Name] {
					a.brought.warned[m.Name] = true
					a.warnf("%s on %s skipped: %s", m.Name, d.Spec().ID, m.Reason)
				}
			}
		}
	}
	return nil
}

// kernelsNamed resolves --kernel to kernel names. It loads a shared library's path as a kernel, and expands a
// library's name to all its versions.
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
			names, err := a.load(devices, word)
			if err != nil {
				return nil, usagef("--kernel: %w", err)
			}
			if !slices.Contains(a.brought.files, word) {
				a.brought.files = append(a.brought.files, word)
			}
			add(names...)
			continue
		}
		if ext := filepath.Ext(word); ext == ".so" || ext == ".dylib" || ext == ".py" {
			return nil, hint(usagef("--kernel: unknown kernel %q", word), "for a file, give a path with a slash: --kernel ./%s", word)
		}
		var versions []string
		for _, d := range devices {
			versions = append(versions, kernels.LibraryKernels(d, word)...)
		}
		if len(versions) == 0 {
			versions = []string{word}
		}
		add(versions...)
	}
	return out, nil
}

// broughtAgain returns the flags that load the kernels brought to a run, with PATH for each file; none without such kernels.
func broughtAgain(run *results.Run) []string {
	var flags []string
	for _, spec := range run.Meta().Fingerprint.Devices {
		if names := kernels.BroughtKernels(spec.Versions); len(names) > 0 && len(flags) == 0 {
			flags = append(kernels.BroughtFlags(spec.Versions, names...), kernels.WorkerFlags(run.Meta().Command)...)
		}
	}
	return flags
}

// sameBrought returns an error unless the kernels brought to the run are loaded. A run file stores no paths
// to them, because loading files named by an untrusted file is unsafe.
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
				return hint(usagef("%s was measured with the kernel %q from a file", run.Path(), name),
					"give it again: %s", strings.Join(broughtAgain(run), " "))
			default:
				return hint(usagef("%s was measured with another build of the kernel %q: %s, not %s", run.Path(), name, spec.Versions[name],
					here[name]),
					"start a new run, and compare both with diff")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Versions)) {
			if _, version := kernels.SplitVersion(name); version == "" || here[name] == spec.Versions[name] {
				continue
			}
			err := usagef("%s was measured with several versions of a library, such as %q", run.Path(), name)
			if here[name] != "" {
				err = usagef("%s was measured with another file as %q: %s, not %s", run.Path(), name, spec.Versions[name], here[name])
			}
			return hint(err, "give the same libraries in the same order: --library NAME=PATH")
		}
	}
	return nil
}
