//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

func init() { scenarios["candidates"] = measureSmallCandidates }

func measureSmallCandidates() {
	devices, _ := Provider{}.Open()
	d := devices[0].(*Device).Device
	var file bytes.Buffer
	report(candidates.WriteCard(&file, timing.Describe(d, "2026-11-22")))
	product := kernels.Product(kernels.BF16, 256, 512)
	product.Layout = kernels.Transposed
	heads := kernels.Dims{QueryHeads: 8, KVHeads: 2, HeadDim: 128}
	for _, c := range []candidates.Case{
		{Subject: product, M: 8},
		{Subject: product, M: 300},
		{Subject: kernels.Subject{Operation: kernels.AttentionPrefill, DType: kernels.FP16, Dims: heads}, M: 300},
		{Subject: kernels.Subject{Operation: kernels.AttentionDecode, DType: kernels.BF16, Dims: heads}, M: 300},
	} {
		rounds := 0
		which := timing.Which(worthwhile)
		if c.M == 300 {
			var err error
			which, err = thinned(d.Arch(), c, 1)
			report(err)
		}
		times, err := timing.Plans(context.Background(), d, c, which, rand.New(rand.NewPCG(1, 1)),
			func() bool { rounds++; return rounds <= 3 })
		report(err, candidates.WriteTimes(&file, times))
	}
	fmt.Print(file.String())
	report(d.Close())
}

func TestMeasureCandidates(t *testing.T) {
	out, _ := child(t, "candidates", fakeDriver(t), "FAKE_CUDA_CAPABILITY=90")
	card, times, err := candidates.Read(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if card.Card != "Fake GPU 0" || card.Capability != 90 || card.Driver == "" || card.Date != "2026-11-22" {
		t.Errorf("card %+v", card)
	}
	got := map[string]int{}
	for _, x := range times {
		expected, err := candidates.Expect(card.Arch(), x.Case, x.Family)
		if err != nil {
			t.Fatal(err)
		}
		if x.Index >= len(expected) || expected[x.Index].Label != x.Label {
			t.Errorf("%v: candidate %d of %s is not %q", x.Case, x.Index, x.Family, x.Label)
			continue
		}
		got[fmt.Sprint(x.Operation, " ", x.M, " ", x.Family)]++
	}
	for _, want := range []string{"gemm 8 hopper", "gemm 8 mma", "gemm 8 wmma", "gemm 8 gemv", "gemm 300 hopper", "gemm 300 mma",
		"gemm 300 wmma", "attention-prefill 300 flash", "attention-decode 300 decode"} {
		if got[want] == 0 {
			t.Errorf("no candidate of %s: %v", want, got)
		}
		delete(got, want)
	}
	if n := got["attention-decode 300 flash"]; len(got) > 1 || len(got) == 1 && n == 0 {
		t.Errorf("also %v", got)
	}
}

func TestTurns(t *testing.T) {
	cases, end := newTurns(3)
	defer end()
	seen := map[candidates.Case]bool{}
	for range 300 {
		c, spent, ok := cases.next()
		if !ok || seen[c] {
			t.Fatalf("%v: there before: %v, another: %v", c, seen[c], ok)
		}
		seen[c] = true
		took := time.Second
		if cases.onGrid[c] != (spent == &cases.spent[0]) {
			t.Fatalf("%v counts as the other kind", c)
		}
		if cases.onGrid[c] {
			took = 3 * time.Second
		}
		*spent += took
	}
	if apart := cases.spent[0] - cases.spent[1]; apart.Abs() > 3*time.Second || cases.spent[0] < 200*time.Second {
		t.Errorf("%v on the grid and drawn", cases.spent)
	}
	plain, end := newTurns(0)
	defer end()
	for _, want := range candidates.Grid(1) {
		if c, _, ok := plain.next(); !ok || c != want {
			t.Fatalf("%v, %v, expected %v", c, ok, want)
		}
	}
	if c, _, ok := plain.next(); ok {
		t.Errorf("%v comes after the grid", c)
	}
}

func TestThinned(t *testing.T) {
	cases, surprises, left := 0, 0, 0
	for c := range candidates.Drawn(7) {
		if cases++; cases > 20 {
			break
		}
		is, err := thinned(cudatest.H200, c, 7)
		again, err2 := thinned(cudatest.H200, c, 7)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		best, families := math.Inf(1), [][]candidates.Expected{}
		for _, f := range candidates.Families(c.Operation) {
			all, err := candidates.Expect(cudatest.H200, c, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range all {
				best = min(best, e.Seconds)
			}
			families = append(families, all)
		}
		for _, all := range families {
			least, expected := math.Inf(1), []float64{}
			for _, e := range all {
				least, expected = min(least, e.Seconds), append(expected, e.Seconds)
			}
			if len(all) == 0 {
				continue
			}
			which, same := is("", expected), again("", expected)
			if !slices.Equal(which, same) {
				t.Fatalf("%v: two draws measure %v and %v", c, which, same)
			}
			for i, e := range all {
				measured := slices.Contains(which, i)
				switch surprise := e.Seconds > promising*best && e.Seconds > least; {
				case !surprise && !measured:
					t.Errorf("%v: %s is not measured", c, e.Label)
				case surprise && measured && e.Seconds > farBehind*best:
					t.Errorf("%v: %s is measured, %g of the best", c, e.Label, e.Seconds/best)
				case surprise && measured:
					surprises++
				case surprise && e.Seconds <= farBehind*best:
					left++
				}
			}
		}
	}
	if share := float64(surprises) / float64(surprises+left); surprises < 20 || math.Abs(share*surpriseOf-1) > 0.4 {
		t.Errorf("%d of %d slow ones are measured, expected one of %d", surprises, surprises+left, surpriseOf)
	}
}

// Every family of products that uses a card's constants is measured. Package tiled has its own constants.
func TestChoosersAreMeasured(t *testing.T) {
	var choose []string
	for _, f := range families {
		if _, ok := f.(planning.Chooser[gemm.Problem, gemm.Addresses]); ok && f.Name() != "tiled" {
			choose = append(choose, f.Name())
		}
	}
	measured := candidates.Families(kernels.GEMM)
	slices.Sort(choose)
	slices.Sort(measured)
	if !slices.Equal(measured, choose) {
		t.Errorf("%v are measured, %v choose", measured, choose)
	}
}
