package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Whole commands must scale as n log n in the number of series. The test compares the CPU time at n and 4n
// series, like rules.TestScaling.
func TestCommandsScale(t *testing.T) {
	if testing.Short() {
		t.Skip("goes through thousands of series")
	}
	const n, most = 2000, 7.0
	dir := t.TempDir()
	took := map[string][2]time.Duration{}
	var order []string
	for i, series := range []int{n, 4 * n} {
		at := func(name string) string { return filepath.Join(dir, fmt.Sprintf("%d-%s", series, name)) }
		if err := os.WriteFile(at("s.csv"), manySeries(series, 2, 5), 0o644); err != nil {
			t.Fatal(err)
		}
		run := at("r.db")
		for _, args := range [][]string{
			{"import", at("s.csv"), "--out", run, "-q"},
			{"audit", run, "--gate", "none"},
			{"report", run, "-o", "csv"},
			{"export", run, "--out", at("all.csv")},
			{"history", run, run},
			{"fleet", run},
			{"diff", run, run, "--no-gate"},
			{"splits", run, "--execute=false"},
			{"merge", at("m.db"), run},
		} {
			a := newApp(nil, io.Discard, io.Discard, os.LookupEnv, func() []kernels.Provider { return nil })
			before := computedTime(t)
			// A single run has no history and is no fleet; the commands report this after reading all of it.
			if code := a.main(args); code != exitClean && code != exitInconclusive {
				t.Fatalf("%v: exit code %d", args, code)
			}
			if i == 0 {
				order = append(order, args[0])
			}
			both := took[args[0]]
			both[i] = computedTime(t) - before
			took[args[0]] = both
		}
	}
	for _, name := range order {
		ratio := took[name][1].Seconds() / took[name][0].Seconds()
		t.Logf("%s: %v, of four times as many series %v: %.1f times", name, took[name][0], took[name][1], ratio)
		if ratio > most {
			t.Errorf("%s: four times as many series take %.1f times as long, expected at most %.0f", name, ratio, most)
		}
	}
}

func computedTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
