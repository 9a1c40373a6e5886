package health

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

func checkDevices(m *machine) []Finding {
	const check = "devices"
	if len(m.Devices) == 0 {
		return []Finding{{check, Error, "no device can be audited", "the reasons are listed below"}}
	}
	var names []string
	for _, d := range m.Devices {
		names = append(names, fmt.Sprintf("%s (%s)", d.ID, d.Name))
	}
	return []Finding{{check, OK, strings.Join(names, ", "), ""}}
}

func checkMissing(m *machine) []Finding {
	var out []Finding
	for _, x := range m.Missing {
		out = append(out, Finding{"kernels", Note, x.Name + " is missing: " + x.Reason, ""})
	}
	return out
}

// Without huge pages, packed weights cost a TLB miss every 4 KiB.
func checkHugePages(m *machine) []Finding {
	const check = "huge pages"
	switch thp := m.facts.THP; thp {
	case "":
		return nil
	case "never":
		return []Finding{{check, Warning, "transparent huge pages are off: large weights are read more slowly",
			"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"}}
	default:
		return []Finding{{check, OK, thp, ""}}
	}
}

// Weights rotate over three times the last-level cache; operands, results and the unpacked weights need as
// much again.
const (
	rotation  = 3
	withSpace = 2 * rotation
)

func checkMemory(m *machine) []Finding {
	const check = "memory"
	const mib = 1 << 20
	var out []Finding
	for _, d := range m.Devices {
		have, what := float64(d.MemoryBytes), "of memory"
		if d.Kind.Facts().Host {
			available, _ := procfs.Tree{FS: m.Files}.AvailableMemory() // 0 when unknown
			have, what = float64(available), "of memory available"
		}
		if have == 0 || d.LastLevelCacheBytes == 0 {
			continue
		}
		llc := float64(d.LastLevelCacheBytes)
		seen := fmt.Sprintf("%s: %s %s, last-level cache of %.0f MiB", d.ID, size(have), what, llc/mib)
		switch {
		case have < rotation*llc:
			out = append(out, Finding{check, Error, seen + ", which weights can't rotate past", "free memory, or audit with --regime hot"})
		case have < withSpace*llc:
			out = append(out, Finding{check, Warning, seen + ", with little room to rotate weights past it",
				"free memory, or leave out the largest shapes"})
		default:
			out = append(out, Finding{check, OK, seen, ""})
		}
	}
	return out
}

// size formats a size in bytes, in the larger of two units if that is exact.
func size(bytes float64) string {
	if bytes >= 10<<30 {
		return fmt.Sprintf("%.1f GiB", bytes/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
}

func checkSwap(m *machine) []Finding {
	const check = "swap"
	tree := procfs.Tree{FS: m.Files}
	total, ok1 := tree.Memory("SwapTotal")
	free, ok2 := tree.Memory("SwapFree")
	if !ok1 || !ok2 {
		return nil
	}
	used := float64(total-free) / (1 << 20)
	switch {
	case m.after.swapped > m.before.swapped:
		return []Finding{{check, Warning, fmt.Sprintf("pages are being swapped right now (%.0f MiB are out)", used),
			"free memory, or sudo swapoff -a"}}
	case used >= 1:
		return []Finding{{check, Note, fmt.Sprintf("%.0f MiB are swapped out, but swap is idle", used), ""}}
	case total == 0:
		return []Finding{{check, OK, "none configured", ""}}
	}
	return []Finding{{check, OK, "unused", ""}}
}
