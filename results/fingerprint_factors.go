package results

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Factors lists the fingerprint in display order: the host, then each device under its id ("cuda:0 driver").
// Properties that the CPU device shares with the host are omitted, so one change is one factor.
func (f Fingerprint) Factors() []Factor {
	var out []Factor
	add := func(name, value string) { out = append(out, Factor{Name: name, Value: value}) }
	out = append(out, Factor{Name: "hostname", Value: f.Hostname, Identity: true})
	add("gemmaudit", f.Gemmaudit)
	add("os", f.OS)
	add("kernel", f.Kernel)
	add("arch", f.Arch)
	add("cpu model", f.CPUModel)
	add("microcode", f.Microcode)
	add("cores", count(f.Cores))
	// Kernels reserve slightly different amounts of the same memory.
	add("memory", gibibytes(f.MemoryGiB))
	add("governor", f.Governor)
	add("turbo", f.Turbo)
	add("smt", f.SMT)
	add("hypervisor", f.Hypervisor)
	add("transparent huge pages", f.THP)
	for _, d := range f.Devices {
		for _, line := range deviceFactors(d) {
			if d.Kind.Facts().Host && f.CPUModel != "" {
				switch line.Name {
				case "name", "units", "memory":
					continue
				case "microcode":
					if f.Microcode != "" {
						continue
					}
				}
			}
			line.Device, line.Line, line.Name = d.ID, line.Name, d.ID+" "+line.Name
			out = append(out, line)
		}
	}
	return out
}

func deviceFactors(d kernels.Spec) []Factor {
	out := []Factor{
		{Name: "name", Value: d.Name},
		{Name: "uuid", Value: d.UUID, Identity: true},
		{Name: "units", Value: count(d.Units)},
		{Name: "memory", Value: gibibytes(float64(d.MemoryBytes) / (1 << 30))},
		{Name: "caches", Value: cachesInWords(d)},
		{Name: "features", Value: strings.Join(d.Features, " ")},
	}
	for _, named := range []map[string]string{d.Versions, d.Settings} {
		for _, name := range slices.Sorted(maps.Keys(named)) {
			out = append(out, Factor{Name: name, Value: named[name]})
		}
	}
	return out
}

// cachesInWords returns "L1 48 KiB × 2, L2 1 MiB × 2, L3 32 MiB".
func cachesInWords(d kernels.Spec) string {
	var words []string
	for _, c := range d.Caches {
		w := fmt.Sprintf("L%d %s", c.Level, kibibytes(c.Bytes))
		if c.Count > 1 {
			w += " × " + strconv.Itoa(c.Count)
		}
		words = append(words, w)
	}
	if len(words) == 0 && d.LastLevelCacheBytes > 0 {
		return "last level " + kibibytes(d.LastLevelCacheBytes)
	}
	return strings.Join(words, ", ")
}

func kibibytes(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func gibibytes(g float64) string {
	switch {
	case g <= 0:
		return ""
	case g < 10:
		return fmt.Sprintf("%.1f GiB", g)
	}
	return fmt.Sprintf("%.0f GiB", g)
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// Diff lists the factors in which f (A) and o (B) differ, in the order of [Fingerprint.Factors]; factors only
// in o are last.
func (f Fingerprint) Diff(o Fingerprint) []FactorDiff {
	theirs := map[string]Factor{}
	for _, x := range o.Factors() {
		theirs[x.Name] = x
	}
	var out []FactorDiff
	for _, x := range f.Factors() {
		y := theirs[x.Name]
		delete(theirs, x.Name)
		if x.Value != y.Value {
			out = append(out, FactorDiff{Name: x.Name, A: x.Value, B: y.Value, Identity: x.Identity, Device: x.Device, Line: x.Line})
		}
	}
	for _, y := range o.Factors() {
		if _, left := theirs[y.Name]; left && y.Value != "" {
			out = append(out, FactorDiff{Name: y.Name, B: y.Value, Identity: y.Identity, Device: y.Device, Line: y.Line})
		}
	}
	return out
}
