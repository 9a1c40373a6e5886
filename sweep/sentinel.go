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
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// SentinelWindow is the number of samples in a sentinel's latest median. A single one is distorted by other
// load within its few milliseconds.
const SentinelWindow = 5

type sentinel struct {
	station
	round int
	us    []float64 // the latest samples, at most SentinelWindow
	usual []float64 // all samples of the run, ascending: an overnight run has a hundred thousand
	mhz   []seenClock
}

// seenClock is a sample's clock in MHz and its seq.
type seenClock struct {
	seq int64
	mhz float64
}

func (s *sentinel) add(smp results.Sample) Drift {
	if s.us = append(s.us, smp.US); len(s.us) > SentinelWindow {
		s.us = slices.Delete(s.us, 0, 1)
	}
	at, _ := slices.BinarySearch(s.usual, smp.US)
	s.usual = slices.Insert(s.usual, at, smp.US)
	if smp.ClockMHz > 0 {
		s.mhz = append(s.mhz, seenClock{smp.Seq, smp.ClockMHz})
	}
	d := Drift{Case: s.c, Samples: len(s.usual), UsualUS: stats.MedianOfSorted(s.usual), LastUS: stats.Median(s.us)}
	d.Change = d.LastUS/d.UsualUS - 1
	return d
}

// sentinelTime is the ideal time of one launch in seconds: long enough that arithmetic counts next to memory,
// short enough for frequent visits.
const sentinelTime = 2e-3

// sentinelCandidates prefers cases that served before, then the kernel with the most cases and times close to
// sentinelTime.
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

// WarmUp describes how a device settled before the first sample.
type WarmUp struct {
	Device  string  `json:"device"`
	Blocks  int     `json:"blocks"`
	Seconds float64 `json:"seconds"`
	// Spread is (slowest − fastest) ÷ median of the last windows.
	Spread  float64 `json:"spread"`
	Settled bool    `json:"settled"`
}

// warmUp runs blocks of a station until their times have settled, the cap is reached, or ctx ends.
func warmUp(ctx context.Context, b *rig, s *station, cfg SentinelConfig, now func() time.Time) (WarmUp, error) {
	w := WarmUp{Device: b.spec.ID}
	start, compiled := now(), b.watch.Warmups
	if err := b.pilot(ctx, s); err != nil {
		return w, err
	}
	start = start.Add(time.Duration(1e9 * (b.watch.Warmups - compiled))) // a compiler warms no device
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
		windows = append(windows, stats.Median(window))
		window, opened = window[:0], t
		last := windows[max(0, len(windows)-cfg.SettleWindows):]
		w.Spread = (slices.Max(last) - slices.Min(last)) / stats.Median(last)
		w.Settled = len(last) == cfg.SettleWindows && w.Spread <= cfg.SettleSpread
	}
	// Correct the pilot's time, measured on a cold device, before it sizes blocks.
	if len(windows) > 0 {
		t := windows[len(windows)-1] / float64(s.perBlock)
		s.learn(t, b.executions(t))
	}
	return w, nil
}

func deviceLost(err error) bool { return errors.Is(err, kernels.ErrDeviceLost) }
