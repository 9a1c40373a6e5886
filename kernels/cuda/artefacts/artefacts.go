// Package artefacts holds the compiled device code of all packages, and finds kernels in it.
package artefacts

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// Device code is compiled ahead of time by scripts/build_kernels.py (make kernels), one folder for each
// kernels/cuda/*.cu, and embedded. artefacts_test.go fails if it does not match the sources.
//
//go:embed */*
var artefactFiles embed.FS

var from fs.FS = artefactFiles

// UseFolder reads device code from a folder instead of the embedded one, for tests of images that the program
// does not contain. Call it before any other function.
func UseFolder(dir string) { from = os.DirFS(dir) }

// Figures is the compiler's report on one kernel in one image.
type Figures struct {
	Symbol      string `json:"symbol"`
	Parameter   int    `json:"parameter"` // size of the parameter struct in bytes
	Registers   int    `json:"registers"` // of a thread
	Threads     int    `json:"threads"`   // the largest block, 0 when not declared
	Shared      int    `json:"shared"`    // static shared memory in bytes
	Stack       int    `json:"stack"`
	SpillStores int    `json:"spill_stores"`
	SpillLoads  int    `json:"spill_loads"`
	Constant    int    `json:"constant"`
	Barriers    int    `json:"barriers"`
}

// ImageEntry is one compiled source for one architecture.
type ImageEntry struct {
	Arch    string    `json:"arch"` // "sm_80", "sm_90a", "ptx90"
	File    string    `json:"file"`
	SHA256  string    `json:"sha256"` // uncompressed
	Bytes   int       `json:"bytes"`  // uncompressed
	Kernels []Figures `json:"kernels"`
}

// Manifest lists a source's inputs, compilers and images.
type Manifest struct {
	Source    string              `json:"source"`
	Includes  []string            `json:"includes"`
	SHA256    string              `json:"sha256"` // of sha256sum's output for source and includes
	Archs     []string            `json:"archs"`
	Compilers map[string]string   `json:"compilers"`
	Options   map[string][]string `json:"options"`
	Images    []ImageEntry        `json:"images"`
}

// All returns the manifests by name of the source without ".cu".
var All = sync.OnceValues(func() (map[string]*Manifest, error) {
	folders, err := fs.ReadDir(from, ".")
	if err != nil {
		return nil, fmt.Errorf("embedded device code: %w", err)
	}
	found := map[string]*Manifest{}
	for _, f := range folders {
		name := path.Join(f.Name(), "manifest.json")
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, fmt.Errorf("embedded device code: %w", err)
		}
		a := &Manifest{}
		if err := json.Unmarshal(text, a); err != nil {
			return nil, fmt.Errorf("embedded device code: %s: %w", name, err)
		}
		found[f.Name()] = a
	}
	return found, nil
})

// runsOn reports whether an image of that name runs on compute capability cc (× 10), and how well it fits;
// larger is better.
func runsOn(image string, cc int) (fit int, ok bool) {
	target, ptx := strings.CutPrefix(image, "ptx")
	target = strings.TrimPrefix(target, "sm_")
	target, specific := strings.CutSuffix(target, "a")
	n, err := strconv.Atoi(target)
	switch {
	case err != nil:
		return 0, false
	case specific: // architecture-specific instructions, for one capability only
		return 3000, n == cc
	case ptx: // the driver compiles it for this and later capabilities
		return n, n <= cc
	}
	// Machine code runs on later minor versions of the same major one.
	return 1000 + n, n/10 == cc/10 && n <= cc
}

func (a *Manifest) imageFor(cc int) (*ImageEntry, error) {
	var best *ImageEntry
	bestFit := -1
	var have []string
	for i := range a.Images {
		image := &a.Images[i]
		have = append(have, image.Arch)
		if fit, ok := runsOn(image.Arch, cc); ok && fit > bestFit {
			best, bestFit = image, fit
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%s has no image for compute capability %d.%d: it was built for %s",
			a.Source, cc/10, cc%10, strings.Join(have, ", "))
	}
	return best, nil
}

// Kernel is a kernel and its image for a GPU.
type Kernel struct {
	Figures
	Source string // name of the artefact: "hopper"
	arch   string // name of the image: "sm_90a"
}

// Find finds a symbol for compute capability cc.
func Find(symbol string, cc int) (Kernel, error) {
	all, err := All()
	if err != nil {
		return Kernel{}, err
	}
	elsewhere := map[string]bool{}
	var refused error
	for source, a := range all {
		image, err := a.imageFor(cc)
		for i := range a.Images {
			for _, k := range a.Images[i].Kernels {
				switch {
				case k.Symbol != symbol:
				case err != nil:
					refused = err
				case image == &a.Images[i]:
					return Kernel{k, source, image.Arch}, nil
				default:
					elsewhere[a.Images[i].Arch] = true
				}
			}
		}
	}
	switch {
	case refused != nil:
		return Kernel{}, fmt.Errorf("kernel %s: %w", symbol, refused)
	case len(elsewhere) > 0:
		archs := make([]string, 0, len(elsewhere))
		for a := range elsewhere {
			archs = append(archs, a)
		}
		sort.Strings(archs)
		return Kernel{}, fmt.Errorf("kernel %s: not built for compute capability %d.%d, only for %s",
			symbol, cc/10, cc%10, strings.Join(archs, ", "))
	}
	return Kernel{}, fmt.Errorf("kernel %s: no such symbol in the embedded device code", symbol)
}

// Image reads the image of a source for compute capability cc in the driver's format: machine code, or
// zero-terminated PTX.
func Image(source string, cc int) (code []byte, arch string, err error) {
	all, err := All()
	if err != nil {
		return nil, "", err
	}
	a := all[source]
	if a == nil {
		return nil, "", fmt.Errorf("embedded device code has no %q", source)
	}
	image, err := a.imageFor(cc)
	if err != nil {
		return nil, "", err
	}
	code, err = readImage(source, image)
	if err != nil {
		return nil, "", err
	}
	if strings.HasPrefix(image.Arch, "ptx") {
		code = append(code, 0)
	}
	return code, image.Arch, nil
}

func readImage(source string, image *ImageEntry) ([]byte, error) {
	name := path.Join(source, image.File)
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("embedded device code: %s: %w", name, err) }
	packed, err := fs.ReadFile(from, name)
	if err != nil {
		return fail(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fail(err)
	}
	code, err := io.ReadAll(z)
	if err != nil {
		return fail(err)
	}
	if len(code) != image.Bytes {
		return fail(fmt.Errorf("%d bytes, the manifest says %d", len(code), image.Bytes))
	}
	return code, nil
}
