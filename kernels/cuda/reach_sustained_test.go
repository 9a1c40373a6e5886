//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

// sustainedEnv names the file that BenchmarkSustained writes, if any.
const sustainedEnv = "GEMMAUDIT_SUSTAINED"

const (
	// A product runs for settleSeconds, until the clock has settled, then each series for startSeconds and for
	// sustainedSeconds that count, in sustainedPasses.
	settleSeconds    = 1
	startSeconds     = 0.1
	sustainedSeconds = 0.5
	sustainedPasses  = 2
	// A block of so many seconds keeps the GPU busy while the host prepares the next one.
	sustainedBlock = 5e-3
	// mostSustained is how often it may take that long until the counter of energy, which moves in steps of up to 100 ms,
	// has moved twice.
	mostSustained = 2
)

// BenchmarkSustained runs our kernels and the vendor's by themselves, half a second each and twice, product by product: time,
// clock and energy of a launch. -test.benchtime=1x runs it once.
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
		// What ran before decides the clock for seconds: series of one product follow each other, there and back.
		if _, _, _, err := sustain(bench.d, series[0], 0, settleSeconds); err != nil {
			return nil, fmt.Errorf("%v %s: %w", p.Product, series[0].name, err)
		}
		of, uncounted := map[*reachSeries]*reach.Sustained{}, map[*reachSeries]bool{}
		for range sustainedPasses {
			for _, s := range series {
				us, mhz, mj, err := sustain(bench.d, s, settle, span)
				if err != nil {
					return nil, fmt.Errorf("%v %s: %w", p.Product, s.name, err)
				}
				if of[s] == nil {
					of[s] = &reach.Sustained{Product: p.Product, Series: s.name, Label: s.Launches[0].Label()}
				}
				of[s].US += us / sustainedPasses
				of[s].MHz += mhz / sustainedPasses
				of[s].MJ += mj / sustainedPasses
				uncounted[s] = uncounted[s] || mj == 0
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

// energySteps follows a counter that moves in steps: from the first step to the last one it is known what launches took.
type energySteps struct {
	meter    kernels.EnergyMeter // nil where the device does not count
	last     float64
	started  bool
	steps    int
	from, to struct {
		mj       float64
		launches int
	}
}

// read notes how many launches have ended when the counter has moved.
func (e *energySteps) read(launches int) {
	if e.meter == nil {
		return
	}
	mj, err := e.meter.EnergyMJ()
	if err != nil {
		e.meter = nil
		return
	}
	if e.started && mj != e.last {
		if e.steps++; e.steps == 1 {
			e.from.mj, e.from.launches = mj, launches
		}
		e.to.mj, e.to.launches = mj, launches
	}
	e.last, e.started = mj, true
}

// millijoules are those of a launch, 0 where they are not known.
func (e *energySteps) millijoules() float64 {
	if e.steps < 2 || e.to.launches == e.from.launches {
		return 0
	}
	return (e.to.mj - e.from.mj) / float64(e.to.launches-e.from.launches)
}

// sustain runs a series by itself and returns the microseconds, the clock and the energy of a launch.
func sustain(d kernels.Device, s *reachSeries, settle, span float64) (us, mhz, mj float64, err error) {
	f := &timing.Flight{Device: d.(kernels.Starter)}
	one, err := s.seconds()
	if err != nil {
		return 0, 0, 0, err
	}
	s.samples, s.N = nil, max(1, int(sustainedBlock/one))
	e := &energySteps{}
	e.meter, _ = d.(kernels.EnergyMeter)
	var settled, seconds, cycles float64
	launches, read := 0, 0
	for {
		if err := s.start(f, 0); err != nil {
			return 0, 0, 0, errors.Join(err, f.Land())
		}
		for ; read < len(s.samples); read++ {
			x := s.samples[read]
			took := x.US * 1e-6 * float64(s.N)
			if settled < settle {
				settled += took
				continue
			}
			seconds, cycles, launches = seconds+took, cycles+x.MHz*took, launches+s.N
			e.read(launches)
		}
		if counted := e.meter == nil || e.steps >= 2; seconds >= span && counted || seconds >= mostSustained*span {
			break
		}
	}
	return 1e6 * seconds / float64(launches), cycles / seconds, e.millijoules(), f.Land()
}
