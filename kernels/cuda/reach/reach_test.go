package reach

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestProducts(t *testing.T) {
	all := Products(20261123)
	count := map[string]int{}
	shapes := map[[2]int]bool{}
	odd := 0
	for _, p := range all {
		count[fmt.Sprint(p.Set, " ", p.DType)]++
		if p.Set == Named {
			continue
		}
		shapes[[2]int{p.N, p.K}] = true
		odd += p.M & 1
		if p.M < 1 || p.M > mostM || p.N%64 != 0 || p.K%64 != 0 || min(p.N, p.K) < 512 || max(p.N, p.K) > 16384 {
			t.Errorf("%v was drawn", p)
		}
	}
	// 64 + 120 + 112 + 2 M of each of four shapes; of 8 bits 1024, by 64 to 8192, and 16384.
	for what, want := range map[string]int{
		"named bf16": 4 * 298, "named fp16": 4 * 298, "named int8": 4 * 114, "named fp8": 4 * 114, "drawn bf16": 60 * 24,
		"drawn fp16": 60 * 24, "drawn fp8": 0,
	} {
		if count[what] != want {
			t.Errorf("%d of %s, expected %d", count[what], what, want)
		}
	}
	if len(shapes) != 60 || odd < 500 || odd > 2*60*24-500 {
		t.Errorf("%d shapes were drawn, %d M are odd", len(shapes), odd)
	}
	if !slices.Equal(all, Products(20261123)) || slices.Equal(all, Products(20261124)) {
		t.Error("the seed does not decide what is drawn")
	}
}

func TestPlan(t *testing.T) {
	all, a := Products(1), Machine{Peak: 1e15, Bandwidth: 4.8e12}
	kept := map[Product]bool{}
	for _, seconds := range []int{30, 60, 150} {
		p := NewPlan(all, 1, a, time.Duration(seconds)*time.Second)
		now := map[Product]bool{}
		beside := 0
		for _, j := range p.Jobs {
			now[j.Product] = true
			if !slices.Equal(j.Series[:len(decisive(j.DType))], decisive(j.DType)) {
				t.Fatalf("%v is measured by %v", j.Product, j.Series)
			}
			if len(j.Series) > len(decisive(j.DType)) {
				beside++
			}
		}
		for old := range kept {
			if !now[old] {
				t.Fatalf("%v is kept for less than %d s", old, seconds)
			}
		}
		if len(now) <= len(kept) || p.Share >= 1 || beside == 0 || beside*3 > len(now) {
			t.Errorf("%d s: %d products, %d before, a share of %v; beside are %d", seconds, len(now), len(kept), p.Share, beside)
		}
		kept = now
	}
	whole := NewPlan(all, 1, a, Estimate(all, a, wantedSamples)+time.Second)
	if len(whole.Jobs) != len(all) || whole.Share != 1 || whole.Printed != 1 {
		t.Errorf("%d of %d products, shares of %v and %v", len(whole.Jobs), len(all), whole.Share, whole.Printed)
	}
	if n := len(NewPlan(all, 1, a, 0).Jobs); n != 0 {
		t.Errorf("%d products in no time", n)
	}
}

// simulated returns rows whose times follow the clock by beta. A peer takes times as long as ours, at a clock
// that differs by off.
func simulated(products int, m int, beta, times, off, noise float64, rng *rand.Rand) []Row {
	var rows []Row
	for i := range products {
		p := Product{DType: kernels.BF16, N: 4096, K: 4096, M: m + i, Set: Named}
		for _, s := range []Series{Auto, Blas, BlasLt} {
			r := Row{Product: p, Series: s, Label: "plan"}
			for round := range 9 {
				clock := 1500 * math.Exp(0.05*rng.NormFloat64())
				us := 100.0
				if s != Auto {
					us *= times
					clock *= off
				}
				if s == Blas {
					us *= 1.1
				}
				us *= math.Exp(noise*rng.NormFloat64()) * math.Pow(1500/clock, beta)
				r.Samples = append(r.Samples, Sample{us, clock, round})
			}
			rows = append(rows, r)
		}
	}
	return rows
}

func TestCommonClock(t *testing.T) {
	for _, beta := range []float64{0, 0.5, 1} {
		rng := rand.New(rand.NewPCG(3, 4))
		rows := simulated(40, 600, beta, 1.02, 1.04, 0.003, rng)
		lines := Lines(Header{Card: "NVIDIA H200"}, rows)
		if len(lines) != 1 {
			t.Fatalf("%d lines, expected one", len(lines))
		}
		l := lines[0]
		observed := 1.02 * math.Pow(1.04, -beta)
		if math.Abs(l.Common-1.02) > 0.006 || math.Abs(l.Observed-observed) > 0.02 {
			t.Errorf("beta %v: %.4f at the common clock and %.4f as observed, expected 1.02 and %.4f", beta, l.Common, l.Observed, observed)
		}
		if w, ok := l.Worst(); !ok || w.Peer != BlasLt || w.Samples != 9 || w.Upper < w.Common {
			t.Errorf("beta %v: worst %+v", beta, w)
		}
	}
}

// Products furthest behind come first; those without a peer are omitted.
func TestHardest(t *testing.T) {
	var rows []Row
	add := func(m int, s Series, us float64) {
		r := Row{Product: Product{DType: "bf16", N: 64, K: 64, M: m, Set: Drawn}, Series: s}
		for round := range 5 {
			r.Samples = append(r.Samples, Sample{US: us, MHz: 1500, Round: round})
		}
		rows = append(rows, r)
	}
	for m, peers := range map[int][2]float64{1: {11, 12}, 2: {8, 20}, 3: {20, 9}, 4: {15, 15}} {
		add(m, Auto, 10)
		add(m, Blas, peers[0])
		add(m, BlasLt, peers[1])
	}
	add(5, Auto, 10)
	add(5, Blas, 1)
	var got []int
	for _, p := range Hardest(rows) {
		got = append(got, p.M)
	}
	if want := []int{2, 3, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("m %v, want %v", got, want)
	}
}

func TestBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{3, 6, 9, 20} {
		below, wide := 0, 0.0
		const trials = 4000
		for range trials {
			d := make([]float64, n)
			for i := range d {
				d[i] = rng.NormFloat64()
			}
			slices.Sort(d)
			_, upper := bound(d)
			wide += upper / trials
			if upper < 0 {
				below++
			}
		}
		if below > trials/50 || below < trials/500 {
			t.Errorf("%d samples: the bound is too low in %d of %d", n, below, trials)
		}
		if n >= 9 && wide*math.Sqrt(float64(n)) > 4 {
			t.Errorf("%d samples: the bound is %.2f away", n, wide)
		}
	}
	if mid, upper := bound([]float64{0.01, 0.01, 0.011, 0.012, 0.012, 0.013, 5}); mid > 0.02 || upper > 0.02 {
		t.Errorf("with a stray sample %v and %v", mid, upper)
	}
	if _, upper := bound([]float64{1}); !math.IsInf(upper, 1) {
		t.Errorf("one sample bounds a mean by %v", upper)
	}
}

// Each goal of a line is judged separately. Short products 0.1 us behind do not count, nor do informational
// series.
func TestGoals(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	h := Header{Card: "NVIDIA H200"}
	slow := simulated(5, 600, 0, 1.08, 1, 0.001, rng)
	for i := range slow {
		if slow[i].M == 602 && slow[i].Series != Auto {
			for j := range slow[i].Samples {
				slow[i].Samples[j].US *= 0.85
			}
		}
	}
	l := Lines(h, slow)[0]
	if w, _ := l.Worst(); !l.MetMean || l.MetWorst || w.M != 602 {
		t.Errorf("geometric mean %v met %v, worst %+v met %v", l.Common, l.MetMean, w, l.MetWorst)
	}
	short := simulated(4, 2, 0, 0.98, 1, 0.001, rng)
	for i := range short {
		for j := range short[i].Samples {
			short[i].Samples[j].US *= 0.035 // 3.5 us, behind by 0.07
		}
	}
	if l := Lines(h, short)[0]; l.Excused != 4 || !l.MetWorst || l.MetMean {
		t.Errorf("%d of 4 short products are excused, worst met %v, mean %v met %v", l.Excused, l.MetWorst, l.Common, l.MetMean)
	}
	var b strings.Builder
	if err := Print(&b, h, append(slow, short...)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">= 1.02 met", ">= 0.97 MISS", "1 of 5 products are surely below 0.97", "m602 n4096 k4096  ours 100",
		"4 below 4 us aside", ">= 1.12 MISS", ">= 1.03 met"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if err := Print(&b, Header{Card: "NVIDIA A10"}, slow); err != nil {
		t.Fatal(err)
	}
	if _, after, _ := strings.Cut(b.String(), "A10"); strings.Contains(after, ">=") {
		t.Errorf("a card without goals is judged:\n%s", after)
	}
}

func TestFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	h := Header{Format: Format, Card: "NVIDIA H100 80GB HBM3", Date: "2026-11-23", Seed: 20261123, Seconds: 150, Share: 0.5, Printed: 0.125,
		Versions: map[string]string{"driver": "580"}}
	rows := simulated(2, 5, 1, 1.1, 1, 0.01, rng)
	var b bytes.Buffer
	if err := Write(&b, h, rows); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	again, read, err := Read(strings.NewReader(text))
	if err != nil || again.Card != h.Card || again.Share != h.Share || len(read) != len(rows) {
		t.Fatalf("%+v, %d rows, %v", again, len(read), err)
	}
	for i, r := range read {
		if r.Product != rows[i].Product || r.Series != rows[i].Series || len(r.Samples) != 9 ||
			math.Abs(r.Samples[3].US-rows[i].Samples[3].US) > 1e-3 || r.Samples[3].Round != 3 {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	for old, want := range map[string]string{
		`"format":1`: "line 1: format 7", `"m":5`: "line 2: json", `"series":"auto"`: "series is missing", `[[`: "a sample has 4 numbers",
	} {
		with := map[string]string{`"format":1`: `"format":7`, `"m":5`: `"em":5`, `"series":"auto"`: `"series":""`, `[[`: `[[1,`}[old]
		if _, _, err := Read(strings.NewReader(strings.Replace(text, old, with, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, expected %q", with, err, want)
		}
	}
	if _, _, err := Read(strings.NewReader("")); err == nil {
		t.Error("an empty file was read")
	}
}
