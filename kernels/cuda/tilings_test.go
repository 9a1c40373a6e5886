package cuda

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// TestPlansTellTheirTilings compares the tiling of every plan with its label and its launch.
func TestPlansTellTheirTilings(t *testing.T) {
	sides := regexp.MustCompile(`^(?:narrow )?(\d+)x(\d+)`)
	seen := map[string]int{}
	// Each way is looked at on some of the GPUs, types and shapes.
	turn, every := 0, 4
	if testing.Short() {
		every = 8
	}
	for _, a := range cudatest.Archs {
		for _, d := range kernels.DTypes() {
			for _, s := range []kernels.Shape{{M: 1, N: 14336, K: 4096}, {M: 5, N: 4096, K: 4096}, {M: 64, N: 130, K: 32768},
				{M: 1000, N: 1000, K: 1000}, {M: 4097, N: 6144, K: 4096}} {
				p, err := kernels.Task{Subject: kernels.Product(d, s.N, s.K), M: s.M}.Normalized()
				if err != nil {
					t.Fatal(err)
				}
				q := gemm.Problem{Task: p, Aligned: gemm.Alignment{A: 16, C: 16}}
				turn++
				for _, f := range families {
					for i, way := range cudatest.Ways(a, f, q) {
						if (i+turn)%every > 0 {
							continue
						}
						plan := way.Plan(a, q)
						seen[f.Name()]++
						checkTiling(t, a, q, f.Name(), plan, sides)
					}
				}
			}
		}
	}
	for _, f := range families {
		if seen[f.Name()] == 0 {
			t.Errorf("%s planned nothing", f.Name())
		}
	}
}

func checkTiling(t *testing.T, a planning.Arch, p gemm.Problem, family string, plan gemm.Plan, sides *regexp.Regexp) {
	t.Helper()
	l := plan.Tiling
	fail := func(what string) {
		t.Errorf("%d, %s %v, %s %s: %+v: %s", a.CC, p.DType, p.Shape(), family, plan.Label, l, what)
	}
	if err := l.Validate(); err != nil || !l.Tiled() || l.Tile[2] < 1 || l.Waves <= 0 || l.Split < 1 {
		fail("not all of it is told")
	}
	if m := sides.FindStringSubmatch(plan.Label); m != nil {
		if _, read := kernels.ReadLabel(plan.Label); read.Tiled() && [2]int(read.Tile[:2]) != [2]int(l.Tile[:2]) {
			fail("the label has other sides")
		}
	} else if family != "gemv" {
		fail("the label has no sides")
	}
	if cut := strings.Contains(plan.Label, "split"); cut != (l.Split > 1) {
		fail("the label says otherwise of parts of K")
	}
	calls := plan.Bind(gemm.Addresses{A: 1 << 20, B: 2 << 20, C: 3 << 20, LDB: p.K, Scratch: 4 << 20, Flags: 5 << 20})
	grid := calls[len(calls)-1].Grid.Blocks()
	tiles := planning.DivideUp(p.M, l.Tile[0]) * planning.DivideUp(p.N, l.Tile[1])
	if family == "hopper" { // its blocks are persistent
		if l.Waves <= 1 && l.Split == 1 && grid < tiles {
			fail("more than one wave")
		}
	} else if grid != tiles*l.Split {
		fail("the grid has other tiles")
	}
	if perSM := float64(grid) / l.Waves / float64(a.SMs); family != "hopper" &&
		(perSM < 0.99 || perSM > 32 || math.Abs(perSM-math.Round(perSM)) > 1e-9) {
		t.Errorf("%d, %s %v, %s %s: %g blocks run on a multiprocessor", a.CC, p.DType, p.Shape(), family, plan.Label, perSM)
	}
}
