//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
)

func init() {
	scenarios["reach"] = measureSmallReach
	scenarios["sustained"] = measureSmallSustained
	scenarios["sustained plans"] = measureSmallSustainedPlans
	scenarios["picks"] = measureSmallPicks
}

func measureSmallReach() {
	d := scenarioDevice()
	var all []reach.Product
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8, kernels.FP8} {
		for _, m := range []int{3, 1030} {
			all = append(all, reach.Product{DType: dt, N: 64, K: 64, M: m, Set: reach.Named})
		}
	}
	bench := newReachBench(d, reach.Machine{Peak: 1e11, Bandwidth: 1e10})
	bench.past = 3 * 64 * 64
	h, rows, err := measureReach(bench, all, reachSettings{budget: time.Second, seed: 7}, time.Now())
	var file bytes.Buffer
	report(err, reach.Write(&file, h, rows))
	fmt.Print(file.String())
	report(d.Close())
}

func measureSmallSustained() {
	d := scenarioDevice()
	bench := newReachBench(d, reach.Machine{Peak: 1e11, Bandwidth: 1e10})
	bench.past = 1
	p := reach.Product{DType: kernels.BF16, N: 64, K: 64, M: 3, Set: reach.Named}
	all, err := measureSustained(bench, []reach.Job{{Product: p, Series: []reach.Series{reach.Auto, reach.Blas}}}, 1e-3, 2e-3)
	report(err, reach.PrintSustained(os.Stdout, all), d.Close())
}

func measureSmallSustainedPlans() {
	d := scenarioDevice().(*Device)
	product := kernels.Product(kernels.BF16, 256, 512)
	product.Layout = kernels.Transposed
	all, err := sustainPlans(context.Background(), d, candidates.Case{Subject: product, M: 300}, 1e-3, 1e-3, 2e-3,
		rand.New(rand.NewPCG(1, 1)))
	report(err, json.NewEncoder(os.Stdout).Encode(all), d.Close())
}

func measureSmallPicks() {
	d := scenarioDevice().(*Device)
	rng := rand.New(rand.NewPCG(1, 1))
	product := kernels.Product(kernels.BF16, 256, 512)
	product.Layout = kernels.Transposed
	load, err := bindPicked(context.Background(), d.Device, candidates.Case{Subject: product, M: 300})
	report(err)
	var picks []Pick
	for _, m := range []int{4, 200} {
		p, err := measurePick(d.Device, candidates.Case{Subject: product, M: m}, load, rng)
		report(err)
		picks = append(picks, p)
	}
	printPicks(os.Stdout, picks)
	report(load.Close(), d.Close())
}

func TestMeasureSustained(t *testing.T) {
	out, _ := child(t, "sustained", fakeDriver(t), cublas.Env+"="+fakeBLAS(t, t.TempDir()), "FAKE_CUDA_CAPABILITY=90")
	if !strings.Contains(out, "sustained bf16 m3 n64 k64") || !strings.Contains(out, "sustained 1 products") ||
		strings.Contains(out, "error") {
		t.Error(out)
	}
}

// Each tile has one plan, near the fastest, with a time.
func TestMeasureSustainedPlans(t *testing.T) {
	out, _ := child(t, "sustained plans", fakeDriver(t), "FAKE_CUDA_CAPABILITY=90")
	line, _, _ := strings.Cut(out, "\n")
	var all []sustainedPlan
	if err := json.Unmarshal([]byte(line), &all); err != nil || strings.Contains(out, "error") {
		t.Fatalf("%v\n%s", err, out)
	}
	tiles := map[string]bool{}
	least := math.Inf(1)
	for _, p := range all {
		least = min(least, p.Expected)
	}
	for _, p := range all {
		tile, _, _ := strings.Cut(p.Label, " split ")
		if tiles[tile] || p.Seconds <= 0 || p.Busy <= 0 || p.Expected > nearPlan*least {
			t.Errorf("%s: %g s, %g expected beside a fastest of %g, busy %g", p.Label, p.Seconds, p.Expected, least, p.Busy)
		}
		tiles[tile] = true
	}
	if len(all) < 2 {
		t.Error(out)
	}
}

func TestMeasurePicks(t *testing.T) {
	out, _ := child(t, "picks", fakeDriver(t), "FAKE_CUDA_CAPABILITY=90")
	if !strings.Contains(out, "picks all   2 cases: 100.0 % within 1 %") || !strings.Contains(out, "gemm bf16 n256 k512 nk m200") ||
		strings.Contains(out, "error") {
		t.Error(out)
	}
}

func TestEnergySteps(t *testing.T) {
	e, began := &energySteps{}, time.Now()
	for i, mj := range []float64{70, 70, 100, 100, 150, 150, 200, 200} {
		e.add(mj, began.Add(time.Duration(i)*10*time.Millisecond))
	}
	if got := e.watts(); math.Abs(got-100/40.) > 1e-9 {
		t.Errorf("%v W, expected 2.5", got)
	}
	if got := (&energySteps{}).watts(); got != 0 {
		t.Errorf("%v W without a counter", got)
	}
}

func TestMeasureReach(t *testing.T) {
	out, errs := child(t, "reach", fakeDriver(t), cublas.Env+"="+fakeBLAS(t, t.TempDir()), "FAKE_CUDA_CAPABILITY=90", "FAKE_CUBLAS_TRACE=1")
	h, rows, err := reach.Read(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if h.Card != "Fake GPU 0" || h.Seed != 7 || h.Share != 1 {
		t.Errorf("header %+v", h)
	}
	samples := map[string]int{}
	for _, r := range rows {
		samples[fmt.Sprint(r.DType, " ", r.M, " ", r.Series)] = len(r.Samples)
	}
	for _, want := range []string{
		"bf16 3 auto", "bf16 3 auto, no overlap", "bf16 3 cublas", "bf16 3 cublaslt", "bf16 3 cublas kn", "bf16 3 cublaslt kn",
		"fp16 1030 cublas kn",
		"int8 3 auto", "int8 1030 cublaslt", "fp8 1030 auto", "fp8 1030 cublaslt", "fp8 1030 cublaslt, fast accumulation",
	} {
		if samples[want] < leastReachRounds {
			t.Errorf("%s has %d samples", want, samples[want])
		}
	}
	if n := samples["bf16 1030 auto, no overlap"]; n != 0 {
		t.Errorf("a long product was measured without overlap %d times", n)
	}
	for _, want := range []string{"types 28 14 68 scale 0 fast 1", "types 28 14 68 scale 0 fast 0"} {
		if !strings.Contains(errs, want) {
			t.Errorf("nothing was asked for with %q", want)
		}
	}
	var table strings.Builder
	if err := reach.Print(&table, h, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"reach bf16 named nk", "reach fp16 named kn", "reach bf16 named no overlap", "reach int8 named cublaslt ",
		"reach fp8  named cublaslt fast", "reach fp8  named cublaslt slow"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no line %q in\n%s", want, table.String())
		}
	}
}
