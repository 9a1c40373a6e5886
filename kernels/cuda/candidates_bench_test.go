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

// What BenchmarkCandidates is told: the file to write, after how many seconds no further
// case begins, the seed of what is drawn, and a file of BenchmarkReach that has the cases.
const (
	candidatesEnv        = "GEMMAUDIT_CANDIDATES"
	candidatesSecondsEnv = "GEMMAUDIT_CANDIDATES_SECONDS"
	candidatesSeedEnv    = "GEMMAUDIT_CANDIDATES_SEED"
	candidatesOfEnv      = "GEMMAUDIT_CANDIDATES_OF"
)

const (
	// hopeless is the ratio to the fastest candidate of its family beyond which one that is
	// expected to be so slow is not measured.
	hopeless = 1.6
	// Where a seed thins them out, those within promising times the fastest candidate of all families are
	// measured, and one of surpriseOf that are expected to be slower, up to farBehind times.
	promising, farBehind, surpriseOf = 1.15, 2, 24
)

// worthwhile are the places of those of a family's candidates that are not hopeless.
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

// thinned is what is measured of a case so that there is time for more cases: of each family
// the fastest, all that are promising beside the fastest of all families, and
// some of those that are not, which the case and the seed draw: models may be wrong.
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

// gridSeed is of the order of the grid where nothing is drawn.
const gridSeed = 1

// turns gives cases of the grid and drawn ones in turn, so that both take about half of the
// time; without a seed, those of the grid alone.
type turns struct {
	seed   uint64
	grid   []candidates.Case
	drawn  func() (candidates.Case, bool)
	onGrid map[candidates.Case]bool
	spent  [2]time.Duration // on cases of the grid, and on drawn ones
}

// fromReach gives the products of a file of BenchmarkReach, those first in which our kernels were behind most.
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

// newTurns returns a function that ends it, too.
func newTurns(seed uint64) (*turns, func()) {
	t := &turns{seed: seed, grid: candidates.Grid(cmp.Or(seed, gridSeed)), onGrid: map[candidates.Case]bool{}}
	for _, c := range t.grid {
		t.onGrid[c] = true
	}
	next, stop := iter.Pull(candidates.Drawn(seed))
	t.drawn = next
	return t, stop
}

// next is the next case, and what counts its time; ok is false after the last.
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

// BenchmarkCandidates measures the candidates of every family that chooses, over the grid of
// package candidates and over cases that GEMMAUDIT_CANDIDATES_SEED draws, and writes their times
// to the file that GEMMAUDIT_CANDIDATES names, to which `go run ./kernels/cuda/fit` fits the
// constants of the card. A case's candidates are measured in interleaved rounds, as many as
// -test.benchtime=5x says. Cases come in random order until GEMMAUDIT_CANDIDATES_SECONDS (300)
// are over. A seed of 0, the default, draws none and thins out no candidates.
//
// GEMMAUDIT_CANDIDATES_OF names a file of BenchmarkReach: its products, those first in which ours took longest beside
// their peer, come instead of the grid and of what is drawn.
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
