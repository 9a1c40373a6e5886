//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

func init() { scenarios["candidates"] = measureSmallCandidates }

// measureSmallCandidates measures the candidates of small cases in three rounds and prints the file.
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
		times, err := timing.Plans(context.Background(), d, c, worthwhile, rand.New(rand.NewPCG(1, 1)), func() bool { rounds++; return rounds <= 3 })
		report(err, candidates.WriteTimes(&file, times))
	}
	fmt.Print(file.String())
	report(d.Close())
}

// TestMeasureCandidates: what is measured on a fake GPU is a file that a fit reads, with every
// family's candidates under the labels that plans have.
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
	for _, want := range []string{"gemm 8 hopper", "gemm 8 mma", "gemm 8 wmma", "gemm 8 gemv", "gemm 300 hopper", "gemm 300 mma", "gemm 300 wmma", "attention-prefill 300 flash", "attention-decode 300 decode"} {
		if got[want] == 0 {
			t.Errorf("no candidate of %s: %v", want, got)
		}
		delete(got, want)
	}
	if n := got["attention-decode 300 flash"]; len(got) > 1 || len(got) == 1 && n == 0 {
		t.Errorf("also %v", got)
	}
}

// Every family of products that chooses by constants of a card is measured. tiled chooses by
// constants of its own.
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
