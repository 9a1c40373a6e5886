package simulated

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func TestChoices(t *testing.T) {
	for _, cfg := range []MachineConfig{{Seed: 1, Switches: true, Depths: []float64{0.2}}, {Seed: 2, Waves: true}} {
		d := newMachine(t, cfg).Open(Session{})
		tellers := kerneltest.Tellers(d, 0)
		if len(tellers) != 2 {
			t.Fatalf("%d kernels say what they would run", len(tellers))
		}
		labels := map[string]bool{}
		for _, g := range tellers {
			for _, m := range append([]int{1, 33}, grid...) {
				p := kernels.Task{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: m}
				if err := kerneltest.CheckChoice(t.Context(), d, g, p); err != nil {
					t.Error(err)
				}
				c, err := g.Choice(p)
				if err != nil {
					t.Fatal(err)
				}
				labels[c.Label] = true
				if tiled := c.Tiled(); cfg.Waves && g.Name() == Library && !tiled {
					t.Errorf("m%d: the library tells no tile", m)
				}
			}
		}
		if cfg.Switches && len(labels) < 4 {
			t.Errorf("a heuristic tells %d algorithms", len(labels))
		}
	}
}
