// Package cublas finds cuBLAS and cuBLASLt at run time and makes kernels of them.
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

// Env names a file or folder. If it is set, no other place is searched, so an audit never measures a
// different library.
const Env = "GEMMAUDIT_CUBLAS"

// cublasMajors are the supported versions, newest first.
var cublasMajors = []int{13, 12, 11}

// The two libraries. cublas depends on cublasLt, and both are in one folder.
const (
	cublasBase   = "libcublas.so"
	cublasLtBase = "libcublasLt.so"
)

type libraryFile struct {
	path  string // a path, or a bare name for the loader's search
	major int    // 0 if the name has none
}

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

// librarySearch looks for cuBLAS. Its fields are the environment, which tests replace.
type librarySearch struct {
	root   fs.FS // the file system from "/"
	getenv func(string) string
	folder string // the current working directory
	// driver is the CUDA version of the driver, 12040 for 12.4; 0 if unknown. A library of a newer major
	// version does not run on it.
	driver int
}

// files lists the candidates in order, and names the searched places for the error message. Explicit choices
// come first, then the active Python environment and the Pythons on PATH, whose wheels PyTorch would load,
// then the system.
func (s librarySearch) files() (files []libraryFile, places []string) {
	if named := s.getenv(Env); named != "" {
		places = append(places, Env+"="+named)
		// The loader searches for a bare name; everything else is a path.
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

func (s librarySearch) runnable(files []libraryFile) []libraryFile {
	if s.driver == 0 {
		return files
	}
	return slices.DeleteFunc(files, func(f libraryFile) bool { return f.major > s.driver/1000 })
}

func toolkitDirs(home string) []string {
	return []string{
		path.Join(home, "lib64"), path.Join(home, "lib"),
		path.Join(home, "targets/x86_64-linux/lib"), path.Join(home, "targets/sbsa-linux/lib"),
	}
}

// wheelDirs returns the folders of NVIDIA's library wheels below a Python prefix: nvidia/cublas/lib up to
// CUDA 12, nvidia/cu13/lib since.
func (s librarySearch) wheelDirs(prefix string) []string {
	var patterns []string
	for _, lib := range []string{"lib", "lib64"} {
		for _, site := range []string{"site-packages", "dist-packages"} {
			base := path.Join(prefix, lib, "python3*", site, "nvidia")
			patterns = append(patterns, path.Join(base, "cu[0-9]*/lib"), path.Join(base, "cublas/lib"))
		}
	}
	// Debian's Python has the packages of all its versions here.
	base := path.Join(prefix, "lib/python3/dist-packages/nvidia")
	return s.glob(append(patterns, path.Join(base, "cu[0-9]*/lib"), path.Join(base, "cublas/lib"))...)
}

// pythons lists the prefixes of the Pythons on PATH and of the user's packages. It starts no Python: the
// location of its packages follows from its own.
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
			// A link in /usr/local/bin may lead into an environment, whose Python links out again. Every step
			// has its own packages.
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

// majorOf reads 12 from "libcublas.so.12.4.5.8", or 0 without a number.
func majorOf(file string) int {
	_, version, _ := strings.Cut(path.Base(file), ".so.")
	first, _, _ := strings.Cut(version, ".")
	major, _ := strconv.Atoi(first)
	return major
}

func inside(at string) string { return cmp.Or(strings.TrimPrefix(path.Clean(at), "/"), ".") }

func (s librarySearch) exists(at string) bool {
	if !path.IsAbs(at) {
		return false
	}
	_, err := fs.Lstat(s.root, inside(at)) // the loader follows links
	return err == nil
}

// loaderDirs are the loader's folders for bare names that all systems share.
var loaderDirs = []string{
	"/lib", "/usr/lib", "/lib64", "/usr/lib64",
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// present reports whether a file exists; then a failure to open it is reported.
func (s librarySearch) present(f libraryFile) bool {
	if strings.Contains(f.path, "/") {
		return s.exists(f.path)
	}
	return slices.ContainsFunc(append(filepath.SplitList(s.getenv("LD_LIBRARY_PATH")), loaderDirs...), func(dir string) bool {
		return s.exists(path.Join(dir, f.path))
	})
}

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
