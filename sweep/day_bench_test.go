package sweep

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// DAY_SAMPLES is the number of samples of BenchmarkDay, a million by default.
const daySamples = "DAY_SAMPLES"

type moment struct {
	at         time.Duration // time of the simulated device
	samples    int
	heap       float64
	resident   float64
	file       float64
	journal    float64
	goroutines int
}

// BenchmarkDay sweeps a CPU for 24 simulated hours, some minutes in reality. It fails if memory varies by
// more than 5 % after the first tenth of the day, or if a goroutine leaks. The run file must grow with the
// samples, and its journal must not.
func BenchmarkDay(b *testing.B) {
	samples, err := strconv.Atoi(os.Getenv(daySamples))
	if err != nil {
		samples = 1_000_000
	}
	const (
		rounds   = 50
		kinds    = 4
		launches = 8
		day      = 24 * time.Hour
		looks    = 20
		flat     = 0.05
		settled  = looks / 10
	)
	for b.Loop() {
		before := runtime.NumGoroutine()
		block := day / time.Duration(samples) * 9 / 10
		var gemms []simulated.KernelConfig
		for i := range kinds {
			gemms = append(gemms, simulated.KernelConfig{Name: "kernel" + strconv.Itoa(i), DTypes: []kernels.DType{kernels.FP32},
				Cost: simulated.Linear(200e9*float64(1+i), block.Seconds()/launches)})
		}
		d := simulated.New(simulated.Config{Seed: 1, Gemms: gemms, Noise: simulated.Disturbances{Sigma: 0.01}, HostOverhead: block / 9})
		p := planned(b, d, "1:"+strconv.Itoa(samples/kinds/rounds), func(o *Options) {
			o.Rounds, o.Screening, o.BlockTarget, o.Sentinel = rounds, rounds, block, DefaultSentinel()
		})
		path := filepath.Join(b.TempDir(), "run.db")
		run := created(b, path, p)
		began, start := time.Now(), d.Now()
		var day []moment
		watch := &watcher{at: func(n int) {
			if n%(samples/looks) == 0 {
				day = append(day, look(b, path, n, d.Now().Sub(start)))
			}
		}}
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: watch, Now: d.Now}).Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if sum.Samples < samples*99/100 || len(day) < looks-1 {
			b.Fatalf("%d samples at %d looks, expected %d", sum.Samples, len(day), samples)
		}
		complete(b, p, run)
		if err := run.Close(); err != nil {
			b.Fatal(err)
		}
		for _, m := range day {
			// b.Log would truncate the lines
			fmt.Printf("%5.1f h: %8d samples, heap %6.1f MB, resident %6.1f MB, file %6.1f MB, journal %4.1f MB, %d goroutines\n",
				m.at.Hours(), m.samples, m.heap/1e6, m.resident/1e6, m.file/1e6, m.journal/1e6, m.goroutines)
		}
		from, to := day[settled-1], day[len(day)-1]
		b.Logf("%d samples of %v of the device's time in %v", sum.Samples, sum.Wall, time.Since(began).Round(time.Second))
		for _, m := range day[settled:] {
			if math.Abs(m.heap/from.heap-1) > flat {
				b.Errorf("after %v the heap has %.1f MB, after %v %.1f MB: expected no more than 5 %% between them", m.at, m.heap/1e6,
					from.at, from.heap/1e6)
			}
			if line := from.file +
				(to.file-from.file)*float64(m.samples-from.samples)/float64(to.samples-from.samples); math.Abs(m.file-line) > flat*to.file {
				b.Errorf("after %d samples the file has %.1f MB, on a line it would have %.1f", m.samples, m.file/1e6, line/1e6)
			}
		}
		if to.journal > (1+flat)*from.journal {
			b.Errorf("the journal has %.1f MB after %v and %.1f MB after %v", from.journal/1e6, from.at, to.journal/1e6, to.at)
		}
		if to.goroutines > from.goroutines {
			b.Errorf("%d goroutines after %v, and %d after %v", from.goroutines, from.at, to.goroutines, to.at)
		}
		if left := goroutines(before); left > before {
			b.Errorf("%d goroutines before the sweep and %d after it", before, left)
		}
		b.ReportMetric(to.heap/1e6, "MB/heap")
		b.ReportMetric(to.resident/1e6, "MB/resident")
		b.ReportMetric(to.file/float64(to.samples), "bytes/sample")
	}
}

func look(tb testing.TB, path string, samples int, at time.Duration) moment {
	tb.Helper()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m := moment{at: at, samples: samples, heap: float64(stats.HeapAlloc), goroutines: runtime.NumGoroutine()}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if m.resident, err = strconv.ParseFloat(fields[1], 64); err != nil {
				tb.Fatal(err)
			}
			m.resident *= float64(os.Getpagesize())
		}
	}
	for suffix, size := range map[string]*float64{"": &m.file, "-wal": &m.journal} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			tb.Fatal(err)
		}
		*size = float64(info.Size())
	}
	return m
}

func goroutines(want int) int {
	n := runtime.NumGoroutine()
	for range 100 {
		if n <= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
		n = runtime.NumGoroutine()
	}
	return n
}
