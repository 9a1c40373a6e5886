// Package cublas makes kernels of cuBLAS and cuBLASLt, which it finds and opens at run time.
package cublas

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Env names a file or a folder: the only place that is looked at when it is
// set, so that an audit never measures another library than the one that was named.
const Env = "GEMMAUDIT_CUBLAS"

// cublasMajors are the versions whose interface is spoken here, newest first.
var cublasMajors = []int{13, 12, 11}

// The two libraries. cublas is built on cublasLt, and both lie in one folder.
const (
	cublasBase   = "libcublas.so"
	cublasLtBase = "libcublasLt.so"
)

// libraryFile is one place at which a library may be had.
type libraryFile struct {
	path  string // a path, or a bare name that the loader searches for
	major int    // 0 where the name does not tell
}

// name is the file of the library base in the same place.
func (f libraryFile) name(base string) string {
	dir, file := path.Split(f.path)
	for _, known := range []string{cublasBase, cublasLtBase} {
		if rest, ok := strings.CutPrefix(file, known); ok {
			return dir + base + rest
		}
	}
	if base == cublasBase {
		return f.path
	}
	return dir + base
}

// librarySearch looks for cuBLAS. Its fields are the world, so that a test has
// its own.
type librarySearch struct {
	root   fs.FS // the file system from "/"
	getenv func(string) string
	folder string // in which the program was started
	// driver is the CUDA version of the driver, 12040 for 12.4; 0 when unknown. A
	// library of a newer major version does not run on it.
	driver int
}

// files lists what to try, in order, and names the places looked at, for the
// message when nothing is there. Explicit choices come first; then the active
// Python environment and the Pythons on PATH, whose wheels are what PyTorch would
// load; then the system.
func (s librarySearch) files() (files []libraryFile, places []string) {
	if named := s.getenv(Env); named != "" {
		places = append(places, Env+"="+named)
		// A bare name is the loader's to find, everything else a path.
		if !path.IsAbs(named) && (strings.Contains(named, "/") || named == "." || named == "..") {
			named = path.Join(s.folder, named)
		}
		if found := s.in(named); len(found) > 0 {
			return found, places
		}
		return []libraryFile{{path: named, major: majorOf(named)}}, places
	}
	seen := map[string]bool{}
	add := func(place string, dirs ...string) {
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
		for _, dir := range dirs {
			for _, f := range s.in(dir) {
				if !seen[f.path] {
					seen[f.path] = true
					files = append(files, f)
				}
			}
		}
	}
	for _, name := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if home := s.getenv(name); home != "" {
			add(name+"="+home, toolkitDirs(home)...)
		}
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := s.getenv(name); prefix != "" {
			add(name+"="+prefix, append(s.wheelDirs(prefix), path.Join(prefix, "lib"))...)
		}
	}
	wheels := false
	for _, prefix := range s.pythons() {
		if dirs := s.wheelDirs(prefix); len(dirs) > 0 {
			wheels = true
			add("PyTorch's wheels in "+prefix, dirs...)
		}
	}
	if !wheels {
		places = append(places, "the wheels of the Pythons on PATH")
	}
	places = append(places, "the loader's paths")
	for _, major := range cublasMajors {
		files = append(files, libraryFile{path: fmt.Sprintf("%s.%d", cublasBase, major), major: major})
	}
	for _, home := range s.glob("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda") {
		add(home, toolkitDirs(home)...)
	}
	return s.runnable(files), places
}

// runnable leaves out what the driver is too old for.
func (s librarySearch) runnable(files []libraryFile) []libraryFile {
	if s.driver == 0 {
		return files
	}
	return slices.DeleteFunc(files, func(f libraryFile) bool { return f.major > s.driver/1000 })
}

// toolkitDirs are the folders of a CUDA toolkit that hold libraries.
func toolkitDirs(home string) []string {
	return []string{
		path.Join(home, "lib64"), path.Join(home, "lib"),
		path.Join(home, "targets/x86_64-linux/lib"), path.Join(home, "targets/sbsa-linux/lib"),
	}
}

// wheelDirs are the folders into which wheels of NVIDIA's libraries are installed
// below a Python prefix: nvidia/cublas/lib up to CUDA 12, nvidia/cu13/lib since.
func (s librarySearch) wheelDirs(prefix string) []string {
	var patterns []string
	for _, lib := range []string{"lib", "lib64"} {
		for _, site := range []string{"site-packages", "dist-packages"} {
			base := path.Join(prefix, lib, "python3*", site, "nvidia")
			patterns = append(patterns, path.Join(base, "cu[0-9]*/lib"), path.Join(base, "cublas/lib"))
		}
	}
	// Debian's Python keeps packages for all its versions here.
	base := path.Join(prefix, "lib/python3/dist-packages/nvidia")
	return s.glob(append(patterns, path.Join(base, "cu[0-9]*/lib"), path.Join(base, "cublas/lib"))...)
}

// pythons lists the prefixes of the Pythons on PATH and of the user's own
// packages. None is started: where its packages lie follows from where it lies.
func (s librarySearch) pythons() []string {
	var out []string
	add := func(prefix string) {
		if prefix != "" && prefix != "." && !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	for _, dir := range filepath.SplitList(s.getenv("PATH")) {
		if !path.IsAbs(dir) {
			continue
		}
		for _, name := range []string{"python3", "python"} {
			at := path.Join(dir, name)
			// A link in /usr/local/bin may lead into an environment, and that one's
			// Python out of it again: every stop on the way has packages of its own.
			for range 8 {
				if !s.exists(at) {
					break
				}
				add(path.Dir(path.Dir(at)))
				next := s.readLink(at)
				if next == "" {
					break
				}
				at = next
			}
		}
		// pyenv puts scripts on PATH, not Pythons.
		if path.Base(dir) == "shims" {
			for _, version := range s.glob(path.Join(path.Dir(dir), "versions/*")) {
				add(version)
			}
		}
	}
	if home := s.getenv("HOME"); path.IsAbs(home) {
		add(path.Join(home, ".local"))
	}
	return out
}

// in lists cuBLAS in a folder, newest first, or the file itself.
func (s librarySearch) in(dir string) []libraryFile {
	if strings.HasPrefix(path.Base(dir), "libcublas") {
		if s.exists(dir) {
			return []libraryFile{{path: dir, major: majorOf(dir)}}
		}
		return nil
	}
	var out []libraryFile
	for _, major := range cublasMajors {
		if at := fmt.Sprintf("%s/%s.%d", strings.TrimSuffix(dir, "/"), cublasBase, major); s.exists(at) {
			out = append(out, libraryFile{path: at, major: major})
		}
	}
	return out
}

// majorOf reads 12 from "libcublas.so.12.4.5.8", 0 where there is no number.
func majorOf(file string) int {
	_, version, _ := strings.Cut(path.Base(file), ".so.")
	first, _, _ := strings.Cut(version, ".")
	major, _ := strconv.Atoi(first)
	return major
}

// inside is a path as package fs wants it.
func inside(at string) string { return cmp.Or(strings.TrimPrefix(path.Clean(at), "/"), ".") }

func (s librarySearch) exists(at string) bool {
	if !path.IsAbs(at) {
		return false
	}
	_, err := fs.Lstat(s.root, inside(at)) // where a link leads is the loader's business
	return err == nil
}

// loaderDirs are the folders in which the loader looks for a bare name, as far as they are the
// same on every system.
var loaderDirs = []string{
	"/lib", "/usr/lib", "/lib64", "/usr/lib64",
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// present says whether there is a file at a place, so that not opening it is worth telling.
func (s librarySearch) present(f libraryFile) bool {
	if strings.Contains(f.path, "/") {
		return s.exists(f.path)
	}
	return slices.ContainsFunc(append(filepath.SplitList(s.getenv("LD_LIBRARY_PATH")), loaderDirs...), func(dir string) bool {
		return s.exists(path.Join(dir, f.path))
	})
}

// glob lists what matches, later versions first within a pattern.
func (s librarySearch) glob(patterns ...string) []string {
	var out []string
	for _, pattern := range patterns {
		found, err := fs.Glob(s.root, inside(pattern))
		if err != nil {
			continue // a path with a bracket in it
		}
		slices.Reverse(found)
		for _, at := range found {
			if at = "/" + at; !slices.Contains(out, at) {
				out = append(out, at)
			}
		}
	}
	return out
}

// readLink returns where a symbolic link leads, empty when it is none.
func (s librarySearch) readLink(at string) string {
	to, err := fs.ReadLink(s.root, inside(at))
	switch {
	case err != nil || to == "":
		return ""
	case path.IsAbs(to):
		return to
	}
	return path.Join(path.Dir(at), to)
}
