package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// release is a version of a library.
type release struct{ major, minor, patch int }

func (r release) compare(other release) int {
	return cmp.Or(cmp.Compare(r.major, other.major), cmp.Compare(r.minor, other.minor), cmp.Compare(r.patch, other.patch))
}

// libraryFault is a known fault of a library, in the versions and with the instruction sets in which it was seen.
type libraryFault struct {
	library string // "onednn"
	// from and to are the oldest and the newest version in which it was seen.
	from, to release
	isas     []string // as [boundLibrary].isa spells them
	fault    kernels.KnownFault
}

// libraryFaults are the known faults. TestLibrariesPassGate runs the correctness check on the libraries that are
// installed: a fault that is missing here fails it, and so does one that is here and gone. docs/design.md has the same in words.
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

// faultsOf are the known faults of a library of a version that runs an instruction set, as the kernel of that name.
func faultsOf(library, kernel, version, isa string) []kernels.KnownFault {
	var v release
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &v.major, &v.minor, &v.patch); err != nil {
		return nil // of a version that can't be read nothing is known
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
