package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// testArchs are GPUs of each capability: those that images are built for, one that runs
// an older minor's, and two that come after.
var testArchs = []arch{
	{cc: 75, sms: 40, sharedMax: 64 << 10, l2: 4 << 20, clockMHz: 1590, bandwidth: 320e9},
	{cc: 80, sms: 108, sharedMax: 163 << 10, l2: 40 << 20, clockMHz: 1410, bandwidth: 1555e9},
	{cc: 86, sms: 84, sharedMax: 99 << 10, l2: 6 << 20, clockMHz: 1860, bandwidth: 936e9},
	{cc: 87, sms: 16, sharedMax: 163 << 10, l2: 4 << 20, clockMHz: 1300, bandwidth: 204e9},
	{cc: 89, sms: 128, sharedMax: 99 << 10, l2: 72 << 20, clockMHz: 2520, bandwidth: 1008e9},
	{cc: 90, sms: 132, sharedMax: 227 << 10, l2: 60 << 20, clockMHz: 1980, bandwidth: 4800e9},
	{cc: 90, sms: 16, sharedMax: 227 << 10, l2: 8 << 20, clockMHz: 1980, bandwidth: 600e9},
	{cc: 100, sms: 148, sharedMax: 227 << 10, l2: 126 << 20, clockMHz: 1965, bandwidth: 8000e9},
	{cc: 120, sms: 170, sharedMax: 99 << 10, l2: 96 << 20, clockMHz: 2407, bandwidth: 1792e9},
}

// checkCall holds a launch against the image that a GPU would load and against its limits.
func checkCall(a arch, c call) error {
	k, err := findKernel(c.kernel, a.cc)
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("kernel %s on %d: %s", c.kernel, a.cc, fmt.Sprintf(format, args...))
	}
	volume := func(d dim3) int { return max(d.x, 1) * max(d.y, 1) * max(d.z, 1) }
	threads := volume(c.block)
	registers := (k.Registers + 7) / 8 * 8 * 32 * divideUp(threads, 32)
	align := 4
	if len(c.args.bytes) >= 8 {
		align = 8
	}
	if len(c.args.maps) > 0 {
		align = 64
	}
	switch {
	case threads > k.Threads:
		return fail("blocks of %d threads, bounds of %d", threads, k.Threads)
	case registers > 65536:
		return fail("%d threads of %d registers", threads, k.Registers)
	case c.shared+k.Shared > a.sharedMax:
		return fail("%d + %d bytes of shared memory of %d", c.shared, k.Shared, a.sharedMax)
	case c.grid.x < 1 || c.grid.x > 1<<31-1 || c.grid.y > 65535 || c.grid.z > 65535 || c.grid.y < 0 || c.grid.z < 0:
		return fail("grid %v", c.grid)
	case volume(c.cluster) > 8 || volume(c.cluster) > 1 && a.cc < 90:
		return fail("cluster %v", c.cluster)
	case c.grid.x%max(1, c.cluster.x) != 0 || max(1, c.grid.y)%max(1, c.cluster.y) != 0:
		return fail("grid %v of clusters %v", c.grid, c.cluster)
	case c.overlap && a.cc < 90:
		return fail("programmatic dependent launch")
	case (len(c.args.bytes)+align-1)/align*align != k.Parameter:
		return fail("arguments of %d bytes, the kernel takes %d", len(c.args.bytes), k.Parameter)
	}
	for _, m := range c.args.maps {
		size := m.m.dtype.Size()
		row := m.m.boxCols * size
		switch {
		case m.m.address%16 != 0 || m.m.ld*size%16 != 0:
			return fail("a tensor map at %#x with rows %d bytes apart", m.m.address, m.m.ld*size)
		case m.m.boxRows < 1 || m.m.boxRows > 256 || m.m.boxCols < 1 || m.m.boxCols > 256 || row%16 != 0:
			return fail("a box of %d × %d elements", m.m.boxRows, m.m.boxCols)
		case m.m.swizzle > 0 && row > m.m.swizzle:
			return fail("a box of rows of %d bytes, swizzled by %d", row, m.m.swizzle)
		}
	}
	return nil
}

// plannedProblems are small and large products of type d, with operands that are aligned
// to 16 bytes, to their elements, and in between.
func plannedProblems(t *testing.T, d kernels.DType) []gemmProblem {
	var out []gemmProblem
	extents := []int{1, 3, 8, 16, 17, 64, 100, 128, 256, 1000, 4096, 14336, 32768}
	for _, m := range append(extents[:len(extents):len(extents)], 190, 220) {
		for _, n := range extents {
			for _, k := range []int{1, 7, 64, 129, 4096, 14336} {
				for _, o := range []alignment{{16, 16}, {d.Size(), d.Output().Size()}, {16, 4}} {
					p := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: d}
					if o.a < 16 || k*d.Size()%16 != 0 {
						p.LDA, o.a = k+1, d.Size()
					}
					p, err := p.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, gemmProblem{p, o})
				}
			}
		}
	}
	return out
}

// TestPlannedLaunches: whatever a family plans for a problem that it supports, on any
// GPU, is in the embedded device code and within the limits of both.
func TestPlannedLaunches(t *testing.T) {
	const base = 1 << 32
	for _, f := range families {
		if f == nil {
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			used := map[string]bool{}
			check := func(a arch, p gemmProblem, planned gemmPlan) error {
				if planned.label == "" || planned.seconds <= 0 || planned.scratch < 0 || planned.flags < 0 {
					return fmt.Errorf("plan %+v", planned)
				}
				calls := planned.bind(addresses{
					a: base + uint64(16-p.aligned.a%16)%16, b: 2 * base, c: 3 * base, ldb: packedLDB(p.DType, p.K),
					scratch: 4 * base, flags: 5 * base,
				})
				if len(calls) == 0 {
					return errors.New("no launches")
				}
				for _, c := range calls {
					if err := checkCall(a, c); err != nil {
						return fmt.Errorf("%s: %w", planned.label, err)
					}
					used[c.kernel] = true
				}
				return nil
			}
			for _, d := range kernels.DTypes() {
				for i, p := range plannedProblems(t, d) {
					for _, a := range testArchs {
						if f.Supports(a, p) != "" {
							continue
						}
						plans := []gemmPlan{f.Plan(a, p)}
						// Of families that tell them, now and then all the plans they choose from.
						if c, ok := f.(chooser[gemmProblem, addresses]); ok && i%59 == 0 {
							plans = append(plans, c.Candidates(a, p)...)
						}
						for _, plan := range plans {
							if err := check(a, p, plan); err != nil {
								t.Fatalf("%d, %s, %v: %v", a.cc, d, p.Shape, err)
							}
						}
					}
				}
			}
			unused(t, "ga_"+f.Name()+"_", used)
		})
	}
}

// unused reports kernels that no plan launches: dead weight in every executable.
func unused(t *testing.T, prefix string, used map[string]bool) {
	t.Helper()
	all, err := artefacts()
	if err != nil {
		t.Fatal(err)
	}
	if len(used) == 0 {
		t.Error("the family plans nothing")
	}
	for _, a := range all {
		for _, image := range a.Images {
			for _, k := range image.Kernels {
				if strings.HasPrefix(k.Symbol, prefix) && !used[k.Symbol] {
					t.Errorf("%s: no plan launches %s", image.Arch, k.Symbol)
				}
			}
		}
	}
}

// TestSupportLaunches: the same for the launches around products.
func TestSupportLaunches(t *testing.T) {
	for _, a := range testArchs {
		var calls []call
		for _, d := range kernels.DTypes() {
			for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers, kernels.Zeros} {
				for _, n := range []int64{1, 1000, 1 << 33} {
					c, err := fillCall(a, 1<<32, n, d, dist, 1)
					if err != nil {
						t.Fatal(err)
					}
					calls = append(calls, c)
				}
			}
			for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
				for _, s := range []kernels.Shape{{M: 1, N: 1, K: 1}, {M: 1, N: 14336, K: 4096}, {M: 1, N: 300000, K: 70000}} {
					p, err := kernels.Problem{Shape: s, DType: d, BLayout: layout}.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					calls = append(calls, packCall(a, p, 1<<32, 1<<33))
				}
			}
		}
		for _, rows := range []int64{1, 7, 32768, 1 << 30} {
			for _, columns := range []int64{1, 100, 8192, 1 << 22} {
				calls = append(calls, realignCall(a, 1<<32+1, 1<<33, rows, columns, columns+3, (columns+15)/16*16))
			}
		}
		calls = append(calls, stampCall(a, 1<<32, 256), gateCall(1<<32, 1, 1e9, 1<<33),
			readCall(a, 1<<32, 1<<30, 1<<33), copyCall(a, 1<<32, 1<<33, 1<<30))
		if c, ok := readBulkCall(a, 1<<32, 1<<30, 1<<33); ok {
			calls = append(calls, c)
		} else if a.cc >= 90 && a.sharedMax > 200<<10 {
			t.Errorf("no bulk reads on %d", a.cc)
		}
		for _, c := range calls {
			if err := checkCall(a, c); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := fillCall(testArchs[0], 0, 1, kernels.INT32, kernels.Normal, 1); err == nil {
		t.Error("int32 was filled")
	}
	if _, err := fillCall(testArchs[0], 0, 1, kernels.FP32, "uniform", 1); err == nil {
		t.Error("an unknown distribution was filled")
	}
}
