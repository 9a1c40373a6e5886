package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

//docs:begin operation

// outerSum adds every element of a stored table to every element of a row: Out[m,l,r] = In[m,l] + Table[r].
var outerSum = kernels.Definition{
	Name: "outer-sum", Title: "outer sum", Swept: "rows", Operand: "table",
	Dims: []kernels.Dim{dimLeft, dimRight}, Along: []kernels.Dim{dimLeft, dimRight},
	FLOPs:  func(s kernels.Subject, m float64) float64 { return m * float64(s.Hidden) * float64(s.Inner) },
	Input:  func(s kernels.Subject, m float64) float64 { return m * float64(s.Hidden) },
	Output: func(s kernels.Subject, m float64) float64 { return m * float64(s.Hidden) * float64(s.Inner) },
	Stored: func(s kernels.Subject, _ float64) float64 { return float64(s.Inner * s.DType.Bits()) },
	Pads:   kernels.Subject.OverM, Divides: kernels.Subject.OverM,
	MFU:    "MFU of an outer sum is the achieved bandwidth divided by the read bandwidth.",
	Probes: []kernels.Dims{{Hidden: 64, Inner: 64}}, Ladder: map[string]string{"exact": "it computes in Go"},
	Reference: outerSums, Cases: outerSumCases, Faults: outerSumFaults,
}

//docs:end

var (
	dimLeft  = kernels.Dim{Name: "left", Short: "l", In: func(d *kernels.Dims) *int { return &d.Hidden }}
	dimRight = kernels.Dim{Name: "right", Short: "r", In: func(d *kernels.Dims) *int { return &d.Inner }}
)

// outerSums is the exact output with the error of one rounding.
func outerSums(t kernels.Task, in, table []float64) (want, bound []float64) {
	for _, x := range in {
		for _, y := range table {
			want, bound = append(want, x+y), append(bound, t.OutputType().UnitRoundoff()*math.Abs(x+y)+1e-38)
		}
	}
	return want, bound
}

func outerSumCases(dt kernels.DType) []kernels.Task {
	var out []kernels.Task
	for _, sizes := range [][3]int{{1, 1, 1}, {3, 5, 7}, {17, 33, 16}} {
		of := kernels.Dims{Hidden: sizes[1], Inner: sizes[2]}
		out = append(out, kernels.Task{Subject: kernels.Subject{DType: dt, Dims: of}, M: sizes[0]})
	}
	return out
}

var outerSumFaults = []kernels.Fault{
	{Name: "last element off by a thousandth", Inject: func(_ kernels.Task, out []float64) { out[len(out)-1] *= 1.001 }},
	{Name: "table shifted by one", Inject: func(t kernels.Task, out []float64) {
		for row := 0; row < len(out); row += t.Inner {
			copy(out[row:], append(out[row+1:row+t.Inner:row+t.Inner], out[row]))
		}
	}},
}

// outerSumDevice has kernels that take time: two are slow from M 96 to 128. The others compute: one is right, and one
// has each fault.
func outerSumDevice(o kernels.Operation) *simulated.Device {
	cost := func(t kernels.Task) float64 { return 2e-6 + t.Bytes(t.M)/90e9 }
	fp32 := []kernels.DType{kernels.FP32}
	all := []simulated.KernelConfig{
		{Name: "dented", DTypes: fp32, Cost: simulated.Slow(cost, 96, 128, 1.3)},
		{Name: "steep", DTypes: fp32, Cost: simulated.Slow(cost, 96, 128, 3)},
		{Name: "flat", DTypes: fp32, Cost: cost},
		{Name: "exact", DTypes: fp32, Cost: cost, Arithmetic: true},
	}
	for i, f := range outerSum.Faults {
		all = append(all, simulated.KernelConfig{Name: string(rune('a' + i)), DTypes: fp32, Cost: cost, Arithmetic: true, Fault: f})
	}
	return simulated.New(simulated.Config{
		Seed: 1, Noise: simulated.Disturbances{Sigma: 0.01}, LastLevelCacheBytes: 64 << 10, HostOverhead: 100 * time.Microsecond,
		Kernels: map[kernels.Operation][]simulated.KernelConfig{o: all},
	})
}

// A made-up operation goes through every command. Nothing but this file defines it.
func TestFixtureOperation(t *testing.T) {
	o, undefine := kernels.Define(outerSum)
	t.Cleanup(undefine)
	t.Chdir(t.TempDir())
	plan := "--op outer-sum --shape l256r64 --batch 16:256:8 --kernel dented,flat --dtype fp32 --rounds 9"
	steps := []step{
		{"devices", 0, []string{`dented`}},
		{"selftest --noise=false --kernel outer-sum:exact --dtype fp32", 0, []string{`outer-sum:exact`}},
		{"selftest --noise=false --kernel outer-sum:flat --dtype fp32", 1, []string{`unwritten`}},
		{"sweep --op outer-sum --shape l256r64 --dtype fp32 --dry-run", 0,
			[]string{`sim/flat/outer-sum/fp32 l256 r64`, `it computes in Go`}},
		{"sweep --out run.db " + plan, 0, []string{`sim/dented/outer-sum/fp32 l256 r64 +31 `}},
		{"audit run.db --confirm -o wide", 1, []string{`confirmed +monotonic +sim/dented/outer-sum/fp32 l256 r64 +96-128 `}},
		{"audit run.db -o json", 1, []string{`"operation": "outer-sum"`, `--op outer-sum --dtype fp32 --shape l256r64 --batch`}},
		{"sweep --out dented.db " + strings.Replace(plan, ",flat", "", 1), 0, nil},
		{"splits dented.db", 0, []string{` 96  \d+\+\d+`}},
		{"sweep --out steep.db " + strings.Replace(plan, "dented,flat", "steep", 1), 0, nil},
		{"splits steep.db", 0, []string{`pad to 136`}},
		{"report run.db --out page --images svg", 0, nil},
		{"export run.db --format csv --out run.csv", 0, nil},
		{"import run.csv --out again.db", 0, nil},
		{"diff run.db again.db", 0, nil},
		{"sweep --out along.db --op outer-sum --shape l64:512:8r64 --batch 16 --kernel flat --dtype fp32 --rounds 9", 0, nil},
		{"audit along.db --along left", 0, []string{`m16 r64 along left`}},
		{"choices --op outer-sum --shape l256r64 --batch 16 --kernel flat --dtype fp32", 4, []string{`no interface`}},
		{"explain run.db 1", 0, []string{`outer-sum`}},
		{"run --out all " + plan, 1, []string{`l256 r64`}},
	}
	for i := range outerSumFaults {
		gate := "selftest --noise=false --dtype fp32 --kernel outer-sum:" + string(rune('a'+i))
		steps = append(steps, step{gate, 1, []string{`accuracy`}})
	}
	runSteps(t, outerSumDevice(o), steps)
	if page, err := os.ReadFile(filepath.Join("page", "index.html")); err != nil || !strings.Contains(string(page), outerSum.MFU) {
		t.Errorf("the report does not say %q: %v", outerSum.MFU, err)
	}
}
