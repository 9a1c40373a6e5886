//go:build cuda

package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// What BenchmarkCandidates is told: the file to write, after how many seconds no further
// case begins, and the seed of what is drawn.
const (
	candidatesEnv        = "GEMMAUDIT_CANDIDATES"
	candidatesSecondsEnv = "GEMMAUDIT_CANDIDATES_SECONDS"
	candidatesSeedEnv    = "GEMMAUDIT_CANDIDATES_SEED"
)

const (
	// candidateBlock is the length of one sample in seconds, as far as launches are shorter.
	candidateBlock = 200e-6
	// candidateMost is how many launches a sample has at most.
	candidateMost = 400
	// hopeless is the ratio to the fastest candidate of its family beyond which one that is
	// expected to be so slow is not measured.
	hopeless = 1.6
	// Beside drawn cases, the fastest candidate of all families counts, and one of surpriseOf that
	// are expected to be slower is measured, up to farBehind times.
	farBehind, surpriseOf = 3, 8
)

// choice tells whether a candidate is measured that is expected to take some seconds: beside
// those of the fastest of its family.
type choice func(seconds, least float64) bool

func worthwhile(seconds, least float64) bool { return seconds <= hopeless*least }

// thinned is what is measured of a case so that there is time for more cases: of each family
// the fastest, all that are not hopeless beside the fastest of all families, and
// some of those that are, which the case and the seed draw: models may be wrong.
func thinned(a planning.Arch, c candidates.Case, seed uint64) (choice, error) {
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
	return func(seconds, least float64) bool {
		drawn := rng.IntN(surpriseOf) == 0
		return seconds <= hopeless*best || seconds <= least || drawn && seconds <= farBehind*best
	}, nil
}

// planned is a family that was asked already.
type planned[P, A any] struct {
	planning.Family[P, A]
	plan planning.Plan[A]
}

func (p planned[P, A]) Plan(planning.Arch, P) planning.Plan[A] { return p.plan }

// chosen yields those of a family's candidates that are measured.
func chosen[P, A any](a planning.Arch, f planning.Family[P, A], p P, is choice, yield func(index int, plan planning.Plan[A], one planning.Family[P, A])) {
	if f.Supports(a, p) != "" {
		return
	}
	all := f.(planning.Chooser[P, A]).Candidates(a, p)
	best := planning.Fastest(all).Seconds
	for i, plan := range all {
		if is(plan.Seconds, best) {
			yield(i, plan, planned[P, A]{f, plan})
		}
	}
}

// choosers is a GPU whose kernels are the candidates of all families for one case, each a
// kernel of its own.
type choosers struct {
	*driver.Device
	gemms      []kernels.Gemm
	attentions []kernels.AttentionKernel
	times      []candidates.Time // of the kernels, without times
}

func (d *choosers) Gemms() []kernels.Gemm                       { return d.gemms }
func (d *choosers) Missing() []kernels.Missing                  { return nil }
func (d *choosers) AttentionKernels() []kernels.AttentionKernel { return d.attentions }

func newChoosers(d *driver.Device, c candidates.Case, is choice) (*choosers, error) {
	all := &choosers{Device: d}
	add := func(family string, index int, label string) {
		all.times = append(all.times, candidates.Time{Case: c, Family: family, Index: index, Label: label})
	}
	if c.Operation == kernels.GEMM {
		p, err := c.Product()
		if err != nil {
			return nil, err
		}
		for _, f := range candidates.Products() {
			chosen(d.Arch(), f, p, is, func(i int, plan gemm.Plan, one gemm.Family) {
				add(f.Name(), i, plan.Label)
				all.gemms = append(all.gemms, gemm.NewKernel(d, f.Name(), "", one))
			})
		}
		return all, nil
	}
	p, err := c.Attention()
	if err != nil {
		return nil, err
	}
	for _, f := range candidates.Attentions() {
		chosen(d.Arch(), f, p, is, func(i int, plan planning.Plan[attention.Addresses], one planning.Family[attention.Problem, attention.Addresses]) {
			add(f.Name(), i, plan.Label)
			all.attentions = append(all.attentions, attention.NewWay(d, f.Name(), "", one))
		})
	}
	return all, nil
}

// candidateCase is a case's memory and its candidates, bound to it.
type candidateCase struct {
	*choosers
	c       candidates.Case
	closers []func() error
	bound   []candidateLaunches
}

// candidateLaunches is one candidate, a launch for each copy of what stays in memory.
type candidateLaunches struct {
	launches []kernels.Launch
	at, n    int
	samples  []float64
}

func (s *candidateCase) close() error {
	var all []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		all = append(all, s.closers[i]())
	}
	return errors.Join(all...)
}

// alloc is memory of so many bytes, filled with normal data.
func (s *candidateCase) alloc(bytes int64, t kernels.DType, seed uint64) (kernels.Buffer, error) {
	b, err := s.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b.Close)
	if t == kernels.INT32 {
		return b, nil // what is written only
	}
	return b, b.Fill(kernels.Normal, t, bytes/int64(t.Size()), seed)
}

// bind makes launches of every candidate, over as many copies of weights, or of keys and
// values, as make three times the L2.
func (s *candidateCase) bind() error {
	all := kernels.Implementations(s, s.c.Operation)
	if len(all) == 0 {
		return nil
	}
	task := s.c.Task()
	in, err := s.alloc(s.c.InputElements(s.c.M)*int64(s.c.DType.Size()), s.c.DType, 1)
	if err != nil {
		return err
	}
	out, err := s.alloc(s.c.OutputElements(s.c.M)*int64(s.c.OutputType().Size()), kernels.INT32, 0)
	if err != nil {
		return err
	}
	s.bound = make([]candidateLaunches, len(all))
	stored := s.c.Stored(s.c.M)
	for n := range 3*s.Spec().LastLevelCacheBytes/stored + 1 {
		raw, err := s.alloc(stored, s.c.DType, uint64(n)+2)
		if err != nil {
			return err
		}
		// All our kernels share what was prepared of one matrix, or of one cache.
		weights, err := all[0].PrepareWeights(task, raw)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, weights.Close)
		for i, k := range all {
			l, err := k.Bind(task, kernels.Operand{Buffer: in}, weights, kernels.Operand{Buffer: out})
			if err != nil {
				return fmt.Errorf("%s %s: %w", s.times[i].Family, s.times[i].Label, err)
			}
			if l.Label() != s.times[i].Label {
				return fmt.Errorf("%s %s is %q when it is bound", s.times[i].Family, s.times[i].Label, l.Label())
			}
			s.bound[i].launches = append(s.bound[i].launches, l)
		}
	}
	for i := range s.bound {
		b := &s.bound[i]
		b.n = len(b.launches)
		once, err := s.sample(i) // loads code, too
		if err != nil {
			return err
		}
		b.n = int(min(max(candidateBlock/once, 1), candidateMost))
	}
	return nil
}

// sample executes one block of a candidate and returns the seconds of a launch.
func (s *candidateCase) sample(i int) (float64, error) {
	b := &s.bound[i]
	turned := append(append([]kernels.Launch(nil), b.launches[b.at:]...), b.launches[:b.at]...)
	b.at = (b.at + b.n) % len(b.launches)
	span, err := s.Execute(context.Background(), turned, b.n)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", s.times[i].Family, s.times[i].Label, err)
	}
	return span.Seconds / float64(b.n), nil
}

// measureCandidates measures the candidates of a case in rounds, each in an order that rng
// draws, as long as another tells it to; those that is tells.
func measureCandidates(d *driver.Device, c candidates.Case, is choice, rng *rand.Rand, another func() bool) (times []candidates.Time, err error) {
	all, err := newChoosers(d, c, is)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	s := &candidateCase{choosers: all, c: c}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.bind(); err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	for another() {
		for _, i := range rng.Perm(len(s.bound)) {
			seconds, err := s.sample(i)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", c, err)
			}
			s.bound[i].samples = append(s.bound[i].samples, seconds)
		}
	}
	for i, b := range s.bound {
		if len(b.samples) == 0 {
			return nil, fmt.Errorf("%v: no round was measured", c)
		}
		t := s.times[i]
		t.Seconds, t.Interval[0], t.Interval[1] = kerneltest.Interval(b.samples)
		times = append(times, t)
	}
	return times, nil
}

// describeCard is the first line of a file of candidates.
func describeCard(d *driver.Device, date string) candidates.Card {
	s := d.Spec()
	return candidates.Describe(s.Name, cmp.Or(s.Versions["driver"], "unrecorded"), date, d.Arch())
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
	if err := candidates.WriteCard(f, describeCard(d.Device, start.UTC().Format(time.DateOnly))); err != nil {
		b.Fatal(err)
	}
	benchmarkCandidates(b, d.Device, f, seed, func() bool { return time.Since(start).Seconds() < budget })
}

func benchmarkCandidates(b *testing.B, d *driver.Device, w io.Writer, seed uint64, timeLeft func() bool) {
	rng := rand.New(rand.NewPCG(cmp.Or(seed, gridSeed), 0))
	cases, end := newTurns(seed)
	defer end()
	count, measured := 0, map[bool]int{}
	for timeLeft() {
		c, spent, ok := cases.next()
		if !ok {
			break
		}
		began := time.Now()
		sound := b.Run(strings.ReplaceAll(c.String(), " ", "_"), func(b *testing.B) {
			var is choice = worthwhile
			var err error
			if seed != 0 {
				is, err = thinned(d.Arch(), c, seed)
			}
			if err != nil {
				b.Fatal(err)
			}
			times, err := measureCandidates(d, c, is, rng, b.Loop)
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
