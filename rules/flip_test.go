package rules

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// flipping is a run of a card that changes between two states of memory every few samples: every row takes 209 us in one and 690 in
// the other, whatever its M, kernel and type. No rule is broken.
func flipping(seed uint64, ms []int, rounds int) infer.Data {
	rng := rand.New(rand.NewPCG(seed, 15))
	var d infer.Data
	for _, k := range []struct {
		kernel string
		dtype  kernels.DType
	}{{"a", kernels.BF16}, {"b", kernels.BF16}, {"a", kernels.FP16}} {
		d.Series = append(d.Series,
			results.Series{Key: results.SeriesKey{Device: "gpu", Kernel: k.kernel, Subject: kernels.Product(k.dtype, 6144, 4096)}})
	}
	type place struct{ series, row int }
	var order []place
	id := int64(0)
	for i := range d.Series {
		for k, m := range ms {
			id++
			d.Series[i].Rows = append(d.Series[i].Rows, results.Row{Case: results.Case{ID: id, SeriesKey: d.Series[i].Key, M: m}})
			order = append(order, place{i, k})
		}
	}
	seq, slow := int64(0), false
	for round := range rounds {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, at := range order {
			if rng.IntN(5) == 0 {
				slow = rng.IntN(3) == 0
			}
			us := 209.0
			if slow {
				us = 690
			}
			seq++
			row := &d.Series[at.series].Rows[at.row]
			row.Samples = append(row.Samples,
				results.Sample{CaseID: row.Case.ID, Round: round, Seq: seq, Launches: 1, US: us * math.Exp(0.006*rng.NormFloat64())})
		}
	}
	return d
}

// At most one run in twenty on a card that flips between two levels has a finding or a suspect.
func TestTwoLevelsBreakNoRule(t *testing.T) {
	seeds := uint64(40)
	for _, c := range []struct {
		name   string
		ms     []int
		rounds int
	}{
		{"11 samples", []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, 11},
		{"7 samples of many rows", synthetic.Grid(16, 512, 16), 7},
		{"4 samples", []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, 4},
		{"3 samples of many rows", synthetic.Grid(16, 512, 16), 3},
	} {
		broken := map[Rule]int{}
		for seed := range seeds {
			a, err := RunAudit(context.Background(), flipping(seed, c.ms, c.rounds), Default(), nil)
			if err != nil {
				t.Fatal(err)
			}
			in := map[Rule]bool{}
			for _, f := range a.Findings {
				in[f.Rule] = true
			}
			for r := range in {
				broken[r]++
			}
		}
		for _, r := range []Rule{Monotonic, SplitRule, Pad, Alternative, Parity} {
			if n := broken[r]; n > int(seeds)/20 {
				t.Errorf("%s: %s has findings in %d of %d runs", c.name, r, n, seeds)
			}
		}
	}
}
