package artefacts

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestArtefactsMatchSources(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	sources := deviceSources(t)
	for name := range sources {
		if stem, ok := strings.CutSuffix(name, ".cu"); ok && all[stem] == nil {
			t.Errorf("%s was never built: run make kernels", name)
		}
	}
	for name, a := range all {
		var listing strings.Builder
		for _, file := range append([]string{a.Source}, a.Includes...) {
			path, ok := sources[file]
			if !ok {
				t.Fatalf("artefact %s: there is no %s", name, file)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("artefact %s: %v", name, err)
			}
			fmt.Fprintf(&listing, "%x  %s\n", sha256.Sum256(text), file)
			for _, line := range strings.Split(string(text), "\n") {
				rest, ok := strings.CutPrefix(strings.TrimSpace(line), `#include "`)
				if header := strings.TrimSuffix(rest, `"`); ok && !slices.Contains(a.Includes, header) {
					t.Errorf("artefact %s: %s includes %s, which the manifest lacks: run make kernels", name, file, header)
				}
			}
		}
		if sum := sha256.Sum256([]byte(listing.String())); hex.EncodeToString(sum[:]) != a.SHA256 {
			t.Errorf("artefact %s is older than its sources: run make kernels", name)
		}
	}
}

// deviceSources maps names of device sources to paths. Names must be unique, because sources include headers
// by name.
func deviceSources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ext := filepath.Ext(path); ext != ".cu" && ext != ".cuh" {
			return nil
		}
		if other, ok := found[d.Name()]; ok {
			t.Errorf("%s and %s have one name", other, path)
		}
		found[d.Name()] = path
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var updateMachineCode = flag.Bool("update-machine-code", false, "write machine_code.sha256 anew")

// TestMachineCodeIsKept compares machine code with machine_code.sha256, in the format of sha256sum, so
// sources can be rewritten safely. -update-machine-code accepts intended changes. PTX is not compared.
func TestMachineCodeIsKept(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, a := range all {
		for _, image := range a.Images {
			if strings.HasPrefix(image.Arch, "sm_") {
				got[name+"/"+strings.TrimSuffix(image.File, ".gz")] = image.SHA256
			}
		}
	}
	const file = "machine_code.sha256"
	if *updateMachineCode {
		var text strings.Builder
		for _, name := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&text, "%s  %s\n", got[name], name)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want[name] = sum
	}
	for name, sum := range got {
		if want[name] != sum {
			t.Errorf("%s is not the machine code that %s has", name, file)
		}
	}
	for name := range want {
		if got[name] == "" {
			t.Errorf("%s has %s, which is no image", file, name)
		}
	}
}

func TestArtefactsAreWhole(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	owner := map[string]string{}
	total := 0
	for name, a := range all {
		if len(a.Images) != len(a.Archs) {
			t.Errorf("artefact %s: %d images for %v", name, len(a.Images), a.Archs)
		}
		for i := range a.Images {
			image := &a.Images[i]
			code, err := readImage(name, image)
			if err != nil {
				t.Error(err)
				continue
			}
			if sum := sha256.Sum256(code); hex.EncodeToString(sum[:]) != image.SHA256 {
				t.Errorf("artefact %s: %s has another content than the manifest says", name, image.File)
			}
			if len(image.Kernels) == 0 {
				t.Errorf("artefact %s: %s holds no kernel", name, image.File)
			}
			packed, err := fs.Stat(artefactFiles, name+"/"+image.File)
			if err != nil {
				t.Fatal(err)
			}
			total += int(packed.Size())
			for _, k := range image.Kernels {
				if k.Stack+k.SpillStores+k.SpillLoads != 0 {
					t.Errorf("%s %s: %d bytes of stack, %d and %d of spills", image.Arch, k.Symbol, k.Stack, k.SpillStores, k.SpillLoads)
				}
				if k.Registers == 0 || k.Parameter == 0 || k.Threads == 0 {
					t.Errorf("%s %s: %d registers, a parameter of %d bytes, blocks of %d threads: expected launch bounds and one struct",
						image.Arch, k.Symbol, k.Registers, k.Parameter, k.Threads)
				}
				if !strings.HasPrefix(k.Symbol, "ga_") {
					t.Errorf("%s %s: symbols begin with ga_", image.Arch, k.Symbol)
				}
				if other, ok := owner[k.Symbol]; ok && other != name {
					t.Errorf("%s is in %s and in %s", k.Symbol, other, name)
				}
				owner[k.Symbol] = name
			}
		}
	}
	if total > 18<<20 {
		t.Errorf("device code takes %d bytes of the executable", total)
	}
}

func TestImageForCapability(t *testing.T) {
	a := &Manifest{Source: "x.cu", Images: []ImageEntry{
		{Arch: "sm_75"}, {Arch: "sm_80"}, {Arch: "sm_86"}, {Arch: "sm_89"}, {Arch: "sm_90a"}, {Arch: "ptx90"}, {Arch: "sm_100"},
		{Arch: "sm_120"},
	}}
	for cc, want := range map[int]string{
		75: "sm_75", 80: "sm_80", 86: "sm_86", 87: "sm_86", 89: "sm_89", 90: "sm_90a", 100: "sm_100", 103: "sm_100", 110: "ptx90",
		120: "sm_120", 121: "sm_120", 130: "ptx90",
	} {
		got, err := a.imageFor(cc)
		if err != nil || got.Arch != want {
			t.Errorf("capability %d: got %v, %v, want %s", cc, got, err, want)
		}
	}
	for _, cc := range []int{70, 72, 61} {
		if got, err := a.imageFor(cc); err == nil {
			t.Errorf("capability %d: got %s", cc, got.Arch)
		}
	}
	hopper := &Manifest{Source: "hopper.cu", Images: []ImageEntry{{Arch: "sm_90a"}}}
	if _, err := hopper.imageFor(100); err == nil ||
		err.Error() != "hopper.cu has no image for compute capability 10.0: it was built for sm_90a" {
		t.Errorf("got %v", err)
	}
}

func TestFindKernel(t *testing.T) {
	k, err := Find("ga_fill", 89)
	if err != nil || k.Source != "support" || k.arch != "sm_89" || k.Threads != 256 {
		t.Errorf("got %+v, %v", k, err)
	}
	for _, c := range []struct {
		symbol string
		cc     int
		want   string
	}{
		{"ga_nothing", 80, "kernel ga_nothing: no such symbol in the embedded device code"},
		{"ga_fill", 70,
			"kernel ga_fill: support.cu has no image for compute capability 7.0: it was built for sm_75, sm_80, sm_86, sm_89, sm_90a, " +
				"ptx90, sm_100, sm_120"},
		{"ga_naive_fp8", 86, "kernel ga_naive_fp8: not built for compute capability 8.6, only for ptx90, sm_100, sm_120, sm_89, sm_90a"},
	} {
		if _, err := Find(c.symbol, c.cc); err == nil || err.Error() != c.want {
			t.Errorf("%s on %d: got %v, want %s", c.symbol, c.cc, err, c.want)
		}
	}
}

func TestDeviceImage(t *testing.T) {
	code, arch, err := Image("support", 80)
	if err != nil || arch != "sm_80" || !strings.HasPrefix(string(code), "\x7fELF") {
		t.Errorf("got %d bytes for %s, %v", len(code), arch, err)
	}
	code, arch, err = Image("support", 120)
	if err != nil || arch != "sm_120" || !strings.HasPrefix(string(code), "\x7fELF") {
		t.Errorf("got %d bytes for %s, %v", len(code), arch, err)
	}
	code, arch, err = Image("support", 130)
	if err != nil || arch != "ptx90" || !strings.Contains(string(code[:400]), ".version 8.4") || code[len(code)-1] != 0 {
		t.Errorf("got %d bytes for %s, %v: want PTX of ISA 8.4 that ends in a zero byte", len(code), arch, err)
	}
	if _, _, err := Image("nothing", 80); err == nil {
		t.Error("a source that isn't there has an image")
	}
}
