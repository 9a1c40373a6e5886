package rules

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestAlongChoosesTheCurvesThatCompareMore(t *testing.T) {
	for _, c := range []struct {
		name  string
		data  infer.Data
		along string
		want  []string // the curves
	}{
		{"one M", synthetic.OverNs([]int{64}, 7), infer.AlongAuto, []string{"m64 k4096 along n"}},
		{"one M, few N", synthetic.OverNs([]int{64}, 5), infer.AlongAuto,
			[]string{"n4000 k4096", "n4008 k4096", "n4016 k4096", "n4024 k4096", "n4032 k4096"}},
		{"few N, asked for", synthetic.OverNs([]int{64}, 2), "n", []string{"m64 k4096 along n"}},
		{"many N at two Ms", synthetic.OverNs([]int{64, 128}, 9), infer.AlongAuto, []string{"m64 k4096 along n", "m128 k4096 along n"}},
		{"a grid of N and K", nByK(7), infer.AlongAuto, []string{"m64 k64 along n", "m64 k128 along n", "m64 k192 along n",
			"m64 k256 along n", "m64 k320 along n", "m64 k384 along n", "m64 k448 along n"}},
		{"as many M as N", synthetic.OverNs([]int{1, 2, 4, 8, 16, 32}, 6), infer.AlongAuto, nil},
		{"as many M as N, asked for", synthetic.OverNs([]int{1, 2}, 2), "n", []string{"m1 k4096 along n", "m2 k4096 along n"}},
		{"M, asked for", synthetic.OverNs([]int{64}, 7), infer.AlongM, nil},
		{"K, which differs in none", synthetic.OverNs([]int{64}, 7), "k", nil},
		{"columns, which products lack", synthetic.OverNs([]int{64}, 7), "columns", nil},
	} {
		cfg := Default()
		cfg.Along = c.along
		got := c.data.Along(cfg.Basis())
		again := got.Along(cfg.Basis())
		if c.want == nil {
			c.want = curves(c.data)
		}
		for _, d := range []infer.Data{got, again} {
			if have := curves(d); strings.Join(have, ", ") != strings.Join(c.want, ", ") {
				t.Errorf("%s: %v, want %v", c.name, have, c.want)
			}
		}
		if got.Samples() != c.data.Samples() {
			t.Errorf("%s: %d samples of %d", c.name, got.Samples(), c.data.Samples())
		}
		for _, s := range got.Series {
			for i, r := range s.Rows {
				if i > 0 && s.Rows[i-1].Case.M >= r.Case.M {
					t.Errorf("%s: %v is not ascending", c.name, s.Key)
				}
				real := r.Case.Real()
				if !real.OverM() || real.N == 0 || real.Key() != caseOfID(c.data, r.Case.ID).Key() || real.FLOPs() != r.Case.FLOPs() ||
					real.Bytes() != r.Case.Bytes() {
					t.Errorf("%s: %v is really %v", c.name, r.Case, real)
				}
			}
		}
	}
}

// nByK has one M of count N times count K.
func nByK(count int) infer.Data {
	rng := rand.New(rand.NewPCG(1, 2))
	d := infer.Data{Name: "grid", Meta: results.Meta{Source: "a table"}}
	for i := range count * count {
		n, k := 100+4*(i/count), 64+64*(i%count)
		d.Series = append(d.Series, synthetic.ProductSeries(rng, n, k, []int{64}, func(int) float64 { return float64(n*k) / 100 }))
	}
	return d
}

func curves(d infer.Data) []string {
	var out []string
	for _, s := range d.Series {
		out = append(out, s.Key.Curve())
	}
	return out
}

func caseOfID(d infer.Data, id int64) results.Case {
	for _, s := range d.Series {
		for _, r := range s.Rows {
			if r.Case.ID == id {
				return r.Case
			}
		}
	}
	return results.Case{}
}

func TestAlongScaleTakesProportionalProductsOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	us := func(int) float64 { return 100 }
	d := infer.Data{Meta: results.Meta{Source: "a table"}, Series: []results.Series{
		synthetic.ProductSeries(rng, 1024, 1024, []int{1024}, us), synthetic.ProductSeries(rng, 2048, 1024, []int{2048}, us),
		synthetic.ProductSeries(rng, 3000, 3000, []int{3000}, us), synthetic.ProductSeries(rng, 6144, 3072, []int{6144}, us),
		synthetic.ProductSeries(rng, 512, 512, []int{512, 1024}, us),
	}}
	got := d.Along(Default().Basis())
	want := "m1 n1 k1 along scale, m2 n2 k1 along scale, n512 k512"
	if have := strings.Join(curves(got), ", "); have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// A cliff along N is found by the rules, measured again on real products, and reproduced by a command that
// names them.
func TestAuditAlongN(t *testing.T) {
	d := synthetic.OverNs([]int{64}, 12)
	for i := range d.Series[7].Rows[0].Samples {
		d.Series[7].Rows[0].Samples[i].US *= 1.5
	}
	m := &synthetic.Tabled{Data: d}
	audit, err := RunAudit(context.Background(), d, Default(), m)
	if err != nil {
		t.Fatal(err)
	}
	if len(audit.Findings) != 2 {
		t.Fatalf("%d findings: %+v", len(audit.Findings), audit.Findings)
	}
	for _, f := range audit.Findings {
		if f.Status != Confirmed || f.WorstM != 4056 || f.Series.Along != (kernels.Along{Dimension: "n", M: 64}) {
			t.Errorf("%s %s at %s of %v", f.Status, f.Rule, f.Series.Coordinate(f.WorstM), f.Series)
		}
		if !strings.Contains(f.Reproduce, "--shape m64n4056k4096,m64n40") || !strings.Contains(f.Reproduce, "--along n") ||
			strings.Contains(f.Reproduce, "--batch") {
			t.Error(f.Reproduce)
		}
		if strings.Contains(f.Explanation, "m4056") || !strings.Contains(f.Explanation, "n4056") {
			t.Error(f.Explanation)
		}
		if claim := f.Claim(); strings.Contains(claim, "M ") || !strings.Contains(claim, "N ") {
			t.Error(claim)
		}
	}
}
