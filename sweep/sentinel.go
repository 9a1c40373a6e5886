package sweep

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// SentinelWindow is how many samples a sentinel's latest median is taken over: a
// single one shows what else the machine did in those milliseconds.
const SentinelWindow = 5

// sentinel is a case that recurs through a sweep.
type sentinel struct {
	station
	round int
	us    []float64 // the latest samples, SentinelWindow of them at most
	usual []float64 // all samples of the run, ascending: a night visits a hundred thousand times
	mhz   []seenClock
}

// seenClock is the clock in MHz that a sample told, and the sample's place in the run.
type seenClock struct {
	seq int64
	mhz float64
}

// add takes a sample in and returns what it means.
func (s *sentinel) add(smp results.Sample) Drift {
	if s.us = append(s.us, smp.US); len(s.us) > SentinelWindow {
		s.us = slices.Delete(s.us, 0, 1)
	}
	at, _ := slices.BinarySearch(s.usual, smp.US)
	s.usual = slices.Insert(s.usual, at, smp.US)
	if smp.ClockMHz > 0 {
		s.mhz = append(s.mhz, seenClock{smp.Seq, smp.ClockMHz})
	}
	d := Drift{Case: s.c, Samples: len(s.usual), UsualUS: middle(s.usual), LastUS: median(s.us)}
	d.Change = d.LastUS/d.UsualUS - 1
	return d
}

func median(v []float64) float64 {
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	return middle(sorted)
}

// middle is the median of what is sorted.
func middle(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// sentinelTime is how long one launch of a good sentinel takes: long enough that
// arithmetic counts beside memory, short enough to be visited often.
const sentinelTime = 2e-3

// sentinelCandidates orders the cases of a device by how well they would serve:
// those that served before, then those closest to sentinelTime, of the kernel
// with the most cases first, since it stands for most of the run.
func sentinelCandidates(cases []results.Case, est *Predictor, served map[int64][]int) []results.Case {
	count := map[string]int{}
	var main string
	for _, c := range cases {
		count[c.Kernel]++
		if main == "" {
			main = c.Kernel
		}
	}
	for _, c := range cases {
		if count[c.Kernel] > count[main] {
			main = c.Kernel
		}
	}
	rank := make(map[int64]float64, len(cases))
	for _, c := range cases {
		far := math.Abs(math.Log(est.Launch(c) / sentinelTime))
		if len(served[c.ID]) > 0 {
			far -= 1e6
		}
		if c.Kernel != main {
			far += 1e3
		}
		rank[c.ID] = far
	}
	out := slices.Clone(cases)
	slices.SortStableFunc(out, func(a, b results.Case) int { return cmp.Compare(rank[a.ID], rank[b.ID]) })
	return out
}

// WarmUp is how a device came to rest before the first sample.
type WarmUp struct {
	Device  string  `json:"device"`
	Blocks  int     `json:"blocks"`
	Seconds float64 `json:"seconds"`
	// Spread is (slowest − fastest) ÷ median of the last windows.
	Spread  float64 `json:"spread"`
	Settled bool    `json:"settled"`
}

// warmUp runs blocks of a station until their times have settled, the cap is
// reached, or the context ends.
func warmUp(ctx context.Context, b *rig, s *station, cfg SentinelConfig, now func() time.Time) (WarmUp, error) {
	w := WarmUp{Device: b.spec.ID}
	start := now()
	if err := b.pilot(ctx, s); err != nil {
		return w, err
	}
	var windows, window []float64
	opened := now()
	for ctx.Err() == nil && !w.Settled && w.Seconds < cfg.SettleCap.Seconds() {
		span, err := b.block(ctx, s, s.perBlock)
		if err != nil {
			return w, err
		}
		w.Blocks++
		window = append(window, span.Seconds)
		t := now()
		w.Seconds = t.Sub(start).Seconds()
		if t.Sub(opened) < cfg.SettleWindow {
			continue
		}
		windows = append(windows, median(window))
		window, opened = window[:0], t
		last := windows[max(0, len(windows)-cfg.SettleWindows):]
		w.Spread = (slices.Max(last) - slices.Min(last)) / median(last)
		w.Settled = len(last) == cfg.SettleWindows && w.Spread <= cfg.SettleSpread
	}
	// What the pilot measured on a cold device is corrected before it sizes blocks.
	if len(windows) > 0 {
		t := windows[len(windows)-1] / float64(s.perBlock)
		s.learn(t, b.executions(t))
	}
	return w, nil
}

// deviceLost says whether nothing more can be had from the device.
func deviceLost(err error) bool { return errors.Is(err, kernels.ErrDeviceLost) }
