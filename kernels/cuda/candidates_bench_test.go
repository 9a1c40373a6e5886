//go:build cuda

package cuda

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

const (
	candidatesEnv        = "GEMMAUDIT_CANDIDATES"
	candidatesSecondsEnv = "GEMMAUDIT_CANDIDATES_SECONDS"
	candidatesSeedEnv    = "GEMMAUDIT_CANDIDATES_SEED"
	candidatesOfEnv      = "GEMMAUDIT_CANDIDATES_OF"
)

const (
	// hopeless is the ratio of expected time to the family's fastest above which a candidate is not measured.
	hopeless = 1.6
	// With a seed, candidates within promising times the fastest of all families are measured, plus one in
	// surpriseOf of the slower ones, up to farBehind times.
	promising, farBehind, surpriseOf = 1.15, 2, 24
)

func worthwhile(_ string, expected []float64) []int {
	best := slices.Min(expected)
	var all []int
	for i, seconds := range expected {
		if seconds <= hopeless*best {
			all = append(all, i)
		}
	}
	return all
}

// thinned selects the candidates of a case to measure, to leave time for more cases: the fastest of each
// family, all promising ones, and a random sample of the rest, because models may be wrong.
func thinned(a planning.Arch, c candidates.Case, seed uint64) (timing.Which, error) {
	best := math.Inf(1)
	for _, family := range candidates.Families(c.Operation) {
		all, err := candidates.Expect(a, c, family)
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			best = min(best, e.Seconds)
		}
	}
	of := fnv.New64a()
	io.WriteString(of, c.String())
	rng := rand.New(rand.NewPCG(seed, of.Sum64()))
	return func(_ string, expected []float64) []int {
		least := slices.Min(expected)
		var all []int
		for i, seconds := range expected {
			drawn := rng.IntN(surpriseOf) == 0
			if seconds <= promising*best || seconds <= least || drawn && seconds <= farBehind*best {
				all = append(all, i)
			}
		}
		return all
	}, nil
}

const gridSeed = 1

// turns alternates grid and random cases in about equal time; without a seed it gives grid cases only.
type turns struct {
	seed   uint64
	grid   []candidates.Case
	drawn  func() (candidates.Case, bool)
	onGrid map[candidates.Case]bool
	spent  [2]time.Duration // of grid cases and of random cases
}

// fromReach returns the products of a file of BenchmarkReach, those furthest behind the library first.
func fromReach(name string) (*turns, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	_, rows, err := reach.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &turns{onGrid: map[candidates.Case]bool{}}
	for _, p := range reach.Hardest(rows) {
		s := kernels.Product(p.DType, p.N, p.K)
		s.Layout = kernels.Transposed
		c := candidates.Case{Subject: s, M: p.M}
		t.grid, t.onGrid[c] = append(t.grid, c), true
	}
	return t, nil
}

func newTurns(seed uint64) (*turns, func()) {
	t := &turns{seed: seed, grid: candidates.Grid(cmp.Or(seed, gridSeed)), onGrid: map[candidates.Case]bool{}}
	for _, c := range t.grid {
		t.onGrid[c] = true
	}
	next, stop := iter.Pull(candidates.Drawn(seed))
	t.drawn = next
	return t, stop
}

func (t *turns) next() (c candidates.Case, spent *time.Duration, ok bool) {
	if len(t.grid) > 0 && (t.seed == 0 || t.spent[0] <= t.spent[1]) {
		c, t.grid = t.grid[0], t.grid[1:]
		return c, &t.spent[0], true
	}
	if t.seed == 0 {
		return c, nil, false
	}
	for c, ok = t.drawn(); ok && t.onGrid[c]; {
		c, ok = t.drawn()
	}
	return c, &t.spent[1], ok
}

// BenchmarkCandidates measures the candidates of every family that chooses plans, and writes their times to
// the file GEMMAUDIT_CANDIDATES. `go run ./kernels/cuda/fit` fits the constants of the card to that file.
// Cases come from the grid of package candidates and from the seed GEMMAUDIT_CANDIDATES_SEED, in random
// order, until GEMMAUDIT_CANDIDATES_SECONDS (300) have passed. A case's candidates are measured in
// interleaved rounds; -test.benchtime=5x means five. With seed 0, the default, there are no random cases and
// every candidate is measured.
//
// GEMMAUDIT_CANDIDATES_OF names a file of BenchmarkReach. Its products replace the grid and the random cases,
// those furthest behind their peer first.
func BenchmarkCandidates(b *testing.B) {
	name := os.Getenv(candidatesEnv)
	if name == "" {
		b.Skipf("%s names no file", candidatesEnv)
	}
	d := gpu(b)
	budget, err := strconv.ParseFloat(cmp.Or(os.Getenv(candidatesSecondsEnv), "300"), 64)
	if err != nil || math.IsNaN(budget) || budget <= 0 {
		b.Fatalf("%s is %q, expected a number of seconds", candidatesSecondsEnv, os.Getenv(candidatesSecondsEnv))
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(candidatesSeedEnv), "0"), 10, 64)
	if err != nil {
		b.Fatalf("%s is %q, expected a whole number", candidatesSeedEnv, os.Getenv(candidatesSeedEnv))
	}
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	}()
	start := time.Now()
	if err := candidates.WriteCard(f, timing.Describe(d.Device, start.UTC().Format(time.DateOnly))); err != nil {
		b.Fatal(err)
	}
	var cases *turns
	if of := os.Getenv(candidatesOfEnv); of == "" {
		var end func()
		cases, end = newTurns(seed)
		defer end()
	} else if cases, err = fromReach(of); err != nil {
		b.Fatal(err)
	}
	benchmarkCandidates(b, d.Device, f, cases, seed, func() bool { return time.Since(start).Seconds() < budget })
}

func benchmarkCandidates(b *testing.B, d *driver.Device, w io.Writer, cases *turns, seed uint64, timeLeft func() bool) {
	rng := rand.New(rand.NewPCG(cmp.Or(seed, gridSeed), 0))
	count, measured := 0, map[bool]int{}
	for timeLeft() {
		c, spent, ok := cases.next()
		if !ok {
			break
		}
		began := time.Now()
		sound := b.Run(strings.ReplaceAll(c.String(), " ", "_"), func(b *testing.B) {
			which := timing.Which(worthwhile)
			var err error
			if seed != 0 {
				which, err = thinned(d.Arch(), c, seed)
			}
			if err != nil {
				b.Fatal(err)
			}
			times, err := timing.Plans(b.Context(), d, c, which, rng, b.Loop)
			if err == nil {
				err = candidates.WriteTimes(w, times)
			}
			if err != nil {
				b.Fatal(err)
			}
			count, measured[cases.onGrid[c]] = count+len(times), measured[cases.onGrid[c]]+1
			b.ReportMetric(float64(len(times)), "candidates")
			b.ReportMetric(0, "ns/op")
		})
		if !sound {
			b.FailNow()
		}
		*spent += time.Since(began)
	}
	fmt.Fprintf(os.Stderr, "%d candidates of %d of %d cases of the grid in %.0f s, and of %d that seed %d draws in %.0f s\n",
		count, measured[true], len(cases.onGrid), cases.spent[0].Seconds(), measured[false], seed, cases.spent[1].Seconds())
}
