//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

const sustainedEnv = "GEMMAUDIT_SUSTAINED"

const (
	// A series runs for startSeconds of warm-up and sustainedSeconds of measurement, in sustainedPasses. The
	// power limit applies to the mean of about a second: after 0.1 s of rest a card exceeds its limit by a
	// fifth for about a second.
	startSeconds     = 1
	sustainedSeconds = 0.5
	sustainedPasses  = 2
	// A block in seconds, long enough to prepare the next one on the host.
	sustainedBlock = 10e-3
	// energyPause is the interval between readings of the counter, which updates every 20 to 100 ms.
	energyPause = 5 * time.Millisecond
)

// BenchmarkSustained runs our kernels and the vendor's separately, half a second each and twice, product by
// product. It reports time, clock and energy of a launch. -test.benchtime=1x runs it once.
func BenchmarkSustained(b *testing.B) {
	d := gpu(b)
	machine, err := machineOf(d)
	if err != nil {
		b.Skip(err)
	}
	all, err := measureSustained(newReachBench(d, machine), reach.SustainedJobs(), startSeconds, sustainedSeconds)
	if err == nil {
		err = reach.PrintSustained(os.Stderr, all)
	}
	if name := os.Getenv(sustainedEnv); name != "" && err == nil {
		var f *os.File
		if f, err = os.Create(name); err == nil {
			err = errors.Join(reach.WriteSustained(f, all), f.Close())
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
}

func measureSustained(bench *reachBench, jobs []reach.Job, settle, span float64) (all []reach.Sustained, err error) {
	defer func() { err = errors.Join(err, bench.close()) }()
	leftOut, err := bench.place(jobs)
	if err != nil {
		return nil, err
	}
	if leftOut > 0 {
		fmt.Fprintf(os.Stderr, "sustained: %d shapes do not fit into memory\n", leftOut)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	rng := rand.New(rand.NewPCG(1, 3))
	rng.Shuffle(len(bench.products), func(i, j int) { bench.products[i], bench.products[j] = bench.products[j], bench.products[i] })
	for _, p := range bench.products {
		series := slices.Clone(p.series)
		rng.Shuffle(len(series), func(i, j int) { series[i], series[j] = series[j], series[i] })
		// The previous kernel affects the clock, so the series of a product run in both orders.
		of, uncounted := map[*reachSeries]*reach.Sustained{}, map[*reachSeries]bool{}
		for range sustainedPasses {
			for _, s := range series {
				x, err := s.sustain(bench.d, settle, span)
				if err != nil {
					return nil, fmt.Errorf("%v %s: %w", p.Product, s.name, err)
				}
				if of[s] == nil {
					of[s] = &reach.Sustained{Product: p.Product, Series: s.name, Label: s.Launches[0].Label()}
				}
				of[s].US += x.US / sustainedPasses
				of[s].MHz += x.MHz / sustainedPasses
				of[s].Busy += x.Busy / sustainedPasses
				of[s].MJ += x.MJ / sustainedPasses
				uncounted[s] = uncounted[s] || x.MJ == 0
			}
			slices.Reverse(series)
		}
		for _, s := range p.series {
			if uncounted[s] {
				of[s].MJ = 0
			}
			all = append(all, *of[s])
		}
	}
	return all, nil
}

type energySteps struct {
	seen, steps int
	last        float64
	from, to    energyStep
}

type energyStep struct {
	mj float64
	at time.Time
}

func (e *energySteps) add(mj float64, at time.Time) {
	if e.seen++; e.seen > 1 && mj != e.last {
		e.to = energyStep{mj, at}
		if e.steps++; e.steps == 1 {
			e.from = e.to
		}
	}
	e.last = mj
}

func (e *energySteps) watts() float64 {
	if e.steps < 2 {
		return 0
	}
	return (e.to.mj - e.from.mj) / 1e3 / e.to.at.Sub(e.from.at).Seconds()
}

// follow reads d's energy counter, if any, until told stops it and returns the steps. It runs in parallel
// with the launches, because a reading can outlast a block and would leave the GPU idle.
func follow(d kernels.Device) (told func() *energySteps) {
	e := &energySteps{}
	meter, ok := d.(kernels.EnergyMeter)
	if !ok {
		return func() *energySteps { return e }
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			mj, err := meter.EnergyMJ()
			if err != nil {
				return
			}
			e.add(mj, time.Now())
			select {
			case <-stop:
				return
			case <-time.After(energyPause):
			}
		}
	}()
	return func() *energySteps {
		close(stop)
		<-ended
		return e
	}
}

func (s *reachSeries) sustain(d kernels.Device, settle, span float64) (reach.Sustained, error) {
	one, err := s.seconds()
	if err != nil {
		return reach.Sustained{}, err
	}
	s.N = max(1, int(sustainedBlock/one))
	return sustain(d, s.N, settle, span, func(f *timing.Flight, landed func(kernels.Span)) error {
		return f.Start(context.Background(), kernels.Block{Launches: s.Turned(), N: s.N, Serial: s.serial},
			func(span kernels.Span, err error) error {
				if err == nil {
					landed(span)
				}
				return err
			})
	})
}

func sustain(d kernels.Device, launches int, settle, span float64,
	start func(f *timing.Flight, landed func(kernels.Span)) error) (out reach.Sustained, err error) {
	f := &timing.Flight{Device: d.(kernels.Starter)}
	defer func() { err = errors.Join(err, f.Land()) }()
	var settled, seconds, cycles float64
	for settled < settle {
		if err := start(f, func(span kernels.Span) { settled += span.Seconds }); err != nil {
			return out, err
		}
	}
	// The same number of blocks is in flight at begin and end.
	blocks, told, began := 0, follow(d), time.Now()
	for blocks == 0 || time.Since(began).Seconds() < span {
		if err := start(f, func(span kernels.Span) {
			blocks, seconds, cycles = blocks+1, seconds+span.Seconds, cycles+span.Seconds*span.ClockMHz
		}); err != nil {
			told()
			return out, err
		}
	}
	wall, watts := time.Since(began).Seconds(), told().watts()
	n := float64(blocks * launches)
	return reach.Sustained{US: 1e6 * seconds / n, MHz: cycles / seconds, Busy: seconds / wall, MJ: 1e3 * watts * wall / n}, nil
}
