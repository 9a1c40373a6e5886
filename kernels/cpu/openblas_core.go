package cpu

/*
#include <stdlib.h>
#include "native/dl.h"
#include "native/openblas.h"

static void ga_openblas_choose_run(ga_openblas_choice *c) { ga_library_run(ga_openblas_choose, c); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// openblasCore is the core type that selects OpenBLAS's kernels. A multi-CPU build knows the CPU models of
// its release; on newer CPUs it falls back to generic kernels, several times slower.
type openblasCore struct {
	name string // "SkylakeX", empty if unknown
	own  string
	set  bool // whether the user set OPENBLAS_CORETYPE, which is never replaced
}

// openblasCoreVariable is OpenBLAS's environment variable for the core type.
const openblasCoreVariable = "OPENBLAS_CORETYPE"

// String returns the core and its origin: "SkylakeX (OPENBLAS_CORETYPE; its own choice is Haswell)".
func (c openblasCore) String() string {
	switch {
	case c.own != "":
		return fmt.Sprintf("%s (%s; its own choice is %s)", c.name, openblasCoreVariable, c.own)
	case c.set && c.name != "":
		return fmt.Sprintf("%s (%s)", c.name, openblasCoreVariable)
	}
	return c.name
}

// openblasCoreNames lists x86-64 core types by instruction level; each level includes the previous ones.
var openblasCoreNames = [][]string{
	{
		"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Atom", "Core2", "Penryn", "Dunnington", "Nehalem", "Sandybridge",
		"Athlon", "Opteron", "Opteron_SSE3", "Opteron(SSE3)", "Barcelona", "Bobcat", "Bulldozer", "Piledriver", "Steamroller", "Nano",
	},
	{"Haswell", "Zen", "Excavator"},
	{"SkylakeX"},
	{"Cooperlake"},
	{"SapphireRapids"},
}

func openblasLevel(core string) int {
	return slices.IndexFunc(openblasCoreNames, func(names []string) bool { return slices.Contains(names, core) })
}

func openblasCandidates(f features, amd bool) []string {
	var out []string
	if f.AVX512 && f.AVX512BF16 && f.AMXBF16 {
		out = append(out, "SapphireRapids")
	}
	if f.AVX512 && f.AVX512BF16 {
		out = append(out, "Cooperlake")
	}
	if f.AVX512 {
		out = append(out, "SkylakeX")
	}
	if f.AVX2 && f.FMA {
		if amd {
			return append(out, "Zen")
		}
		out = append(out, "Haswell")
	}
	return out
}

// hostCandidates returns the cores for this machine, regardless of GEMMAUDIT_ISA.
func hostCandidates() []string {
	if runtime.GOARCH != "amd64" {
		return nil
	}
	f := detect()
	f.AMXBF16 = f.AMXBF16 && !amxEmulated
	return openblasCandidates(f, cpuModel().vendor == "amd")
}

// openblasCores caches the choice per library, which is made once before the first launch.
var openblasCores struct {
	sync.Mutex
	of map[*library]openblasCore
}

// chooseOpenBLASCore selects the library's best core type for this CPU, if better than the library's choice.
func chooseOpenBLASCore(l *library) openblasCore {
	openblasCores.Lock()
	defer openblasCores.Unlock()
	if known, ok := openblasCores.of[l]; ok {
		return known
	}
	core := chooseOnce(l)
	if openblasCores.of == nil {
		openblasCores.of = map[*library]openblasCore{}
	}
	openblasCores.of[l] = core
	return core
}

func chooseOnce(l *library) openblasCore {
	name := l.symbol("openblas_get_corename")
	if name == nil {
		return openblasCore{}
	}
	core := openblasCore{name: C.GoString(C.ga_openblas_string(name))}
	if _, core.set = os.LookupEnv(openblasCoreVariable); core.set {
		return core
	}
	quit, start, level := l.symbol("gotoblas_dynamic_quit"), l.symbol("gotoblas_dynamic_init"), openblasLevel(core.name)
	if quit == nil || start == nil || level < 0 {
		return core
	}
	choose := func(wanted string) string {
		c := (*C.ga_openblas_choice)(C.calloc(1, C.sizeof_ga_openblas_choice))
		defer C.free(unsafe.Pointer(c))
		c.quit, c.init = quit, start
		if wanted != "" {
			c.core = C.CString(wanted)
			defer C.free(unsafe.Pointer(c.core))
		}
		C.ga_openblas_choose_run(c)
		return C.GoString(C.ga_openblas_string(name))
	}
	own := core.name
	for _, wanted := range hostCandidates() {
		if openblasLevel(wanted) <= level {
			break
		}
		// A library silently replaces a core type that it lacks.
		if got := choose(wanted); openblasLevel(got) > level {
			return openblasCore{name: got, own: own}
		}
		choose("")
	}
	return core
}
