package cublas

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func world(driver int, env map[string]string, names ...string) librarySearch {
	root := fstest.MapFS{}
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		file := &fstest.MapFile{Mode: 0o755}
		if link {
			file = &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(target)}
		}
		root[strings.TrimPrefix(name, "/")] = file
	}
	return librarySearch{root: root, getenv: func(k string) string { return env[k] }, folder: "/x/y", driver: driver}
}

func TestFindCuBLAS(t *testing.T) {
	const (
		venv13 = "/srv/torch/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublas.so.13"
		wheel  = "/usr/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12"
		debian = "/usr/local/lib/python3.11/dist-packages/nvidia/cublas/lib/libcublas.so.12"
		kit12  = "/usr/local/cuda-12.4/lib64/libcublas.so.12"
		kit13  = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcublas.so.13"
	)
	loader := []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}
	for _, c := range []struct {
		name  string
		s     librarySearch
		want  []string
		place string
	}{
		{"nothing", world(0, nil), loader, "the loader's paths"},
		{"a folder that was named", world(0, map[string]string{Env: "/x/lib/", "CUDA_HOME": "/k"}, "/x/lib/libcublas.so.11",
			"/x/lib/libcublas.so.12", "/k/lib64/libcublas.so.12"),
			[]string{"/x/lib/libcublas.so.12", "/x/lib/libcublas.so.11"}, Env + "=/x/lib/"},
		{"a file that was named", world(0, map[string]string{Env: "/x/libcublas.so.12.4.5.8"}, "/x/libcublas.so.12.4.5.8"),
			[]string{"/x/libcublas.so.12.4.5.8"}, Env},
		{"a named file that is not there", world(0, map[string]string{Env: "/x/none"}), []string{"/x/none"}, Env},
		{"a folder from here", world(0, map[string]string{Env: "../lib"}, "/x/lib/libcublas.so.12"), []string{"/x/lib/libcublas.so.12"},
			Env + "=../lib"},
		{"this folder", world(0, map[string]string{Env: "."}, "/x/y/libcublas.so.12"), []string{"/x/y/libcublas.so.12"}, Env + "=."},
		{"a name", world(0, map[string]string{Env: "libcublas.so.12"}, "/x/y/libcublas.so.12"), []string{"libcublas.so.12"}, Env},
		{"toolkits", world(0, map[string]string{"CUDA_HOME": "/usr/local/cuda-12.4"}, kit12, kit13),
			slices.Concat([]string{kit12}, loader, []string{kit13}), "CUDA_HOME=/usr/local/cuda-12.4"},
		{"wheels before the system", world(0, map[string]string{"PATH": "/usr/bin"}, "/usr/bin/python3", wheel, kit13),
			slices.Concat([]string{wheel}, loader, []string{kit13}), "PyTorch's wheels in /usr, the loader's paths"},
		{"a driver that is too old", world(12040, map[string]string{"CUDA_HOME": "/usr/local/cuda-12.4"}, kit12, kit13),
			slices.Concat([]string{kit12}, loader[1:]), "/usr/local/cuda-13.0"},
		{"the active environment", world(0, map[string]string{"VIRTUAL_ENV": "/srv/torch/venv"}, venv13),
			slices.Concat([]string{venv13}, loader), "VIRTUAL_ENV=/srv/torch/venv"},
		{"an environment behind a link on PATH", world(0, map[string]string{"PATH": "/usr/local/bin:/usr/bin"},
			"/usr/local/bin/python3 -> /srv/torch/venv/bin/python3", "/srv/torch/venv/bin/python3 -> ../../../../usr/bin/python3.12",
			"/usr/bin/python3.12", venv13),
			slices.Concat([]string{venv13}, loader), "PyTorch's wheels in /srv/torch/venv"},
		{"system Pythons", world(0, map[string]string{"PATH": "relative:/usr/bin:/usr/local/bin"}, "/usr/bin/python3",
			"/usr/local/bin/python", wheel, debian),
			slices.Concat([]string{wheel, debian}, loader), "PyTorch's wheels in /usr/local"},
		{"pyenv", world(0, map[string]string{"PATH": "/h/.pyenv/shims"}, "/h/.pyenv/shims/python3",
			"/h/.pyenv/versions/3.11/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12"),
			slices.Concat([]string{"/h/.pyenv/versions/3.11/lib/python3.11/site-packages/nvidia/cublas/lib/libcublas.so.12"}, loader),
			"PyTorch's wheels in /h/.pyenv/versions/3.11"},
		{"the user's packages",
			world(0, map[string]string{"HOME": "/h"}, "/h/.local/lib/python3.9/site-packages/nvidia/cublas/lib/libcublas.so.12"),
			slices.Concat([]string{"/h/.local/lib/python3.9/site-packages/nvidia/cublas/lib/libcublas.so.12"}, loader),
			"PyTorch's wheels in /h/.local"},
	} {
		files, places := c.s.files()
		var got []string
		for _, f := range files {
			got = append(got, f.path)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if !strings.Contains(strings.Join(places, ", "), c.place) {
			t.Errorf("%s: looked in %q, want %q among them", c.name, places, c.place)
		}
	}
}

func TestPresent(t *testing.T) {
	s := librarySearch{
		root: fstest.MapFS{
			"opt/libcublas.so.12":                      {},
			"usr/lib/x86_64-linux-gnu/libcublas.so.11": {},
			"home/me/lib/libcublas.so.13":              {},
		},
		getenv: func(name string) string { return map[string]string{"LD_LIBRARY_PATH": "/nowhere:/home/me/lib"}[name] },
	}
	for path, want := range map[string]bool{
		"/opt/libcublas.so.12": true, "/opt/libcublas.so.13": false,
		"libcublas.so.11": true, "libcublas.so.12": false, "libcublas.so.13": true,
	} {
		if got := s.present(libraryFile{path: path}); got != want {
			t.Errorf("%s: present %v, want %v", path, got, want)
		}
	}
}

func TestLibraryNames(t *testing.T) {
	for path, want := range map[string][2]string{
		"/a/libcublas.so.12.4.5.8": {"/a/libcublas.so.12.4.5.8", "/a/libcublasLt.so.12.4.5.8"},
		"libcublas.so.13":          {"libcublas.so.13", "libcublasLt.so.13"},
		"/a/libcublasLt.so.12":     {"/a/libcublas.so.12", "/a/libcublasLt.so.12"},
		"/a/mine.so":               {"/a/mine.so", "/a/libcublasLt.so"},
	} {
		f := libraryFile{path: path}
		if got := [2]string{f.name(cublasBase), f.name(cublasLtBase)}; got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	for name, want := range map[string]int{"libcublas.so.12.4": 12, "/x/libcublas.so.13": 13, "libcublas.so": 0, "x": 0} {
		if got := majorOf(name); got != want {
			t.Errorf("%s: major %d, want %d", name, got, want)
		}
	}
}
