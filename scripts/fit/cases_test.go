package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// Card files have the encoder's format, so a new fit changes only numbers. This program imports all their
// models.
func TestCardsAreAsEncoded(t *testing.T) {
	files, err := filepath.Glob("../../kernels/cuda/calibration/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := calibration.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if *update {
			if err := os.WriteFile(file, encode(c), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(string(text), string(encode(c))); diff != "" {
			t.Errorf("%s is not as it is encoded (-file +encoded):\n%s", file, diff)
		}
		for name, m := range c.Models {
			if !slices.Contains(calibration.Names(), name) || len(m.Constants) == 0 {
				t.Errorf("%s: nothing reads model %s", file, name)
			}
		}
	}
}

// A label names one plan of a family: the fit finds plans by it.
func TestLabelsAreUnique(t *testing.T) {
	chosen := map[string]int{}
	for _, c := range grid(1)[:60] {
		for _, f := range familiesFor(c.Subject) {
			all, err := plans(cudatest.H200, c, f)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, p := range all {
				if p.label == "" || seen[p.label] || !(p.seconds > 0) {
					t.Errorf("%v: plan %+v of %s, labels before it: %v", c, p, f, seen[p.label])
				}
				seen[p.label] = true
			}
			if len(all) > 1 {
				chosen[f]++
			}
		}
	}
	for _, o := range []kernels.Operation{kernels.GEMM, kernels.AttentionDecode} {
		for _, f := range familiesFor(kernels.Subject{Operation: o}) {
			if chosen[f] < 2 {
				t.Errorf("%s chooses in %d cases", f, chosen[f])
			}
		}
	}
}

// Each constant affects the expected time of some case. Exceptions are types that the grid lacks, unaligned
// operands, weights that end within a tile, and prompts so short that they are memory-bound.
func TestGridTouchesConstants(t *testing.T) {
	if testing.Short() {
		t.Skip("each constant of a card is changed in turn")
	}
	expected := func(c *calibration.Card) []float64 {
		restore, err := calibration.Try(c)
		if err != nil {
			t.Fatal(err)
		}
		defer restore()
		var all []float64
		for _, c := range grid(1)[:40] {
			for _, f := range familiesFor(c.Subject) {
				some, err := plans(cudatest.H200, c, f)
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range some {
					all = append(all, p.seconds)
				}
			}
		}
		return all
	}
	cards := calibration.Cards()
	before := expected(cards[0])
	var still []string
	for name, m := range cards[0].Models {
		for constant := range m.Constants {
			c := cards[0].Clone()
			scale(c, name, constant, 0.5)
			if slices.Equal(before, expected(c)) {
				still = append(still, name+" "+constant)
			}
		}
	}
	slices.Sort(still)
	if want := []string{"attention memory", "gemv issue", "hopper absent_weights", "hopper elements", "hopper energy",
		"hopper energy_beside", "hopper energy_cut", "hopper energy_reads"}; !slices.Equal(still, want) {
		t.Errorf("the grid says nothing of %q, expected nothing only of %q", still, want)
	}
}

func TestPlansRefuse(t *testing.T) {
	product := sized{kernels.Product(kernels.BF16, 4096, 4096), 9}
	for _, c := range []struct {
		change       func(*sized)
		family, want string
	}{
		{func(c *sized) { c.N = 0 }, "hopper", "N is 0, expected at least 1"},
		{func(*sized) {}, "tiled", `no family "tiled" chooses by constants of a card`},
		{func(*sized) {}, "flash", `no family "flash" chooses by constants of a card`},
		{func(c *sized) {
			c.Subject = kernels.Subject{Operation: kernels.AttentionDecode, DType: kernels.INT8,
				Dims: kernels.Dims{QueryHeads: 1, KVHeads: 1, HeadDim: 64}}
		}, "decode", `dtype: "int8", expected fp32, fp16 or bf16`},
	} {
		one := product
		c.change(&one)
		if _, err := plans(cudatest.H200, one, c.family); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v by %s: %v, want %s", one, c.family, err, c.want)
		}
	}
	if all, err := plans(cudatest.H200, product, "gemv"); err != nil || all != nil {
		t.Errorf("gemv of 9 rows: %v, %v", all, err)
	}
}

// Encoded files decode to the same card.
func TestEncode(t *testing.T) {
	in := func(value float64, unit string) calibration.Quantity {
		return calibration.Quantity{Value: value, Unit: unit}
	}
	c := &calibration.Card{Format: calibration.Format, Card: "NVIDIA T4", Capability: 75, SMs: 40, Bandwidth: 3.2e11, Driver: "550.54",
		Date: "2026-01-02", Models: map[string]calibration.Model{
			"gemv":  {FittedTo: "nothing", Constants: map[string]calibration.Quantity{"start": in(2e-6, "s"), "rate": in(3e11, "B/s")}},
			"flash": {FittedTo: `"<&>" ÷ 2`, Constants: map[string]calibration.Quantity{"b": in(1e22, "1"), "a": in(0.25, "cycles")}},
		}}
	const want = `{
 "format": 1,
 "card": "NVIDIA T4",
 "capability": 75,
 "sms": 40,
 "bandwidth": 3.2e+11,
 "driver": "550.54",
 "date": "2026-01-02",
 "models": {
  "flash": {
   "fitted_to": "\"<&>\" ÷ 2",
   "constants": {
    "a": {"value": 0.25, "unit": "cycles"},
    "b": {"value": 1e+22, "unit": "1"}
   }
  },
  "gemv": {
   "fitted_to": "nothing",
   "constants": {
    "rate": {"value": 3e+11, "unit": "B/s"},
    "start": {"value": 2e-06, "unit": "s"}
   }
  }
 }
}
`
	got := string(encode(c))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if again, err := calibration.Parse([]byte(got)); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}
