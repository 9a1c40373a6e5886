//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

func init() { scenarios["constants"] = useConstants }

// keptEnv tells the child the folder of constants.
const keptEnv = "GEMMAUDIT_TEST_KEPT"

// useConstants measures a little, keeps constants by which other plans are picked, and opens the device again.
func useConstants() {
	ctx := context.Background()
	store := kept.Store{Dir: os.Getenv(keptEnv)}
	open := func() *Device {
		devices, _ := Provider{Calibration: store, Program: "v1"}.Open()
		return devices[0].(*Device)
	}
	d := open()
	tell := func(what string) {
		c := d.Constants()
		fmt.Printf("%s: measured %v, own %v, version %q, note %q\n", what, c.Measured, c.Own, d.Spec().Versions[calibrate.CalibrationVersion], c.Note)
	}
	product := kernels.Product(kernels.BF16, 4096, 4096)
	product.Layout = kernels.Transposed
	c := candidates.Case{Subject: product, M: 640}
	p := kernels.Problem{Shape: kernels.Shape{M: c.M, N: c.N, K: c.K}, DType: c.DType, BLayout: c.Layout}
	// bound is the plan that auto binds, which it remembers.
	bound := func() string {
		g := d.Gemms()[0]
		var buffers [3]kernels.Buffer
		for i := range buffers {
			b, err := d.Alloc(int64(p.N) * int64(p.K) * 2)
			report(err)
			buffers[i] = b
		}
		w, err := g.PrepareWeights(p, buffers[1])
		report(err)
		l, err := g.Bind(p, kernels.Operand{Buffer: buffers[0]}, w, kernels.Operand{Buffer: buffers[2]})
		report(err)
		label := l.Label()
		report(w.Close(), buffers[0].Close(), buffers[1].Close(), buffers[2].Close())
		return label
	}
	tell("at first")
	direct, err := d.MeasureDirectly(ctx, 0.01)
	report(err)
	fmt.Println("measured:", direct.Launch > 0, direct.Bandwidth > 0)
	times, err := d.TimePlans(ctx, c, calibrate.Picks{"hopper": {3, 1}, "mma": {0}}, 3, 1)
	report(err)
	for _, t := range times {
		fmt.Println("timed:", t.Family, t.Index, t.Seconds > 0)
	}
	before := bound()

	a := d.Arch()
	card, _, err := calibration.InForce(a.CC, a.SMs, a.Bandwidth)
	report(err)
	card.Card, card.Driver, card.Program, card.Date = d.Spec().Name, d.CardFacts("").Driver, "v1", "2026-11-23"
	card.Capability, card.SMs, card.Bandwidth = a.CC, a.SMs, a.Bandwidth
	for name, by := range map[string]float64{"shared_bytes": 0.2, "tile_cycles": 8, "port": 0.2, "cut": 0.1, "take": 0.1} {
		q := card.Models["hopper"].Constants[name]
		q.Value *= by
		card.Models["hopper"].Constants[name] = q
	}
	_, err = store.Save(card)
	report(err, d.UseConstants(string(card.Encode())))
	tell("used")
	after := bound()
	report(d.UseConstants(""))
	tell("as it ships")
	fmt.Println("another plan:", before != after, "the first one again:", bound() == before)
	report(d.Close())
	d = open()
	tell("opened again")
	fmt.Println("the second plan:", bound() == after)
	report(d.Close())
}

// TestConstants: a device tells by which constants it plans, plans by those that are put in force, and takes those that are
// kept when it is opened.
func TestConstants(t *testing.T) {
	out, _ := child(t, "constants", fakeDriver(t), "FAKE_CUDA_CAPABILITY=90", keptEnv+"="+t.TempDir())
	want := `at first: measured false, own false, version "", note ""
measured: true true
timed: hopper 3 true
timed: hopper 1 true
timed: mma 0 true
used: measured true, own true, version "measured 2026-11-23 ID", note ""
as it ships: measured false, own false, version "", note ""
another plan: true the first one again: true
opened again: measured true, own true, version "measured 2026-11-23 ID", note ""
the second plan: true
`
	for line := range strings.Lines(out) {
		if _, id, ok := strings.Cut(line, "measured 2026-11-23 "); ok {
			out = strings.ReplaceAll(out, id[:12], "ID")
		}
	}
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}
