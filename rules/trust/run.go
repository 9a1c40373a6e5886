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

	"github.com/gemmaudit/gemmaudit/rules"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.trust/1"

// Options say what is simulated.
type Options struct {
	Machines int    // in all, dealt to the kinds in turn
	Seed     uint64 // from which all machines and all noise follow
	Kinds    []Kind // none is all
	Config   rules.Config
	// Worst is how many offences of each measure and kind are kept, those that miss
	// the bound most.
	Worst int
	// Keep is a folder in which the run files stay; empty keeps none.
	Keep string
	// Workers is how many machines run side by side; 0 is one a processor.
	Workers int
	// Progress is called after every machine, by one goroutine at a time; nil is not.
	Progress func(done, of int)
}

// Result is what has been counted.
type Result struct {
	Schema    string       `json:"schema"`
	Machines  int          `json:"machines"`
	Seed      uint64       `json:"seed"`
	Threshold float64      `json:"threshold"` // of the monotonic rule
	Kinds     []KindResult `json:"kinds"`
	// Broken lists the rates whose upper limit passes their bound, Thin those of which
	// too little was counted to tell.
	Broken []Rate `json:"broken"`
	Thin   []Rate `json:"thin,omitempty"`
	// Worst are offences, by kind and measure, those that miss the bound most first.
	Worst []Offence `json:"worst,omitempty"`
}

// KindResult is what has been counted under one kind of noise.
type KindResult struct {
	Kind
	Machines int     `json:"machines"`
	Samples  float64 `json:"samples"` // of a row, on average
	Rates    []Rate  `json:"rates"`
	// Detection is by depth, ascending.
	Detection []Detection `json:"detection"`
	// Promised and Predicted are the medians of promised ÷ true gain − 1 over emitted
	// remedies: as they were executed, and as the sweep had them. Remedies is how many.
	Promised  float64 `json:"promised_bias"`
	Predicted float64 `json:"predicted_bias"`
	Remedies  int     `json:"remedies"`
}

// Detection is how many of the intervals planted at a depth were found.
type Detection struct {
	Depth float64 `json:"depth"`
	Count
	Share float64 `json:"share"`
	Lower float64 `json:"lower"` // 95 % limit
}

// Rate is that of a measure.
func (k KindResult) Rate(m Measure) Rate {
	for _, r := range k.Rates {
		if r.Measure == m {
			return r
		}
	}
	return Rate{Kind: k.Name, Measure: m}
}

// Run simulates machines and counts. The result follows from the options alone,
// whatever the number of workers. When ctx ends, the error wraps its cause.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Machines < 1 {
		return nil, fmt.Errorf("%d machines, expected at least 1", o.Machines)
	}
	if err := o.Config.Validate(); err != nil {
		return nil, err
	}
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds()
	}
	folder := o.Keep
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "gemmaudit-trust-"); err != nil {
			return nil, fmt.Errorf("make a folder for runs where TMPDIR says: %w", err)
		}
		defer os.RemoveAll(folder)
	} else if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	tallies, err := o.simulate(ctx, folder)
	if err != nil {
		return nil, err
	}
	return o.sum(tallies), nil
}

// simulate examines every machine and returns the tallies of the kinds.
func (o Options) simulate(ctx context.Context, folder string) ([]*tally, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := o.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	all := make([]*tally, o.Machines)
	next := make(chan int)
	var mu sync.Mutex
	var wait sync.WaitGroup
	done := 0
	for range workers {
		wait.Go(func() {
			for i := range next {
				t, err := o.examine(ctx, i, folder)
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				all[i] = t
				if done++; o.Progress != nil {
					o.Progress(done, o.Machines)
				}
				mu.Unlock()
			}
		})
	}
	for i := range o.Machines {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wait.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
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

// examine simulates the ith machine.
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

// trim keeps the worst offences of each measure.
func (t *tally) trim(most int) {
	slices.SortStableFunc(t.offences, func(a, b Offence) int {
		return cmp.Or(strings.Compare(string(a.Measure), string(b.Measure)), cmp.Compare(b.Beyond, a.Beyond),
			cmp.Compare(a.Machine, b.Machine), strings.Compare(a.Run, b.Run), strings.Compare(a.Kernel, b.Kernel), cmp.Compare(a.M, b.M), strings.Compare(a.Verdict, b.Verdict))
	})
	kept, of := t.offences[:0], map[Measure]int{}
	for _, f := range t.offences {
		if of[f.Measure]++; of[f.Measure] <= most {
			kept = append(kept, f)
		}
	}
	t.offences = kept
}

// sum turns tallies into rates.
func (o Options) sum(tallies []*tally) *Result {
	r := &Result{Schema: Schema, Machines: o.Machines, Seed: o.Seed, Threshold: o.Config.Threshold, Broken: []Rate{}}
	for k, kind := range o.Kinds {
		t := tallies[k]
		out := KindResult{Kind: kind, Machines: (o.Machines - k + len(o.Kinds) - 1) / len(o.Kinds), Samples: float64(t.samples) / float64(max(1, t.rows)), Remedies: len(t.promised),
			Promised: math.Expm1(middle(t.promised)), Predicted: math.Expm1(middle(t.predicted))}
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
