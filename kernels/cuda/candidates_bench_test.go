//go:build cuda

package cuda

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
)

// What BenchmarkCandidates is told: the file to write, and after how many seconds no further
// case begins.
const (
	candidatesEnv        = "GEMMAUDIT_CANDIDATES"
	candidatesSecondsEnv = "GEMMAUDIT_CANDIDATES_SECONDS"
)

// hopeless is the ratio to the fastest candidate of its family beyond which one that is
// expected to be so slow is not measured.
const hopeless = 1.6

// worthwhile are the places of those of a family's candidates that are not hopeless.
func worthwhile(_ string, expected []float64) []int {
	best := slices.Min(expected)
	var all []int
	for i, seconds := range expected {
		if seconds <= hopeless*best {
			all = append(all, i)
		}
	}
	return all
}

// BenchmarkCandidates measures the candidates of every family that chooses, over the grid of
// package candidates, and writes their times to the file that GEMMAUDIT_CANDIDATES names, to
// which `go run ./kernels/cuda/fit` fits the constants of the card. A case's candidates are
// measured in interleaved rounds, as many as -test.benchtime=7x says. Cases come in random
// order until GEMMAUDIT_CANDIDATES_SECONDS (300) are over.
func BenchmarkCandidates(b *testing.B) {
	name := os.Getenv(candidatesEnv)
	if name == "" {
		b.Skipf("%s names no file", candidatesEnv)
	}
	d := gpu(b)
	budget, err := strconv.ParseFloat(cmp.Or(os.Getenv(candidatesSecondsEnv), "300"), 64)
	if err != nil || math.IsNaN(budget) || budget <= 0 {
		b.Fatalf("%s is %q, expected a number of seconds", candidatesSecondsEnv, os.Getenv(candidatesSecondsEnv))
	}
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	}()
	start := time.Now()
	if err := candidates.WriteCard(f, timing.Describe(d.Device, start.UTC().Format(time.DateOnly))); err != nil {
		b.Fatal(err)
	}
	benchmarkCandidates(b, d.Device, f, func() bool { return time.Since(start).Seconds() < budget })
}

func benchmarkCandidates(b *testing.B, d *driver.Device, w io.Writer, timeLeft func() bool) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	grid := candidates.Grid(seed)
	cases, count := 0, 0
	for _, c := range grid {
		if !timeLeft() {
			break
		}
		sound := b.Run(strings.ReplaceAll(c.String(), " ", "_"), func(b *testing.B) {
			times, err := timing.Plans(b.Context(), d, c, worthwhile, rng, b.Loop)
			if err == nil {
				err = candidates.WriteTimes(w, times)
			}
			if err != nil {
				b.Fatal(err)
			}
			cases, count = cases+1, count+len(times)
			b.ReportMetric(float64(len(times)), "candidates")
			b.ReportMetric(0, "ns/op")
		})
		if !sound {
			b.FailNow()
		}
	}
	fmt.Fprintf(os.Stderr, "%d candidates of %d of %d cases\n", count, cases, len(grid))
}
