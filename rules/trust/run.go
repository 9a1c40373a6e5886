package trust

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.trust/1"

// Options configure a simulation.
type Options struct {
	Machines int    // in all, distributed over the kinds
	Seed     uint64 // determines all machines and noise
	Kinds    []Kind // all if empty, unless Data is not
	// Data lists the kinds of data sets; DataSets is how many of each are made.
	Data     []DataKind
	DataSets int
	Config   rules.Config
	// Worst is how many offenses of each measure and kind are kept, the largest first.
	Worst int
	// Keep is a folder that keeps the run files; empty keeps none.
	Keep string
	// Workers is the number of parallel machines; 0 means one per processor.
	Workers int
	// Progress is called after every machine, by one goroutine at a time; it may be nil.
	Progress func(done, of int)
}

// Result holds all counts.
type Result struct {
	Schema    string       `json:"schema"`
	Machines  int          `json:"machines"`
	Seed      uint64       `json:"seed"`
	Threshold float64      `json:"threshold"` // of the monotonic rule
	Kinds     []KindResult `json:"kinds"`
	// DataSets is the number of data sets of each kind in Data.
	DataSets int          `json:"data_sets,omitempty"`
	Data     []DataResult `json:"data,omitempty"`
	// Broken lists the rates whose upper limit exceeds their bound, Thin those with too small a total.
	Broken []Rate `json:"broken"`
	Thin   []Rate `json:"thin,omitempty"`
	// Worst lists offenses by kind and measure, the largest first.
	Worst []Offence `json:"worst,omitempty"`
}

// KindResult holds the counts under one kind of noise.
type KindResult struct {
	Kind
	Machines int     `json:"machines"`
	Samples  float64 `json:"samples"` // per row, on average
	Rates    []Rate  `json:"rates"`
	// Detection is by depth, ascending.
	Detection []Detection `json:"detection"`
	// Promised and Predicted are the medians of promised ÷ true gain − 1 over emitted remedies, as executed
	// and from the sweep.
	Promised  float64 `json:"promised_bias"`
	Predicted float64 `json:"predicted_bias"`
	Remedies  int     `json:"remedies"`
}

// Detection counts the intervals found at a depth.
type Detection struct {
	Depth float64 `json:"depth"`
	Count
	Share float64 `json:"share"`
	Lower float64 `json:"lower"` // 95 % limit
}

// Rate returns the rate of a measure.
func (k KindResult) Rate(m Measure) Rate {
	for _, r := range k.Rates {
		if r.Measure == m {
			return r
		}
	}
	return Rate{Kind: k.Name, Measure: m}
}

// Run simulates machines and counts. The result does not depend on the number of workers. If ctx ends, the
// error wraps its cause.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Machines < 1 {
		return nil, fmt.Errorf("%d machines, expected at least 1", o.Machines)
	}
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if len(o.Kinds) == 0 && len(o.Data) == 0 {
		o.Kinds = Kinds()
	}
	if len(o.Kinds) == 0 {
		o.Machines = 0
	}
	folder := o.Keep
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "gemmaudit-trust-"); err != nil {
			return nil, fmt.Errorf("create a folder for runs in TMPDIR: %w", err)
		}
		defer os.RemoveAll(folder)
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	tallies, err := o.simulate(ctx, folder)
	if err != nil {
		return nil, err
	}
	r := o.sum(tallies)
	if r.Data, err = RunData(ctx, o.Data, o.DataSets, o.Seed, o.Config, o.Workers); err != nil {
		return nil, err
	}
	r.DataSets = o.DataSets
	for _, k := range r.Data {
		for _, rate := range k.Rates() {
			if rate.Broken {
				r.Broken = append(r.Broken, rate)
			}
		}
	}
	return r, nil
}

func (o Options) simulate(ctx context.Context, folder string) ([]*tally, error) {
	all := make([]*tally, o.Machines)
	var mu sync.Mutex
	done := 0
	err := inParallel(ctx, o.Workers, o.Machines, func(ctx context.Context, i int) (err error) {
		if all[i], err = o.examine(ctx, i, folder); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if done++; o.Progress != nil {
			o.Progress(done, o.Machines)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	sums := make([]*tally, len(o.Kinds))
	for k := range sums {
		sums[k] = newTally()
	}
	for i, t := range all {
		sums[i%len(o.Kinds)].merge(t)
	}
	return sums, nil
}

// inParallel calls f with every number below n, workers at a time; 0 is one per processor. The first failure, or the end of
// ctx, stops it: the error is that one's cause.
func inParallel(ctx context.Context, workers, n int, f func(ctx context.Context, i int) error) error {
	group, inner := errgroup.WithContext(ctx)
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	group.SetLimit(workers)
	for i := range n {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return f(inner, i) })
	}
	return cmp.Or(context.Cause(ctx), group.Wait())
}

func (o Options) examine(ctx context.Context, i int, folder string) (*tally, error) {
	kind, index := o.Kinds[i%len(o.Kinds)], i/len(o.Kinds)
	t := newTally()
	s, err := newSubject(o.Seed, kind, index, o.Config, folder, t)
	if err != nil {
		return nil, err
	}
	if err = s.examine(ctx); err != nil {
		err = fmt.Errorf("machine %d under %s: %w", index, kind.Name, err)
	}
	if o.Keep == "" {
		err = errors.Join(err, s.remove())
	}
	t.trim(o.Worst)
	return t, err
}

func (t *tally) trim(most int) {
	slices.SortStableFunc(t.offences, func(a, b Offence) int {
		return cmp.Or(strings.Compare(string(a.Measure), string(b.Measure)), cmp.Compare(b.Beyond, a.Beyond),
			cmp.Compare(a.Machine, b.Machine), strings.Compare(a.Run, b.Run), strings.Compare(a.Kernel, b.Kernel), cmp.Compare(a.M, b.M),
			strings.Compare(a.Verdict, b.Verdict))
	})
	kept, of := t.offences[:0], map[Measure]int{}
	for _, f := range t.offences {
		if of[f.Measure]++; of[f.Measure] <= most {
			kept = append(kept, f)
		}
	}
	t.offences = kept
}

func (o Options) sum(tallies []*tally) *Result {
	r := &Result{Schema: Schema, Machines: o.Machines, Seed: o.Seed, Threshold: o.Config.Threshold, Broken: []Rate{}}
	for k, kind := range o.Kinds {
		t := tallies[k]
		out := KindResult{Kind: kind, Machines: (o.Machines - k + len(o.Kinds) - 1) / len(o.Kinds),
			Samples: float64(t.samples) / float64(max(1, t.rows)), Remedies: len(t.promised),
			Promised: math.Expm1(stats.Median(t.promised)), Predicted: math.Expm1(stats.Median(t.predicted))}
		for _, m := range Measures() {
			c := t.counts[m]
			if c == nil {
				continue
			}
			rate := newRate(kind.Name, m, *c, kind.bound(m))
			out.Rates = append(out.Rates, rate)
			if rate.Broken {
				r.Broken = append(r.Broken, rate)
			}
			if rate.Thin {
				r.Thin = append(r.Thin, rate)
			}
		}
		for _, depth := range Depths() {
			if c := t.found[depth]; c != nil {
				out.Detection = append(out.Detection, Detection{Depth: depth, Count: *c, Share: c.Share(), Lower: c.Lower()})
			}
		}
		r.Kinds = append(r.Kinds, out)
		t.trim(o.Worst)
		r.Worst = append(r.Worst, t.offences...)
	}
	return r
}
