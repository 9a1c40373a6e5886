// Package cudatest has common test helpers of packages below kernels/cuda: GPUs for planning, limits of
// launches, and golden files of plans.
package cudatest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Archs are GPUs of each capability: those with their own images, one that runs an older minor version's, and
// two future ones.
var Archs = []planning.Arch{
	{CC: 75, SMs: 40, SharedMax: 64 << 10, L2: 4 << 20, ClockMHz: 1590, Bandwidth: 320e9},
	{CC: 80, SMs: 108, SharedMax: 163 << 10, L2: 40 << 20, ClockMHz: 1410, Bandwidth: 1555e9},
	{CC: 86, SMs: 84, SharedMax: 99 << 10, L2: 6 << 20, ClockMHz: 1860, Bandwidth: 936e9},
	{CC: 87, SMs: 16, SharedMax: 163 << 10, L2: 4 << 20, ClockMHz: 1300, Bandwidth: 204e9},
	{CC: 89, SMs: 128, SharedMax: 99 << 10, L2: 72 << 20, ClockMHz: 2520, Bandwidth: 1008e9},
	{CC: 90, SMs: 132, SharedMax: 227 << 10, L2: 60 << 20, ClockMHz: 1980, Bandwidth: 4800e9},
	{CC: 90, SMs: 16, SharedMax: 227 << 10, L2: 8 << 20, ClockMHz: 1980, Bandwidth: 600e9},
	{CC: 100, SMs: 148, SharedMax: 227 << 10, L2: 126 << 20, ClockMHz: 1965, Bandwidth: 8000e9},
	{CC: 120, SMs: 170, SharedMax: 99 << 10, L2: 96 << 20, ClockMHz: 2407, Bandwidth: 1792e9},
}

// CheckCall compares a launch with the GPU's image and limits.
func CheckCall(a planning.Arch, c planning.Call) error {
	k, err := artefacts.Find(c.Kernel, a.CC)
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("kernel %s on %d: %s", c.Kernel, a.CC, fmt.Sprintf(format, args...))
	}
	volume := func(d planning.Dim3) int { return max(d.X, 1) * max(d.Y, 1) * max(d.Z, 1) }
	threads := volume(c.Block)
	registers := (k.Registers + 7) / 8 * 8 * 32 * planning.DivideUp(threads, 32)
	align := 4
	if len(c.Args.Bytes) >= 8 {
		align = 8
	}
	if len(c.Args.Maps) > 0 {
		align = 64
	}
	switch {
	case threads > k.Threads:
		return fail("blocks of %d threads, bounds of %d", threads, k.Threads)
	case registers > 65536:
		return fail("%d threads of %d registers", threads, k.Registers)
	case c.Shared+k.Shared > a.SharedMax:
		return fail("%d + %d bytes of shared memory of %d", c.Shared, k.Shared, a.SharedMax)
	case c.Grid.X < 1 || c.Grid.X > 1<<31-1 || c.Grid.Y > 65535 || c.Grid.Z > 65535 || c.Grid.Y < 0 || c.Grid.Z < 0:
		return fail("grid %v", c.Grid)
	case volume(c.Cluster) > 16 || volume(c.Cluster) > 8 && a.CC >= 120 || volume(c.Cluster) > 1 && a.CC < 90:
		return fail("cluster %v", c.Cluster)
	case c.Grid.X%max(1, c.Cluster.X) != 0 || max(1, c.Grid.Y)%max(1, c.Cluster.Y) != 0:
		return fail("grid %v of clusters %v", c.Grid, c.Cluster)
	case c.Overlap && a.CC < 90:
		return fail("programmatic dependent launch")
	case (len(c.Args.Bytes)+align-1)/align*align != k.Parameter:
		return fail("arguments of %d bytes, the kernel takes %d", len(c.Args.Bytes), k.Parameter)
	}
	for _, m := range c.Args.Maps {
		size := m.Map.DType.Size()
		row := m.Map.BoxCols * size
		switch {
		case m.Map.Address%16 != 0 || m.Map.LD*size%16 != 0:
			return fail("a tensor map at %#x with rows %d bytes apart", m.Map.Address, m.Map.LD*size)
		case m.Map.BoxRows < 1 || m.Map.BoxRows > 256 || m.Map.BoxCols < 1 || m.Map.BoxCols > 256 || row%16 != 0:
			return fail("a box of %d × %d elements", m.Map.BoxRows, m.Map.BoxCols)
		case m.Map.Swizzle > 0 && row > m.Map.Swizzle:
			return fail("a box of rows of %d bytes, swizzled by %d", row, m.Map.Swizzle)
		}
	}
	return nil
}

// GPUs for most tests.
var (
	H200 = planning.Arch{CC: 90, SMs: 132, SharedMax: 227 << 10, L2: 60 << 20, ClockMHz: 1980, Bandwidth: 4800e9}
	H100 = planning.Arch{CC: 90, SMs: 132, SharedMax: 227 << 10, L2: 50 << 20, ClockMHz: 1980, Bandwidth: 3350e9}
	T4   = planning.Arch{CC: 75, SMs: 40, SharedMax: 64 << 10, L2: 4 << 20, ClockMHz: 1590, Bandwidth: 320e9}
)

// Normalized returns a product with all defaults filled in.
func Normalized(t testing.TB, m, n, k int, d kernels.DType) kernels.Task {
	t.Helper()
	p, err := kernels.Task{Subject: kernels.Product(d, n, k), M: m}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Unused reports kernels whose names begin with prefix that no plan launches: they only add to the executable's size. Names that
// begin with one of others are those of other families.
func Unused(t testing.TB, prefix string, used map[string]bool, others ...string) {
	t.Helper()
	all, err := artefacts.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(used) == 0 {
		t.Error("the family plans nothing")
	}
	for _, a := range all {
		for _, image := range a.Images {
			for _, k := range image.Kernels {
				other := slices.ContainsFunc(others, func(o string) bool { return strings.HasPrefix(k.Symbol, o) })
				if strings.HasPrefix(k.Symbol, prefix) && !other && !used[k.Symbol] {
					t.Errorf("%s: no plan launches %s", image.Arch, k.Symbol)
				}
			}
		}
	}
}

// Grouped returns a normalized grouped product in layout nk, for a kernel.
func Grouped(t interface{ Fatal(...any) }, kernel string, m int, dt kernels.DType, d kernels.Dims) kernels.Task {
	task, err := kernels.Task{M: m, Subject: kernels.Subject{
		Operation: kernels.GroupedGEMM, DType: dt, Layout: kernels.Transposed, Dims: d,
	}}.Grouped(kernel, 0)
	if err != nil {
		t.Fatal(err)
	}
	return task
}
