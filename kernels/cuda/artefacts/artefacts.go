// Package artefacts holds the compiled device code of all rooms, and finds kernels in it.
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

// Device code is compiled ahead of time by scripts/build_kernels.py (make kernels), one
// folder for each kernels/cuda/*.cu, and embedded; artefacts_test.go fails when it and
// the sources disagree.
//
//go:embed */*
var artefactFiles embed.FS

// from is where device code is read.
var from fs.FS = artefactFiles

// UseFolder reads device code from a folder in place of what is embedded: for tests of images
// that no program needs. It is called ahead of all else.
func UseFolder(dir string) { from = os.DirFS(dir) }

// Figures is what the compiler told of one kernel in one image.
type Figures struct {
	Symbol      string `json:"symbol"`
	Parameter   int    `json:"parameter"` // bytes of the struct that it takes
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

// Manifest is the manifest of one source: what it was built from, with what, into what.
type Manifest struct {
	Source    string              `json:"source"`
	Includes  []string            `json:"includes"`
	SHA256    string              `json:"sha256"` // of what sha256sum prints of source and includes
	Archs     []string            `json:"archs"`
	Compilers map[string]string   `json:"compilers"`
	Options   map[string][]string `json:"options"`
	Images    []ImageEntry        `json:"images"`
}

// All are the manifests by name of the source without ".cu".
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

// runsOn tells whether an image of that name runs on compute capability cc (× 10), and
// how well it fits: the larger the better.
func runsOn(image string, cc int) (fit int, ok bool) {
	target, ptx := strings.CutPrefix(image, "ptx")
	target = strings.TrimPrefix(target, "sm_")
	target, specific := strings.CutSuffix(target, "a")
	n, err := strconv.Atoi(target)
	switch {
	case err != nil:
		return 0, false
	case specific: // instructions that no other capability has
		return 3000, n == cc
	case ptx: // compiled by the driver, for it and all that come after
		return n, n <= cc
	}
	// Machine code runs on later minors of its major.
	return 1000 + n, n/10 == cc/10 && n <= cc
}

// imageFor is the best image of a source for compute capability cc.
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

// Kernel is a kernel and the image that holds it on some GPU.
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

// Image reads the image of a source for compute capability cc, in the form that
// the driver loads: machine code, or PTX that ends in a zero byte.
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
