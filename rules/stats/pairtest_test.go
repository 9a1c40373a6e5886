package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSignedRank(t *testing.T) {
	if p := SignedRank([]float64{1, 2, 3, 4, 5, 6}, 0); p != 1.0/64 {
		t.Errorf("six wins: p = %v, want 1/64", p)
	}
	if p := SignedRank([]float64{-1, 2, 3, 4, 5, 6}, 0); p != 2.0/64 {
		t.Errorf("smallest lost: p = %v, want 2/64", p)
	}
	if p := SignedRank(nil, 0); p != 1 {
		t.Errorf("no pairs: p = %v", p)
	}
	if p := SignedRank([]float64{0, 0, 0, 0, 0, 0}, 0); p != 1 {
		t.Errorf("all equal: p = %v, want 1", p)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		d := make([]float64, 8)
		for i := range d {
			d[i] = math.Round(4*rng.NormFloat64()) / 2 // ties and zeros
		}
		rank := make([]float64, len(d))
		sum := 0.0
		for i := range d {
			less, same := 0, 0
			for j := range d {
				if math.Abs(d[j]) < math.Abs(d[i]) {
					less++
				} else if math.Abs(d[j]) == math.Abs(d[i]) {
					same++
				}
			}
			rank[i] = float64(less) + float64(same+1)/2
			if d[i] > 0 {
				sum += rank[i]
			}
		}
		count := 0
		for signs := range 1 << len(d) {
			s := 0.0
			for i := range d {
				if signs>>i&1 == 1 {
					s += rank[i]
				}
			}
			if s >= sum {
				count++
			}
		}
		if p, want := SignedRank(d, 0), float64(count)/256; math.Abs(p-want) > 1e-12 {
			t.Fatalf("%v: p = %v, want %v", d, p, want)
		}
	}
	// The normal limit must be continuous with the exact values.
	long := make([]float64, exactPairs+1)
	for i := range long {
		long[i] = rng.NormFloat64() + 0.2
	}
	if exact, limit := SignedRank(long[:exactPairs], 0), SignedRank(long, 0); math.Abs(math.Log(exact/limit)) > 1 {
		t.Errorf("p jumps from %v to %v where the normal limit takes over", exact, limit)
	}
}

func TestWalshInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	heavy := func() float64 { // Student's t with 3 degrees of freedom
		a, b, c := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		return rng.NormFloat64() / math.Sqrt(a*a+b*b+c*c)
	}
	for _, pairs := range []int{6, 12, 24} {
		const runs = 3000
		missed := 0
		for range runs {
			d := make([]float64, pairs)
			for i := range d {
				d[i] = 5 + heavy()
			}
			if iv := WalshInterval(d, 0.95); iv.Lo > 5 || iv.Hi < 5 {
				missed++
			}
		}
		if rate, room := float64(missed)/runs, 3*math.Sqrt(0.05*0.95/runs); rate > 0.05+room || pairs > 6 && rate < 0.02 {
			t.Errorf("%d pairs: missed in %.3f of runs, stated 0.05", pairs, rate)
		}
	}
}

// The bounds match the normal approximation of the signed-rank test.
func TestWalshIntervalOfManyPairs(t *testing.T) {
	const n = exactPairs + 80
	var d, walsh []float64
	mean, variance := 0.0, 0.0
	for r := 1.0; r <= n; r++ {
		d = append(d, math.Sqrt(r))
		mean, variance = mean+r/2, variance+r*r/4
	}
	for i := range d {
		for _, other := range d[i:] {
			walsh = append(walsh, (d[i]+other)/2)
		}
	}
	slices.Sort(walsh)
	const z = 1.959964
	k := int(mean - z*math.Sqrt(variance)) // 7810
	want := Interval{walsh[k-1], Median(walsh), walsh[len(walsh)-k]}
	if got := WalshInterval(d, 0.95); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
