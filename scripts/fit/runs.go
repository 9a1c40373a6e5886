package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/datasheet"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// timed is the time of a launch of a plan.
type timed struct {
	sized
	family, label string
	seconds       float64
	interval      [2]float64 // a 95 % confidence interval of the median, if there are enough samples
	mhz           float64    // the median SM clock, 0 if unknown
}

// gpu is the measured card.
type gpu struct {
	name, driver, date string
	arch               planning.Arch
}

// unrecorded is the value for an unknown driver version.
const unrecorded = "unrecorded"

// readAll reads several runs of one card.
func readAll(paths []string) (on gpu, times []timed, err error) {
	for i, path := range paths {
		one, more, err := read(path)
		switch {
		case err != nil:
			return on, nil, err
		case i > 0 && (one.name != on.name || one.arch != on.arch):
			return on, nil, fmt.Errorf("%s: measured on %s, expected %s as in %s", path, one.name, on.name, paths[0])
		case i == 0:
			on = one
		}
		times = append(times, more...)
	}
	return on, times, nil
}

// read reads the times of plans from a run file of sweep, and their GPU.
func read(path string) (on gpu, times []timed, err error) {
	run, err := results.Open(path)
	if err != nil {
		return on, nil, err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	loaded, err := run.Load()
	if err != nil {
		return on, nil, err
	}
	device := ""
	for _, s := range loaded.Series {
		family, _ := kernels.SplitCandidate(s.Key.Kernel)
		if !slices.Contains(familiesFor(s.Key.Subject), family) {
			continue
		}
		if device != "" && s.Key.Device != device {
			return on, nil, fmt.Errorf("%s: rows of %s and of %s, expected one GPU", path, device, s.Key.Device)
		}
		device = s.Key.Device
		for _, r := range s.Rows {
			if len(r.Samples) > 0 {
				times = append(times, timeOf(r, family))
			}
		}
	}
	if len(times) == 0 {
		return on, nil, fmt.Errorf("%s: no times of kernels that choose among plans: "+
			"sweep --kernel hopper,mma,wmma,gemv --algos 16 measures them", path)
	}
	on, err = describe(run.Meta(), device)
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", path, device, err)
	}
	return on, times, err
}

func timeOf(r results.Row, family string) timed {
	var us, clocks []float64
	for _, s := range r.Samples {
		us = append(us, s.US)
		if s.ClockMHz > 0 {
			clocks = append(clocks, s.ClockMHz)
		}
	}
	mid, low, high := stats.MedianInterval(us)
	t := timed{sized: sized{r.Case.Subject, r.Case.M}, family: family, label: r.Case.Label, seconds: 1e-6 * mid,
		interval: [2]float64{1e-6 * low, 1e-6 * high}}
	if len(clocks) > 0 {
		t.mhz = stats.Median(clocks)
	}
	return t
}

// shared is the maximum opt-in shared memory of a block in KiB, by compute capability × 10 (CUDA programming
// guide, technical specifications).
var shared = map[int]int{75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}

// describe returns a device of a run as planners see it.
func describe(m results.Meta, device string) (on gpu, err error) {
	at := slices.IndexFunc(m.Fingerprint.Devices, func(s kernels.Spec) bool { return s.ID == device })
	if at < 0 {
		return on, fmt.Errorf("the run does not describe it")
	}
	s := m.Fingerprint.Devices[at]
	on = gpu{name: s.Name, driver: s.Versions["driver"], date: m.Created.UTC().Format(time.DateOnly)}
	if on.driver == "" {
		on.driver = unrecorded
	}
	a := &on.arch
	for _, f := range s.Features {
		if n, ok := strings.CutPrefix(strings.TrimSuffix(f, "a"), "sm_"); ok {
			a.CC, _ = strconv.Atoi(n)
		}
	}
	clock, _, _ := strings.Cut(s.Settings["max sm clock"], " ")
	a.ClockMHz, _ = strconv.ParseFloat(clock, 64)
	a.SMs, a.L2, a.SharedMax = s.Units, s.LastLevelCacheBytes, shared[a.CC]<<10
	a.Bandwidth = datasheet.MemoryBandwidth(s.Name, s.Units, 0, 0)
	if a.SMs < 1 || a.L2 < 1 || a.SharedMax == 0 || !(a.ClockMHz > 0) || !(a.Bandwidth > 0) {
		return on, fmt.Errorf("%s: multiprocessors, L2, compute capability, \"max sm clock\" or data sheet is missing: %+v", s.Name, *a)
	}
	return on, nil
}
