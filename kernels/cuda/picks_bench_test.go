//go:build cuda

package cuda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	picksEnv        = "GEMMAUDIT_PICKS"
	picksSecondsEnv = "GEMMAUDIT_PICKS_SECONDS"
	picksSeedEnv    = "GEMMAUDIT_PICKS_SEED"
)

const (
	pickCases = 500
	// Rounds: all candidates, then the best few and the pick, then the pick and the best on new samples. The
	// new samples avoid selection bias toward lucky minimums.
	pickScreen, pickFinal, pickProof = 3, 6, 9
	pickFinalists                    = 4
	// closePick is the maximum ratio to the best for a good pick.
	closePick = 1.01
)

// Pick is a planned case and the time of its best candidate.
type Pick struct {
	candidates.Case
	Picked string  `json:"picked"`
	Best   string  `json:"best"`
	US     float64 `json:"us"`    // time of the pick
	Ratio  float64 `json:"ratio"` // pick to best; 1 if they are equal
	Among  int     `json:"among"`
}

func randomCases(rng *rand.Rand) []candidates.Case {
	types := []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8, kernels.FP8}
	side := func() int { return 512 + 64*rng.IntN(249) }
	var all []candidates.Case
	for i := range pickCases {
		s := kernels.Product(types[i%len(types)], side(), side())
		s.Layout = kernels.Transposed
		all = append(all, candidates.Case{Subject: s, M: int(math.Exp(rng.Float64() * math.Log(16385)))})
	}
	return all
}

// BenchmarkPicks compares the models' picks with the best of their candidates in random cases, until
// GEMMAUDIT_PICKS_SECONDS (300) have passed. It prints the share within 1 % of the best. -test.benchtime=1x
// runs it once.
func BenchmarkPicks(b *testing.B) {
	d := gpu(b)
	budget, err := strconv.ParseFloat(cmp.Or(os.Getenv(picksSecondsEnv), "300"), 64)
	if err != nil || !(budget > 0) {
		b.Fatalf("%s is %q, expected a number of seconds", picksSecondsEnv, os.Getenv(picksSecondsEnv))
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(picksSeedEnv), "1"), 10, 64)
	if err != nil {
		b.Fatalf("%s is %q, expected a whole number", picksSeedEnv, os.Getenv(picksSeedEnv))
	}
	var w io.Writer = io.Discard
	if name := os.Getenv(picksEnv); name != "" {
		f, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := f.Close(); err != nil {
				b.Error(err)
			}
		}()
		w = f
	}
	load, err := bindPicked(b.Context(), d.Device, loadCase)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := load.Close(); err != nil {
			b.Error(err)
		}
	}()
	start := time.Now()
	rng := rand.New(rand.NewPCG(seed, 4))
	var picks []Pick
	for _, c := range randomCases(rng) {
		if time.Since(start).Seconds() >= budget {
			break
		}
		p, err := measurePick(d.Device, c, load, rng)
		if err == nil {
			err = json.NewEncoder(w).Encode(p)
		}
		if err != nil {
			b.Fatal(err)
		}
		picks = append(picks, p)
	}
	printPicks(os.Stderr, picks)
	b.ReportMetric(0, "ns/op")
}

func printPicks(w io.Writer, picks []Pick) {
	line := func(name string, of []Pick) {
		if len(of) == 0 {
			return
		}
		near, sum := 0, 0.0
		var ratios []float64
		for _, p := range of {
			if p.Ratio <= closePick {
				near++
			}
			sum += math.Log(p.Ratio)
			ratios = append(ratios, p.Ratio)
		}
		slices.Sort(ratios)
		fmt.Fprintf(w,
			"picks %-5s %d cases: %.1f %% within 1 %% of the best of their candidates (asked 95 %%), geometric mean %.4f, 95th "+
				"percentile %.3f, worst %.3f\n",
			name, len(of), 100*float64(near)/float64(len(of)), math.Exp(sum/float64(len(of))), ratios[int(0.95*float64(len(ratios)-1))],
			ratios[len(ratios)-1])
	}
	line("all", picks)
	for _, t := range kernels.DTypes() {
		line(string(t), slices.DeleteFunc(slices.Clone(picks), func(p Pick) bool { return p.DType != t }))
	}
	slices.SortFunc(picks, func(a, b Pick) int { return cmp.Compare(b.Ratio, a.Ratio) })
	for _, p := range picks[:min(12, len(picks))] {
		fmt.Fprintf(w, "picks   %.3f %v %.2f us: %s, the best of %d is %s\n", p.Ratio, p.Case, p.US, p.Picked, p.Among, p.Best)
	}
}

// loadCase runs between all samples and keeps the card at the clock under load, which the models assume.
var loadCase = candidates.Case{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: 4096}

func bindPicked(ctx context.Context, d *driver.Device, c candidates.Case) (*timing.Bound, error) {
	problem, err := c.Product()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	family, _, ok := planning.Pick(families, d.Arch(), problem)
	if !ok {
		return nil, fmt.Errorf("%v: nothing is picked", c)
	}
	return timing.Bind(ctx, d, c, func(name string, expected []float64) []int {
		if name != family.Name() {
			return nil
		}
		return []int{slices.Index(expected, slices.Min(expected))}
	})
}

func measurePick(d *driver.Device, c candidates.Case, load *timing.Bound, rng *rand.Rand) (pick Pick, err error) {
	wrong := func(err error) (Pick, error) { return Pick{}, fmt.Errorf("%v: %w", c, err) }
	problem, err := c.Product()
	if err != nil {
		return wrong(err)
	}
	family, plan, ok := planning.Pick(families, d.Arch(), problem)
	if !ok {
		return wrong(errors.New("nothing is picked"))
	}
	ctx := context.Background()
	s, err := timing.Bind(ctx, d, c, worthwhile)
	if err != nil {
		return wrong(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	among := make([]int, s.Len())
	for i := range among {
		among[i] = i
	}
	samples := make([][]float64, s.Len()) // us
	f := &timing.Flight{Device: d}
	defer func() { err = errors.Join(err, f.Land()) }()
	picked := slices.IndexFunc(among, func(i int) bool { return s.Plan(i).Family == family.Name() && s.Plan(i).Label == plan.Label })
	if picked < 0 {
		return wrong(fmt.Errorf("%s %s is picked and no candidate", family.Name(), plan.Label))
	}
	rounds := func(n int) error {
		for range n {
			for _, at := range rng.Perm(len(among)) {
				i := among[at]
				if err := load.Start(ctx, f, 0, func(kernels.Span) {}); err != nil {
					return err
				}
				if err := s.Start(ctx, f, i, func(span kernels.Span) {
					samples[i] = append(samples[i], 1e6*span.Seconds/float64(s.Launches(i)))
				}); err != nil {
					return err
				}
			}
		}
		if err := f.Land(); err != nil {
			return err
		}
		slices.SortFunc(among, func(x, y int) int {
			return cmp.Compare(stats.Median(samples[x]), stats.Median(samples[y]))
		})
		return nil
	}
	if err := rounds(pickScreen); err != nil {
		return wrong(err)
	}
	among = among[:min(pickFinalists, len(among))]
	if !slices.Contains(among, picked) {
		among = append(among, picked)
	}
	if err := rounds(pickFinal); err != nil {
		return wrong(err)
	}
	best := among[0]
	name := func(i int) string { return s.Plan(i).Family + " " + s.Plan(i).Label }
	pick = Pick{Case: c, Picked: name(picked), Best: name(best), US: stats.Median(samples[picked]), Ratio: 1, Among: s.Len()}
	if best == picked {
		return pick, nil
	}
	among = []int{picked, best}
	for _, i := range among {
		samples[i] = nil
	}
	if err := rounds(pickProof); err != nil {
		return wrong(err)
	}
	var ratios []float64
	for i, us := range samples[picked] {
		ratios = append(ratios, us/samples[best][i])
	}
	pick.Ratio = stats.Median(ratios)
	return pick, nil
}
