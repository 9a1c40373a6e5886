package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func hostOf(slow, mhz []float64, sigma float64, rounds int, seed uint64) infer.Data {
	var all infer.Data
	rng := rand.New(rand.NewPCG(seed, 7))
	for i, factor := range slow {
		w := synthetic.ByM(func(m int) float64 { return factor * float64(m) }, synthetic.Gaussian(sigma), rng)
		w.Key.Device = fmt.Sprintf("cuda:%d", i)
		if mhz != nil {
			w.Clock = func(results.Case) float64 { return mhz[i] }
		}
		one := w.Sweep(synthetic.Grid(64, 2048, 64), rounds)
		all.Series = append(all.Series, one.Series...)
		all.Meta.Fingerprint.Devices = append(all.Meta.Fingerprint.Devices,
			kernels.Spec{ID: w.Key.Device, Kind: kernels.CUDA, Name: "H200"})
	}
	return all
}

func cardsOf(t *testing.T, d infer.Data) *cards.Comparison {
	t.Helper()
	audit, err := RunAudit(t.Context(), d, Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return audit.Cards
}

func TestAnOutlierCardIsNamed(t *testing.T) {
	c := cardsOf(t, hostOf([]float64{1, 1.12, 1.01, 0.99}, nil, 0.01, 7, 1))
	if !slices.Equal(c.Outliers, []string{"cuda:1"}) {
		t.Fatalf("outliers %v: %+v", c.Outliers, c.Cards)
	}
	v := c.Cards[1]
	if v.Change != change.Slower || v.Slower < v.Cases*9/10 || v.Cases != 32 || v.Ratio.Lo < 1.05 || math.Abs(v.Ratio.Mid-1.115) > 0.01 ||
		v.Explanation == "" || v.Cause != cause.Unknown {
		t.Errorf("%+v", v)
	}
	for _, i := range []int{0, 2, 3} {
		if v := c.Cards[i]; v.Change != change.Same || v.Slower+v.Faster > 0 || v.Explanation != "" {
			t.Errorf("%+v", v)
		}
	}
	if len(c.Cases) != 4*32 {
		t.Errorf("%d comparisons", len(c.Cases))
	}
}

func TestACardOfTwo(t *testing.T) {
	c := cardsOf(t, hostOf([]float64{1.2, 1}, []float64{1500, 1800}, 0.01, 7, 2))
	if !slices.Equal(c.Outliers, []string{"cuda:0"}) || c.Cards[1].Change != change.Faster {
		t.Fatalf("outliers %v: %+v", c.Outliers, c.Cards)
	}
	if v := c.Cards[0]; v.Cause != cause.Clock || math.Abs(v.Observed.Mid-1.2) > 0.01 || v.Ratio.Lo > 1.05 || v.ClockMHz != 1500 {
		t.Errorf("a card of a slow clock: %+v", v)
	}
}

// At most the share FDR of hosts with equal cards reports an outlier.
func TestEqualCardsAreRarelyAccused(t *testing.T) {
	t.Parallel()
	const hosts = 25
	for _, n := range []int{2, 3, 4, 8} {
		accused := 0
		for seed := range uint64(hosts) {
			slow := slices.Repeat([]float64{1}, n)
			if c := cardsOf(t, hostOf(slow, nil, 0.03, 5, seed)); len(c.Outliers) > 0 {
				accused++
			}
		}
		if accused > 1 {
			t.Errorf("%d of %d hosts of %d equal cards have an outlier", accused, hosts, n)
		}
	}
}

func TestCardsAtTheThreshold(t *testing.T) {
	t.Parallel()
	slower, cases := 0, 0
	for seed := range uint64(40) {
		c := cardsOf(t, hostOf([]float64{1, 1, 1 + Default().Cards.Threshold}, nil, 0.02, 7, seed))
		slower += c.Cards[2].Slower
		cases += c.Cards[2].Cases
	}
	if rate := float64(slower) / float64(cases); rate > 0.05 {
		t.Errorf("%.3f of the cases at the threshold are called slower", rate)
	}
}

func TestWhatIsNotCompared(t *testing.T) {
	one := hostOf([]float64{1}, nil, 0.01, 7, 1)
	if c := cardsOf(t, one); c != nil {
		t.Errorf("one card is compared: %+v", c)
	}
	mixed := hostOf([]float64{1, 2}, nil, 0.01, 7, 1)
	mixed.Meta.Fingerprint.Devices[1].Name = "A100"
	if c := cardsOf(t, mixed); c != nil {
		t.Errorf("cards of two kinds are compared: %+v", c)
	}
	apart := hostOf([]float64{1, 1, 3}, nil, 0.01, 7, 1)
	for i := range apart.Series {
		if apart.Series[i].Key.Device == "cuda:2" {
			apart.Series[i].Key.N++
		}
	}
	c := cardsOf(t, apart)
	if len(c.Outliers) != 0 || c.Cards[2].Cases != 0 || c.Cards[2].Change != change.Open {
		t.Errorf("%v %+v", c.Outliers, c.Cards[2])
	}
}
