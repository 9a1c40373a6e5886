package attention

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestPlansTellTheirTilings(t *testing.T) {
	seen := map[string]int{}
	for _, a := range cudatest.Archs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			for _, p := range attentionProblems(t, d) {
				for _, f := range attentionFamilies {
					for _, way := range cudatest.Ways(a, f, p) {
						seen[f.Name()]++
						plan := way.Plan(a, p)
						l := plan.Tiling
						if err := l.Validate(); err != nil || !l.Tiled() || l.Tile[2] < 1 || l.Waves <= 0 || l.Split < 1 ||
							l.Orientation != "" {
							t.Fatalf("%d, %s, %s %s: %+v does not tell all: %v", a.CC, d, f.Name(), plan.Label, l, err)
						}
						if l.Tile[1]%p.heads.Dim != 0 {
							t.Fatalf("%d, %s, %s %s: %+v cuts heads of %d", a.CC, d, f.Name(), plan.Label, l, p.heads.Dim)
						}
						blocks := planning.DivideUp(p.rows, l.Tile[0]) * planning.DivideUp(p.heads.Query*p.heads.Dim, l.Tile[1]) * l.Split
						grid := plan.Bind(Addresses{q: 1 << 20, keys: 2 << 20, values: 3 << 20, out: 4 << 20})[0].Grid.Blocks()
						persistent := f.Name() != "decode" && l.Waves > 1
						if f.Name() == "decode" && p.heads.Query/p.heads.KV*p.heads.Dim%l.Tile[1] != 0 {
							continue // the blocks of a group have unequal heads
						}
						if grid != blocks && !(persistent && grid < blocks) {
							t.Fatalf("%d, %s, %s %s: %+v of %d rows and %d heads make %d blocks, the grid has %d", a.CC, d, f.Name(),
								plan.Label, l, p.rows, p.heads.Query, blocks, grid)
						}
					}
				}
			}
		}
	}
	for _, f := range attentionFamilies {
		if seen[f.Name()] == 0 {
			t.Errorf("%s planned nothing", f.Name())
		}
	}
}
