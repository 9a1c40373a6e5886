package advice

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// An engine's passes: swept parts at the engine's clock, and a smooth rest with a little noise per size.
type simulated struct {
	ms           []int
	parts, truth []float64
}

func simulate(random *rand.Rand, lump float64) simulated {
	var ms []int
	for m := 16; m <= 2560; m += 16 {
		ms = append(ms, m)
	}
	return simulateAt(ms, random, lump)
}

func simulateAt(ms []int, random *rand.Rand, lump float64) simulated {
	s := simulated{ms: ms}
	for _, m := range ms {
		x := float64(m)
		part := 3e-3 * math.Max(1, (0.5*x+0.5*math.Ceil(x/128)*128)/110)
		if m%208 == 0 {
			part *= 1.04
		}
		rest := 0.7e-3 + 2.5e-6*x + 0.6e-9*x*x + 0.4e-3*math.Min(1, x/300)
		s.parts = append(s.parts, part)
		s.truth = append(s.truth, (1.03*part+rest)*(1+lump*random.NormFloat64()))
	}
	return s
}

func (s simulated) passes(t *testing.T, random *rand.Rand, noise float64) (*Passes, Measured) {
	part := Part{Names: []string{"products"}, Count: 1}
	var measured Measured
	for i, m := range s.ms {
		part.Times = append(part.Times, Time{M: m, Seconds: s.parts[i] * math.Exp(noise*random.NormFloat64()), SE: noise, DF: 20})
		if i%4 == 0 || i == len(s.ms)-1 {
			measured = append(measured, Time{M: m, Seconds: s.truth[i] * math.Exp(noise*random.NormFloat64()), SE: noise, DF: 20})
		}
	}
	p, err := Sum([]Part{part})
	if err != nil {
		t.Fatal(err)
	}
	return p, measured
}

// Passes are predicted to within the engine's noise, and intervals cover most of them.
func TestRestForetells(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	var inside, all int
	var off []float64
	for range 40 {
		s := simulate(random, 0.003)
		p, measured := s.passes(t, random, 0.002)
		r, err := p.AddRest(measured)
		if err != nil {
			t.Fatal(err)
		}
		if r.Fitted != len(measured) || math.Abs(r.FactorFrom-1.03) > 0.2 || math.Abs(r.FactorTo-1.03) > 0.5 || r.Faster ||
			r.Scatter < 0.002 || r.Scatter > 0.01 {
			t.Fatalf("rest %+v", r)
		}
		for i, m := range p.Ms() {
			k, _ := slices.BinarySearch(s.ms, m)
			if k%4 == 0 {
				continue
			}
			all++
			off = append(off, math.Abs(p.seconds[i]/s.truth[k]-1))
			if v := p.Seconds(i); s.truth[k] >= v.Lo && s.truth[k] <= v.Hi {
				inside++
			}
		}
	}
	slices.Sort(off)
	if middle, far := off[len(off)/2], off[len(off)*95/100]; middle > 0.004 || far > 0.012 {
		t.Errorf("passes are foretold to %.2f %% in the median and %.2f %% at the 95th percentile", 100*middle, 100*far)
	}
	if share := float64(inside) / float64(all); share < 0.92 || share > 0.995 {
		t.Errorf("%.1f %% of intervals hold the truth", 100*share)
	}
}

// Slow sizes lose less in an engine than at a common clock, as at a power limit.
func TestRestFollowsPower(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 16))
	var off, plain []float64
	for range 20 {
		s := simulate(random, 0)
		for i, m := range s.ms {
			x := float64(m)
			smooth := 3e-3 * math.Max(1, x/110)
			s.truth[i] = smooth + (1-0.35*math.Min(1, x/1000))*(s.parts[i]-smooth) + 1e-3 + 3e-6*x
			s.truth[i] *= 1 + 0.001*random.NormFloat64()
		}
		p, measured := s.passes(t, random, 0.002)
		parts := slices.Clone(p.parts)
		r, err := p.AddRest(measured)
		if err != nil {
			t.Fatal(err)
		}
		if r.FactorTo > 0.85 {
			t.Errorf("the parts count %.2f at the largest size, expected about 0.65", r.FactorTo)
		}
		for i, m := range p.Ms() {
			if m < 400 {
				continue
			}
			off = append(off, math.Abs(p.seconds[i]/s.truth[i]-1))
			smooth := 3e-3 * float64(m) / 110
			plain = append(plain, math.Abs((smooth+(parts[i]-smooth)+1e-3+3e-6*float64(m))/s.truth[i]-1))
		}
	}
	slices.Sort(off)
	slices.Sort(plain)
	if far, without := off[len(off)*95/100], plain[len(plain)*95/100]; far > 0.008 || far > 0.7*without {
		t.Errorf("the 95th percentile of errors is %.2f %%, that of plain sums %.2f %%", 100*far, 100*without)
	}
}

func TestRestStandsStrays(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	s := simulate(random, 0.001)
	p, measured := s.passes(t, random, 0.001)
	for _, k := range []int{5, 17, 30} {
		measured[k].Seconds *= 1.2
	}
	if _, err := p.AddRest(measured); err != nil {
		t.Fatal(err)
	}
	var off []float64
	for i := range p.Ms() {
		off = append(off, math.Abs(p.seconds[i]/s.truth[i]-1))
	}
	slices.Sort(off)
	if far := off[len(off)*95/100]; far > 0.015 {
		t.Errorf("the 95th percentile of errors is %.2f %%", 100*far)
	}
}

func TestRestIsNoGuess(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	s := simulate(random, 0.001)
	p, measured := s.passes(t, random, 0.001)
	r, err := p.AddRest(append(slices.Clone(measured[3:20]), Time{M: 2561, Seconds: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if ms := p.Ms(); ms[0] != measured[3].M || ms[len(ms)-1] != measured[19].M || len(r.Outside) != len(s.ms)-len(ms) ||
		!slices.Equal(r.Unmatched, []int{2561}) {
		t.Errorf("%d sizes from m%d to m%d, rest %+v", len(ms), ms[0], ms[len(ms)-1], r)
	}
	p, measured = s.passes(t, random, 0.001)
	if _, err := p.AddRest(measured[:leastMeasured-1]); err == nil || !strings.Contains(err.Error(), "expected at least 8") {
		t.Errorf("%d measured passes: %v", leastMeasured-1, err)
	}
}

// Parts count with their multiplicity. A part of the last rows is constant, and errors of series add in
// squares.
func TestSum(t *testing.T) {
	parts := []Part{
		{Names: []string{"q_proj", "o_proj"}, Count: 64,
			Times: []Time{{M: 8, Seconds: 1, SE: 0.03, DF: 10}, {M: 16, Seconds: 2, SE: 0.03, DF: 10, Inferred: true},
				{M: 32, Seconds: 4, SE: 0.03, DF: 10}}},
		{Names: []string{"down_proj"}, Count: 32,
			Times: []Time{{M: 16, Seconds: 4, SE: 0.04, DF: 10}, {M: 32, Seconds: 8, SE: 0.04, DF: 10}}},
		{Names: []string{"lm_head"}, Count: 1, FixedM: 1, Times: []Time{{M: 1, Seconds: 44, SE: 0.1, DF: 10}}},
	}
	p, err := Sum(parts)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Ms(), []int{16, 32}) || p.seconds[0] != 300 || p.seconds[1] != 556 || !p.inferred[0] || p.inferred[1] {
		t.Errorf("passes %+v", p)
	}
	sd, _ := p.deviation([]float64{1, 0})
	if want := math.Sqrt(sq(64*2*0.03) + sq(32*4*0.04) + sq(4.4)); math.Abs(sd-want) > 1e-9 {
		t.Errorf("standard error %g, expected %g", sd, want)
	}
	sd, _ = p.deviation([]float64{1, -1})
	if want := math.Sqrt(5 * (sq(64*2*0.03) + sq(32*4*0.04))); math.Abs(sd-want) > 1e-9 {
		t.Errorf("standard error of the difference %g, expected %g", sd, want)
	}
	if _, err := Sum([]Part{parts[0], {Names: []string{"other"}, Count: 1, Times: []Time{{M: 7}}}}); err == nil ||
		!strings.Contains(err.Error(), "other has no M") {
		t.Errorf("parts without a common M: %v", err)
	}
	if _, err := Sum([]Part{parts[2]}); err == nil {
		t.Error("a part of the last rows alone is a pass")
	}
	if _, err := Sum(nil); err == nil {
		t.Error("no parts are a pass")
	}
}

func sq(x float64) float64 { return x * x }

func TestCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	s := simulate(random, 0.001)
	p, measured := s.passes(t, random, 0.001)
	times := make([]Time, len(p.ms))
	for i, m := range p.ms {
		times[i] = Time{M: m, Seconds: p.seconds[i], SE: 0.002, DF: 20}
	}
	product := Part{Names: []string{"products"}, Source: Swept, Count: 1, Times: times}
	product.Series.N, product.Series.K = 64, 64
	o := Options{Sizes: 8, MinGain: 0.02, FDR: 0.05, Engines: Engines()}
	for _, c := range []struct {
		parts    []Part
		measured Measured
		want     Coverage
		missing  int
	}{
		{[]Part{product}, nil, Products, 1},
		{[]Part{product, {Names: []string{"attention"}, Source: Imported, Count: 1, Times: times}}, nil, KnownParts, 1},
		{[]Part{product}, measured, WholePass, 0},
	} {
		a, err := Advise(Subject{Model: "m"}, c.parts, []string{"attention"}, c.measured, o)
		if err != nil {
			t.Fatal(err)
		}
		if a.Coverage != c.want || len(a.Missing) != c.missing || len(a.Passes) != len(p.ms) || len(a.Settings) != 7 {
			t.Errorf("coverage %s, missing %v, %d passes, %d settings; expected %s", a.Coverage, a.Missing, len(a.Passes), len(a.Settings),
				c.want)
		}
		var worst stats.Interval
		for _, u := range a.Chunk.Usual {
			if u.Known && u.Gain.Mid > worst.Mid {
				worst = u.Gain
			}
		}
		if a.Chunk.M == 0 || worst.Mid <= 1 {
			t.Errorf("chunk %+v", a.Chunk)
		}
	}
	o.Latency = 1e-4
	a, err := Advise(Subject{Model: "m"}, []Part{product}, nil, nil, o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Chunk.M != 0 || slices.ContainsFunc(a.Settings, func(s Setting) bool { return s.Advice == "chunk" }) {
		t.Errorf("a bound that no pass keeps: %+v", a.Chunk)
	}
}
