//go:build cuda

package cuda

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/reach"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

const (
	reachEnv        = "GEMMAUDIT_REACH"
	reachSecondsEnv = "GEMMAUDIT_REACH_SECONDS"
	reachSeedEnv    = "GEMMAUDIT_REACH_SEED"
	reachOfEnv      = "GEMMAUDIT_REACH_OF" // a CSV of m,n,k: these products in bf16 instead
)

type reachSettings struct {
	file   string
	budget time.Duration
	seed   uint64
}

// readReachSettings defaults to 20 minutes and today's date.
func readReachSettings(now time.Time) (s reachSettings, err error) {
	s.file = os.Getenv(reachEnv)
	seconds, err := strconv.ParseFloat(cmp.Or(os.Getenv(reachSecondsEnv), "1200"), 64)
	if err != nil || !(seconds >= 1 && seconds <= 1e6) {
		return s, fmt.Errorf("%s is %q, expected a number of seconds", reachSecondsEnv, os.Getenv(reachSecondsEnv))
	}
	s.budget = time.Duration(seconds * float64(time.Second))
	if s.seed, err = strconv.ParseUint(cmp.Or(os.Getenv(reachSeedEnv), now.UTC().Format("20060102")), 10, 64); err != nil {
		return s, fmt.Errorf("%s is %q, expected a whole number", reachSeedEnv, os.Getenv(reachSeedEnv))
	}
	return s, nil
}

func readProducts(name string) (all []reach.Product, err error) {
	text, err := os.ReadFile(name)
	for line := range strings.Lines(string(text)) {
		p := reach.Product{DType: kernels.BF16, Set: reach.Named}
		if _, err := fmt.Sscanf(line, "%d,%d,%d", &p.M, &p.N, &p.K); err != nil {
			return nil, fmt.Errorf("%s: %q, expected m,n,k", name, line)
		}
		all = append(all, p)
	}
	return all, err
}

func machineOf(d kernels.Device) (reach.Machine, error) {
	c, err := d.Ceilings(context.Background())
	if err != nil {
		return reach.Machine{}, err
	}
	p, ok := c.Peak(kernels.BF16)
	if !ok || c.ReadBandwidth <= 0 {
		return reach.Machine{}, fmt.Errorf("%s: neither a peak of bf16 nor a bandwidth to plan by is known", d.Spec().Name)
	}
	return reach.Machine{Peak: p.FLOPS, Bandwidth: c.ReadBandwidth}, nil
}

// BenchmarkReach compares our kernels with the vendor's library: see package reach. Weights come from memory,
// data are normal, and clocks are not locked. All products are in memory at once. Their order is random in
// each round, and the series of a product follow each other. It stops after GEMMAUDIT_REACH_SECONDS, prints
// the table, and writes all samples to the file GEMMAUDIT_REACH. `go run ./kernels/cuda/reach/table` prints
// the table of such a file. -test.benchtime=1x runs it once.
func BenchmarkReach(b *testing.B) {
	began := time.Now()
	settings, err := readReachSettings(began)
	if err != nil {
		b.Fatal(err)
	}
	d := gpu(b)
	machine, err := machineOf(d)
	if err != nil {
		b.Skip(err)
	}
	all := reach.Products(settings.seed)
	if name := os.Getenv(reachOfEnv); name != "" {
		if all, err = readProducts(name); err != nil {
			b.Fatal(err)
		}
	}
	fmt.Fprintf(os.Stderr, "reach: %d products, about %.0f s for 41 samples of each\n", len(all),
		reach.Estimate(all, machine, 41).Seconds())
	h, rows, err := measureReach(newReachBench(d, machine), all, settings, began)
	if err == nil {
		err = reach.Print(os.Stderr, h, rows)
	}
	if err == nil && settings.file != "" {
		err = writeReach(settings.file, h, rows)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(rows)), "series")
	b.ReportMetric(0, "ns/op") // GEMMAUDIT_REACH_SECONDS sets the time
}

func measureReach(bench *reachBench, all []reach.Product, settings reachSettings,
	began time.Time) (h reach.Header, rows []reach.Row, err error) {
	plan := reach.NewPlan(all, settings.seed, bench.machine, settings.budget-time.Since(began))
	spec := bench.d.Spec()
	h = reach.Header{
		Card: spec.Name, Date: began.UTC().Format(time.DateOnly), Seed: settings.seed, Seconds: settings.budget.Seconds(),
		Versions: spec.Versions,
		Share:    plan.Share, Printed: plan.Printed,
	}
	defer func() { err = errors.Join(err, bench.close()) }()
	if h.LeftOut, err = bench.place(plan.Jobs); err != nil {
		return h, nil, err
	}
	fmt.Fprintf(os.Stderr, "reach: %d products set up after %.0f s\n", len(bench.products), time.Since(began).Seconds())
	if err := bench.measure(settings.seed, began.Add(settings.budget)); err != nil {
		return h, nil, err
	}
	fmt.Fprintf(os.Stderr, "reach: measured after %.0f s\n", time.Since(began).Seconds())
	return h, bench.rows(), nil
}

func writeReach(name string, h reach.Header, rows []reach.Row) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = reach.Write(f, h, rows)
	return errors.Join(err, f.Close())
}

// leastReachRounds are measured even if time is over.
const leastReachRounds = 2

func (w *reachBench) measure(seed uint64, until time.Time) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	rng := rand.New(rand.NewPCG(seed, 2))
	f := &timing.Flight{Device: w.d.(kernels.Starter)}
	for round := 0; ; round++ {
		for _, i := range rng.Perm(len(w.products)) {
			if round >= leastReachRounds && !time.Now().Before(until) {
				return f.Land()
			}
			series := w.products[i].series
			for _, j := range rng.Perm(len(series)) {
				if err := series[j].start(f, round); err != nil {
					return errors.Join(fmt.Errorf("%v %s: %w", w.products[i].Product, series[j].name, err), f.Land())
				}
			}
		}
		fmt.Fprintf(os.Stderr, "reach: round %d is over, %.0f s are left\n", round+1, time.Until(until).Seconds())
	}
}

func (s *reachSeries) start(f *timing.Flight, round int) error {
	return f.Start(context.Background(), kernels.Block{Launches: s.Turned(), N: s.N, Serial: s.serial},
		func(span kernels.Span, err error) error {
			if err == nil && span.Disturbance == (kernels.Disturbance{}) {
				s.samples = append(s.samples, reach.Sample{US: 1e6 * span.Seconds / float64(s.N), MHz: span.ClockMHz, Round: round})
			}
			return err
		})
}
