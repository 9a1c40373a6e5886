package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type release struct{ major, minor, patch int }

func (r release) compare(other release) int {
	return cmp.Or(cmp.Compare(r.major, other.major), cmp.Compare(r.minor, other.minor), cmp.Compare(r.patch, other.patch))
}

// libraryFault is a known library bug with the versions and instruction sets where it was observed.
type libraryFault struct {
	library string // "onednn"
	// from and to are the oldest and newest affected versions observed.
	from, to release
	isas     []string // as [boundLibrary].isa spells them
	fault    kernels.KnownFault
}

// libraryFaults are the known bugs. TestLibrariesPassGate fails if an installed library has an unlisted bug
// or lacks a listed bug.
var libraryFaults = []libraryFault{
	{"onednn", release{2, 6, 3}, release{3, 2, 0}, []string{"sse41", "avx", "avx2", "avx512_core"}, kernels.KnownFault{
		DType: kernels.INT8, Checks: []kernels.CheckStep{kernels.CheckAccuracy, kernels.CheckExtremes}, Ordinary: true,
		Text: "sums of two products saturate at 16 bits, since the instruction set that it runs lacks VNNI",
	}},
	{"onednn", release{2, 6, 3}, release{3, 2, 0}, []string{"avx512_core_vnni", "avx512_core_bf16", "avx512_core_amx"}, kernels.KnownFault{
		DType: kernels.INT8, Checks: []kernels.CheckStep{kernels.CheckOneSign},
		Text: "sums past 2^24 are rounded to fp32",
	}},
	{"onednn", release{2, 6, 3}, release{3, 2, 0}, []string{"avx512_core", "avx512_core_vnni", "avx512_core_bf16"}, kernels.KnownFault{
		DType: kernels.BF16, Checks: []kernels.CheckStep{kernels.CheckNonFinite},
		Text: "with an odd K, an infinity at the end of a row of A makes its whole row of C NaN",
	}},
}

func faultsOf(library, kernel, version, isa string) []kernels.KnownFault {
	var v release
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &v.major, &v.minor, &v.patch); err != nil {
		return nil // an unreadable version has no known faults
	}
	var out []kernels.KnownFault
	for _, f := range libraryFaults {
		if f.library == library && f.from.compare(v) <= 0 && v.compare(f.to) <= 0 && slices.Contains(f.isas, isa) {
			found := f.fault
			found.Kernel = kernel
			out = append(out, found)
		}
	}
	return out
}
