package diff

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func twoKernels(a, b func(int) float64) infer.Data {
	data := sweepOf(a, 0.01, 1, simMeta(nil))
	other := sweepOf(b, 0.01, 2, simMeta(nil))
	last := int64(0)
	for i := range data.Series {
		data.Series[i].Key.Kernel = "lib@1"
		for k := range data.Series[i].Rows {
			last = max(last, data.Series[i].Rows[k].Case.ID)
			data.Series[i].Rows[k].Case.Kernel = "lib@1"
		}
	}
	for _, s := range other.Series {
		s.Key.Kernel = "lib@2"
		s.Rows = slices.Clone(s.Rows)
		for k := range s.Rows {
			row := &s.Rows[k]
			row.Case.Kernel = "lib@2"
			row.Case.ID += last + 1
			row.Samples = slices.Clone(row.Samples)
			for j := range row.Samples {
				row.Samples[j].CaseID = row.Case.ID
			}
		}
		data.Series = append(data.Series, s)
	}
	data.Name = "two.db"
	return data
}

func TestDiffKernels(t *testing.T) {
	linear := func(m int) float64 { return 20 + 0.5*float64(m) }
	// Slower by a tenth at some M, faster by a tenth at others: as scatter between runs, this would make
	// every case undecided.
	zigzag := func(m int) float64 {
		if m%8 == 0 {
			return linear(m) * 1.1
		}
		return linear(m) / 1.1
	}
	cfg := rules.Default()
	d, err := CompareKernels(twoKernels(linear, zigzag), "lib@1", "lib@2", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d.A != "lib@1" || d.B != "lib@2" || d.Run != "two.db" || d.Confounded != "" ||
		!slices.Equal(d.Factors, []results.FactorDiff{{Name: "kernel", A: "lib@1", B: "lib@2"}}) {
		t.Errorf("heads: %q, %q, %q, %v", d.A, d.B, d.Run, d.Factors)
	}
	if n := len(d.Cases); n != 256 || d.Slower < 120 || d.Faster < 120 || d.OnlyA+d.OnlyB != 0 || !d.Gate {
		t.Errorf("%d cases, %d slower, %d faster, gate %v", n, d.Slower, d.Faster, d.Gate)
	}
	for _, c := range d.Cases {
		if c.Series.Kernel != "lib@2" || c.Change == change.Slower && c.M%8 != 0 || c.Change == change.Faster && c.M%8 == 0 {
			t.Errorf("m%d of %v is %s: %+v", c.M, c.Series, c.Change, c.Ratio)
		}
	}
	back, err := CompareKernels(twoKernels(linear, zigzag), "lib@2", "lib@1", cfg)
	if err != nil || back.Slower != d.Faster || back.Faster != d.Slower {
		t.Errorf("the other way round: %d slower, %d faster, %v", back.Slower, back.Faster, err)
	}
	same, err := CompareKernels(twoKernels(linear, linear), "lib@1", "lib@2", cfg)
	if err != nil || same.Same < 250 || same.Slower+same.Faster > 0 || same.Gate || same.Geomean.Lo > 1.001 || same.Geomean.Hi < 0.999 {
		t.Errorf("equals: %d the same, %d slower, %d faster, %+v, %v", same.Same, same.Slower, same.Faster, same.Geomean, err)
	}
	fastest, err := CompareKernels(twoKernels(linear, zigzag), "lib@1", "lib@1+lib@2", cfg)
	if err != nil || fastest.Slower > 0 || fastest.Faster != d.Faster || fastest.Same < 100 ||
		fastest.Cases[0].Series.Kernel != "lib@1+lib@2" {
		t.Errorf("the faster of two: %d slower, %d faster, %d the same, %v", fastest.Slower, fastest.Faster, fastest.Same, err)
	}
	others, err := CompareKernels(twoKernels(linear, zigzag), "lib@1", "others", cfg)
	if err != nil || others.Slower != d.Slower || others.B != "others" {
		t.Errorf("all others: %d slower, %v", others.Slower, err)
	}
	if _, err := CompareKernels(twoKernels(linear, linear), "lib@1", "lib@3", cfg); err == nil ||
		!strings.Contains(err.Error(), `no series of kernel "lib@3": expected one of lib@1, lib@2`) {
		t.Errorf("a kernel that is not there: %v", err)
	}
}
