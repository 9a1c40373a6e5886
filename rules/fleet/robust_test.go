package fleet

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Several outliers do not mask each other, and normal values are rarely outliers.
func TestOutliers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 5 + 0.003*rng.NormFloat64()
		}
		return v
	}
	for _, n := range []int{12, 64, 500} {
		v := draw(n)
		for i := range n / 6 {
			v[i] += 0.05
		}
		found, others := 0, 0
		for i, out := range outliers(v) {
			switch {
			case out && i < n/6:
				found++
			case out:
				others++
			}
		}
		if found != n/6 || others > 1 {
			t.Errorf("%d values, %d of them far: %d of them and %d others are outliers", n, n/6, found, others)
		}
		chance := 0
		for range 100 {
			for _, out := range outliers(draw(n)) {
				if out {
					chance++
					break
				}
			}
		}
		if chance > 8 {
			t.Errorf("of 100 sets of %d normal values %d have an outlier", n, chance)
		}
	}
	for _, v := range [][]float64{nil, {1}, {1, 9}, {1, 1, 1, 1, 1, 1}} {
		for i, out := range outliers(v) {
			if out {
				t.Errorf("%v: value %d is an outlier", v, i)
			}
		}
	}
}

func TestModesByChance(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, n := range []int{6, 8, 12, 32, 128} {
		chance, found := 0, 0
		const reps = 400
		for range reps {
			v, two := make([]float64, n), make([]float64, n)
			for i := range v {
				v[i] = 0.01 * rng.NormFloat64()
				two[i] = 0.003*rng.NormFloat64() + 0.05*float64(i%2)
			}
			if _, _, ok := split(v); ok {
				chance++
			}
			if border, ratio, ok := split(two); ok && border > 0.01 && border < 0.04 && math.Abs(ratio-math.Exp(0.05)) < 0.01 {
				found++
			}
		}
		if chance > reps/100+4 || found < reps*9/10 {
			t.Errorf("%d cards: %d of %d normal fleets have two modes, %d of %d with two are found", n, chance, reps, found, reps)
		}
	}
	even := make([]float64, 200)
	for i := range even {
		even[i] = float64(i) / 200
	}
	if _, _, ok := split(even); ok {
		t.Error("cards that are spread evenly have two modes")
	}
}

func TestLastChange(t *testing.T) {
	const sd = 0.002
	for _, c := range []struct {
		name string
		y    []float64
		at   int
	}{
		{"none", []float64{0, 0.001, -0.002, 0.001, 0, -0.001}, -1},
		{"at the third", []float64{0, 0.001, 0.03, 0.031, 0.029, 0.03}, 2},
		{"the last run alone", []float64{0, 0.001, -0.001, 0, 0.001, 0.03}, 5},
		{"a stray in the middle", []float64{0, 0.001, 0.04, 0, 0.001, -0.001, 0}, -1},
		{"too few", []float64{0, 0, 0.03}, -1},
	} {
		x := lastChange(c.y, sd, 20)
		switch {
		case x == nil && c.at >= 0:
			t.Errorf("%s: no change", c.name)
		case x != nil && x.at != c.at:
			t.Errorf("%s: a change at %d, want %d", c.name, x.at, c.at)
		}
	}
	if lastChange([]float64{0, 0, 0.5, 0.5}, sd, 2) != nil {
		t.Error("a change although nothing is known of processes")
	}
}

func TestWeightedMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 20).Draw(t, "values")
		var equal []weighed
		for _, x := range v {
			equal = append(equal, weighed{x, 0.5})
		}
		if got, want := weightedMedian(equal), median(v); math.Abs(got-want) > 1e-12 {
			t.Fatalf("of equal weights %v, median %v", got, want)
		}
	})
	if got := weightedMedian([]weighed{{1, 0.25}, {1, 0.25}, {1, 0.25}, {1, 0.25}, {5, 1}, {6, 1}}); got != 5 {
		t.Errorf("three cards, one measured four times: %v", got)
	}
}

func FuzzReadBaseline(f *testing.F) {
	f.Add([]byte(`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","clock_mhz":1700,"cases":[{"series":{"kernel":"cublas",` +
		`"dtype":"bf16"},"m":1,"us":10,"beta":0.5}],"members":[{"card":"a","common":1}]}]}`))
	f.Add([]byte(`{"schema":"gemmaudit.fleet/1"}`))
	f.Add([]byte(`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"common":{"card":-1}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadBaseline(bytes.NewReader(b))
		if err != nil {
			return
		}
		for i := range got.Groups {
			if err := got.Groups[i].check(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestBaselineBounds(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "not a fleet baseline",
		// Empty groups take three bytes each, and hundreds once decoded.
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[` + strings.Repeat("{},", 1<<20) +
			`{}]}`: "objects in",
		`{"schema":"gemmaudit.fleet/1","groups":3}`: `schema is "gemmaudit.fleet/1"`,
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","common":{"card":-1}}` +
			`]}`: "a component is -1",
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","cases":[{"m":1,"us":0}]}` +
			`]}`: "takes 0 us",
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","cases":[{"m":1,"us":1,"beta":2}]}` +
			`]}`: "beta is 2",
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","cases":[{"m":1,"us":1,"process":11}]}` +
			`]}`: "a deviation is 11",
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","members":[{"card":"a","common":-1}]}` +
			`]}`: `card "a": ratios -1`,
		`{"schema":"gemmaudit.fleet-baseline/1","groups":[{"model":"x","sustained_of":"sweep","clock_mhz":-1}]}`: "clock_mhz is -1",
	} {
		if _, err := ReadBaseline(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %q", text, err, want)
		}
	}
}
