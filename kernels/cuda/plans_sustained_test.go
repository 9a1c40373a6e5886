//go:build cuda

package cuda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

const sustainedPlansEnv = "GEMMAUDIT_SUSTAINED_PLANS"

const (
	// The plan with the best expected time is measured for each of at most mostPlans tiles, if it is within
	// nearPlan of the fastest.
	mostPlans = 16
	nearPlan  = 1.12
	// A plan starts at the clock that the power limit set for the previous one.
	nextSeconds = 0.5
)

type sustainedPlan struct {
	candidates.Time
	MJ       float64 `json:"mj"`
	Busy     float64 `json:"busy"`
	Expected float64 `json:"expected"` // seconds
}

func sustainedCases() (all []candidates.Case) {
	for _, p := range [][3]int{
		{256, 14336, 4096}, {512, 14336, 4096}, {1024, 4096, 4096}, {1024, 14336, 4096}, {2048, 6144, 4096}, {4096, 4096, 14336},
		{4096, 28672, 4096},
	} {
		s := kernels.Product(kernels.BF16, p[1], p[2])
		s.Layout = kernels.Transposed
		all = append(all, candidates.Case{Subject: s, M: p[0]})
	}
	return all
}

// BenchmarkSustainedPlans runs the promising plans of a few products separately, one per tile, half a second
// each and twice. It shows how much the power limit slows each of them. -test.benchtime=1x runs it once.
func BenchmarkSustainedPlans(b *testing.B) {
	d := gpu(b)
	rng := rand.New(rand.NewPCG(1, 5))
	var w io.Writer = os.Stderr
	if name := os.Getenv(sustainedPlansEnv); name != "" {
		f, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		}()
		w = io.MultiWriter(w, f)
	}
	for _, c := range sustainedCases() {
		all, err := sustainPlans(b.Context(), d, c, startSeconds, nextSeconds, sustainedSeconds, rng)
		if err != nil {
			b.Fatalf("%v: %v", c, err)
		}
		for _, p := range all {
			if err := json.NewEncoder(w).Encode(p); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
}

func sustainPlans(ctx context.Context, d *Device, c candidates.Case, start, next, span float64,
	rng *rand.Rand) (all []sustainedPlan, err error) {
	problem, err := c.Product()
	if err != nil {
		return nil, err
	}
	picked, _, ok := planning.Pick(families, d.Arch(), problem)
	if !ok {
		return nil, errors.New("nothing is picked")
	}
	family := picked.Name()
	expected, err := candidates.Expect(d.Arch(), c, family)
	if err != nil {
		return nil, err
	}
	places := tilesOf(expected)
	s, err := timing.Bind(ctx, d.Device, c, func(name string, _ []float64) []int {
		if name == family {
			return places
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	order := rng.Perm(s.Len())
	all = make([]sustainedPlan, s.Len())
	for i := range all {
		all[i].Time, all[i].Expected = s.Plan(i), expected[s.Plan(i).Index].Seconds
	}
	for range sustainedPasses {
		for _, i := range order {
			x, err := sustain(d, s.Launches(i), start, span,
				func(f *timing.Flight, landed func(kernels.Span)) error { return s.Start(ctx, f, i, landed) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Plan(i).Label, err)
			}
			start = next
			all[i] = all[i].with(x)
		}
		slices.Reverse(order)
	}
	return all, nil
}

func (p sustainedPlan) with(x reach.Sustained) sustainedPlan {
	p.Seconds += 1e-6 * x.US / sustainedPasses
	p.MHz += x.MHz / sustainedPasses
	p.MJ += x.MJ / sustainedPasses
	p.Busy += x.Busy / sustainedPasses
	return p
}

func tilesOf(expected []candidates.Expected) []int {
	best := slices.MinFunc(expected, func(a, b candidates.Expected) int { return cmp.Compare(a.Seconds, b.Seconds) }).Seconds
	order := make([]int, len(expected))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(expected[a].Seconds, expected[b].Seconds) })
	seen := map[string]bool{}
	return slices.DeleteFunc(order, func(i int) bool {
		tile, _, _ := strings.Cut(expected[i].Label, " split ")
		drop := seen[tile] || len(seen) == mostPlans || expected[i].Seconds > nearPlan*best
		if !drop {
			seen[tile] = true
		}
		return drop
	})
}
