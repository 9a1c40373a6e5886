package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

type way struct {
	parts []int // ascending
	cost  float64
}

func (w way) better(o way) bool {
	if w.cost != o.cost || o.parts == nil {
		return w.cost < o.cost
	}
	if len(w.parts) != len(o.parts) {
		return len(w.parts) < len(o.parts)
	}
	return w.parts[0] < o.parts[0]
}

// cheapestByHand enumerates all multisets of at most most parts and keeps the best of exactly k parts for
// each sum up to the largest M. It skips parts of infinite cost.
func cheapestByHand(ms []int, cost []float64, most int) (best []map[int]way) {
	best = make([]map[int]way, most+1)
	for k := range best {
		best[k] = map[int]way{}
	}
	var add func(parts []int, from, sum int, total float64)
	add = func(parts []int, from, sum int, total float64) {
		if len(parts) == most {
			return
		}
		for j := from; j < len(ms) && sum+ms[j] <= ms[len(ms)-1]; j++ {
			if math.IsInf(cost[j], 1) {
				continue
			}
			longer := append(parts, ms[j])
			w := way{longer, total + cost[j]}
			if old, ok := best[len(longer)][sum+ms[j]]; !ok || w.better(old) {
				w.parts = slices.Clone(longer)
				best[len(longer)][sum+ms[j]] = w
			}
			add(longer, j, sum+ms[j], total+cost[j])
		}
	}
	add(nil, 0, 0, 0)
	return best
}

func gridWithGaps(random *rand.Rand, top int) []int {
	switch random.IntN(4) {
	case 0:
		return synthetic.Grid(1, 1+random.IntN(top), 1)
	case 1:
		var ms []int
		for m := 1 + random.IntN(3); m <= top; m *= 2 {
			ms = append(ms, m)
		}
		return ms
	}
	ms := random.Perm(top)[:random.IntN(top)]
	slices.Sort(ms)
	for i := range ms {
		ms[i]++
	}
	return ms
}

func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Drawn one by one, most values would be small and the grids trivial.
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		most := 2 + random.IntN(15)
		set := gridWithGaps(random, 42)
		cost := make([]float64, len(set))
		launch, perRow, spread := random.IntN(20), random.IntN(5), []int{1, 4, 100}[random.IntN(3)]
		for i, m := range set {
			cost[i] = float64(launch + perRow*m + 1 + random.IntN(spread))
			if random.IntN(10) == 0 {
				cost[i] = math.Inf(1)
			}
		}
		limit := random.IntN(2) * denseLimit
		scale := []int{1, 8, 3 * denseLimit}[random.IntN(3)]
		for i := range set {
			set[i] *= scale
		}
		want := cheapestByHand(set, cost, most)
		p := partitionWithin(set, cost, most, limit)
		if p.Cut {
			t.Fatal("the search was cut")
		}
		for i, whole := range set {
			best := way{cost: math.Inf(1)}
			for k := 2; k <= most; k++ {
				if w, ok := want[k][whole]; ok && w.better(best) {
					best = w
				}
				parts, got := p.Parts(i, k)
				if got != best.cost {
					t.Fatalf("m%d in %d parts: %v at %v, want %v at %v", whole, k, parts, got, best.parts, best.cost)
				}
				if parts == nil && best.parts == nil {
					continue
				}
				sum, total := 0, 0.0
				for _, part := range parts {
					at, ok := slices.BinarySearch(set, part)
					if !ok {
						t.Fatalf("m%d: part %d of %v was not measured", whole, part, parts)
					}
					sum += part
					total += cost[at]
				}
				if sum != whole || total != got || !slices.IsSorted(parts) {
					t.Fatalf("m%d: parts %v add up to %d and cost %v, stated %v", whole, parts, sum, total, got)
				}
				if len(parts) != len(best.parts) || parts[0] != best.parts[0] {
					t.Fatalf("m%d in %d parts: %v, want fewest parts and the smallest first as in %v", whole, k, parts, best.parts)
				}
			}
		}
	})
}

func TestPartitionExamples(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		name  string
		ms    []int
		cost  []float64
		parts int // at most
		want  []int
		sum   float64
	}{
		{"rest not measured", []int{1, 2, 4, 8, 16}, []float64{.4, .6, 1, 5, 10}, 4, []int{4, 4, 4, 4}, 4},
		{"two parts only", []int{1, 2, 4, 8, 16}, []float64{.4, .6, 1, 5, 10}, 2, []int{8, 8}, 10},
		{"more parts than are needed", []int{1, 2, 4, 8, 16}, []float64{.4, .6, 1, 5, 10}, 16, []int{4, 4, 4, 4}, 4},
		{"no sum", []int{3, 5, 7}, []float64{1, 1, 1}, 4, nil, inf},
		{"three parts without a pair", []int{3, 9}, []float64{1, 9}, 4, []int{3, 3, 3}, 3},
		{"fewest parts, then the smallest first", []int{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 4, []int{1, 3}, 4},
		{"the smallest first of three", []int{1, 2, 14, 26, 37, 41}, []float64{1, 1, 1, 1, 1, 9}, 3, []int{1, 14, 26}, 3},
		{"equal but for rounding", []int{1, 2, 3, 4}, []float64{.1, .2, .3, .4}, 4, []int{1, 3}, .4},
		{"a split that costs more", []int{1, 2}, []float64{5, 1}, 4, []int{1, 1}, 10},
		{"unavailable part", []int{1, 2, 3, 4}, []float64{1, inf, 1, 9}, 2, []int{1, 3}, 2},
		{"all unavailable", []int{1, 2}, []float64{inf, inf}, 4, nil, inf},
		{"of an unavailable row", []int{1, 2}, []float64{1, inf}, 4, []int{1, 1}, 2},
		{"one row", []int{7}, []float64{1}, 4, nil, inf},
	} {
		for name, limit := range map[string]int{"dense": denseLimit, "sparse": 0} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				p := partitionWithin(tt.ms, tt.cost, tt.parts, limit)
				parts, sum := p.Parts(len(tt.ms)-1, tt.parts)
				if !slices.Equal(parts, tt.want) || math.Abs(sum-tt.sum) > 1e-12 {
					t.Errorf("%v at %v, want %v at %v", parts, sum, tt.want, tt.sum)
				}
			})
		}
	}
}

// Powers of two to 2³⁰, for which the dense search would need 8 GiB per array.
func TestPartitionBeyondDense(t *testing.T) {
	var ms []int
	var cost []float64
	for e := range 31 {
		ms = append(ms, 1<<e)
		cost = append(cost, 1+float64(int(1)<<e)/1024)
		if e > 12 {
			cost[e] *= 8
		}
	}
	p := New(ms, cost, 16)
	if p.Cut {
		t.Fatal("the search was cut")
	}
	parts, sum := p.Parts(16, 16)
	want := slices.Repeat([]int{1 << 12}, 16)
	if !slices.Equal(parts, want) || sum != 16*cost[12] {
		t.Errorf("m%d: %v at %v, want %v at %v", ms[16], parts, sum, want, 16*cost[12])
	}
}

func TestPartitionLeavesOut(t *testing.T) {
	const top, most = 3000, 5
	for name, time := range map[string]func(random *rand.Rand, m int) float64{
		"random":   func(random *rand.Rand, m int) float64 { return float64(1 + random.IntN(1000)) },
		"linear":   func(_ *rand.Rand, m int) float64 { return float64(100 + m) },
		"stairs":   func(_ *rand.Rand, m int) float64 { return float64(50 + 40*((m+127)/128) + 400*(m/1700)) },
		"noisy":    func(random *rand.Rand, m int) float64 { return float64(10000+40*m) + float64(random.IntN(400)) },
		"falling":  func(_ *rand.Rand, m int) float64 { return float64(2*top - m) },
		"constant": func(*rand.Rand, int) float64 { return 7 },
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			var ms []int
			var cost []float64
			plain := make([]float64, top+1) // at most k-1 parts, by sum
			for m := range plain {
				if plain[m] = math.Inf(1); m > 0 && random.IntN(8) > 0 {
					ms, cost = append(ms, m), append(cost, time(random, m))
					plain[m] = cost[len(cost)-1]
				}
			}
			p := New(ms, cost, most)
			split := make([]float64, top+1) // 2 to k parts
			for s := range split {
				split[s] = math.Inf(1)
			}
			for k := 2; k <= most; k++ {
				for s := range split {
					for j, m := range ms {
						if m >= s {
							break
						}
						split[s] = min(split[s], cost[j]+plain[s-m])
					}
				}
				for i, m := range ms {
					parts, got := p.Parts(i, k)
					var total float64
					for _, part := range parts {
						at, _ := slices.BinarySearch(ms, part)
						total += cost[at]
					}
					if got != split[m] || parts != nil && total != got {
						t.Fatalf("m%d in %d parts: %v at %v, stated %v, want %v", m, k, parts, total, got, split[m])
					}
				}
				for s := range plain {
					plain[s] = min(plain[s], split[s])
				}
			}
		})
	}
}

// A grid with too many sums of 16 parts still gives a valid split, and the best one of two parts.
func TestPartitionCut(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	ms := []int{1, 1 << 30}
	for range 200 {
		ms = append(ms, 2+random.IntN(1<<26))
	}
	slices.Sort(ms)
	ms = slices.Compact(ms)
	last := len(ms) - 1
	cost := slices.Repeat([]float64{1}, len(ms))
	s := sparseSearch{steps: 1000}
	p := emptyPartition(ms, 16)
	s.search(p, cost)
	if !p.Cut {
		t.Error("no search was cut")
	}
	for i := range last {
		pair := math.Inf(1)
		for _, m := range ms[:i] {
			if _, ok := slices.BinarySearch(ms, ms[i]-m); ok {
				pair = 2
			}
		}
		if _, got := p.Parts(i, 2); got != pair {
			t.Errorf("m%d in two parts: %v, want %v", ms[i], got, pair)
		}
		sum := 0
		parts, got := p.Parts(i, 16)
		for _, m := range parts {
			sum += m
		}
		if parts != nil && (sum != ms[i] || got != float64(len(parts))) {
			t.Errorf("m%d: parts %v add up to %d and cost %v", ms[i], parts, sum, got)
		}
	}
}

func TestCheapestAbove(t *testing.T) {
	got := CheapestAbove([]float64{5, 1, 4, 2, 2, 9})
	if want := []int{1, 3, 3, 4, 5, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
