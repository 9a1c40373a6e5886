package remedy

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// A slow N is executed with weights padded to the next fast one, and the remedy states the memory that it
// takes. It stays out of the table's intervals.
func TestPaddedWeightsAreExecuted(t *testing.T) {
	d := synthetic.OverNs([]int{64}, 12)
	for i := range d.Series[7].Rows[0].Samples {
		d.Series[7].Rows[0].Samples[i].US *= 1.5
	}
	got, err := Find(context.Background(), d, rules.Default(), Options{}, &synthetic.Tabled{Data: d})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stretches) != 1 || len(got.Splits) != 1 {
		t.Fatalf("%d stretches, %d remedies, %v", len(got.Stretches), len(got.Splits), got.Warnings)
	}
	r := got.Splits[0].Remedy
	if r.Kind != rules.RemedyPadN || r.M != 4056 || r.PadTo != 4064 || r.Pad != table.InPlace || !r.Executed || !r.Pays || r.Gain.Lo < 1.4 {
		t.Errorf("%+v", r)
	}
	if want := int64(8 * 4096 * 2); r.ExtraBytes != want {
		t.Errorf("%d bytes more, want %d", r.ExtraBytes, want)
	}
	if c := r.Case(d.Along(rules.Default().Basis()).Series[0].Rows[7].Case); !strings.HasSuffix(c.String(),
		"/n4056 m64 k4096 along n → 4064") ||
		c.Real().String() != "sim/lib/bf16/m64 n4064 k4096" {
		t.Errorf("%v runs as %v", c, c.Real())
	}
}

// Along K the activations need rows of the padded length: copied if that pays too, else in place.
func TestPaddedKCountsTheActivations(t *testing.T) {
	for slower, want := range map[float64]table.PadKind{2.0: table.Copied, 1.2: table.InPlace} {
		rng := rand.New(rand.NewPCG(5, 6))
		d := infer.Data{Name: "k", Meta: results.Meta{Source: "a table"}}
		for i := range 12 {
			k := 4000 + 8*i
			us := float64(k) / 40
			if i == 7 {
				us *= slower
			}
			d.Series = append(d.Series, synthetic.ProductSeries(rng, 4096, k, []int{64}, func(int) float64 { return us }))
		}
		got, err := Find(context.Background(), d, rules.Default(), Options{}, &synthetic.Tabled{Data: d})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Splits) != 1 {
			t.Fatalf("%gx: %d remedies, %v", slower, len(got.Splits), got.Warnings)
		}
		r := got.Splits[0].Remedy
		if r.Kind != rules.RemedyPadK || r.M != 4056 || r.PadTo != 4064 || r.Pad != want || !r.Pays || r.ExtraBytes != 8*4096*2 {
			t.Errorf("%gx: %+v, want %s", slower, r, want)
		}
		built, err := BuildTable(results.Meta{}, got)
		if err != nil || len(built.Series) != 0 || len(built.Advice) != 1 || built.Advice[0].K != 4056 || built.Advice[0].Proof.M != 64 ||
			built.Advice[0].Pad != want {
			t.Errorf("%gx: %+v (%v)", slower, built, err)
		}
	}
}
