package results_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/importing"
)

// large are runs of five million samples for benchmarks: few cases of many rounds, and many of few.
var large = []struct {
	name          string
	cases, rounds int
}{
	{"20000x250", 20_000, 250},
	{"700000x7", 700_000, 7},
}

// writeSamplesCSV writes a sweep with telemetry like [Export], round by round in random order, over several
// series.
func writeSamplesCSV(path string, cases, rounds int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	fmt.Fprintln(w, strings.Replace(strings.Join(export.SamplesColumns, ","), "started", "started_us", 1))
	const series = 4
	rng := rand.New(rand.NewPCG(1, 2))
	order := rng.Perm(cases)
	line := make([]byte, 0, 256)
	clock := 1450.0
	for round := range rounds {
		for i, c := range order {
			seq := int64(round*cases + i)
			m := c/series + 1
			clock += rng.Float64() - 0.5
			us := 20 + float64(m)*0.05*(1+0.01*rng.Float64())
			line = append(line[:0], "cuda:0,cublas,bf16,"...)
			line = strconv.AppendInt(line, int64(m), 10)
			line = append(line, ',')
			line = strconv.AppendInt(line, int64(4096*(1+c%series)), 10)
			line = append(line, ",4096,"...)
			line = strconv.AppendInt(line, int64(round), 10)
			line = append(line, ',')
			line = strconv.AppendFloat(line, us, 'g', -1, 64)
			line = append(line, ',')
			line = strconv.AppendFloat(line, clock, 'g', -1, 64)
			line = append(line, ",690.5,61,sweep,"...)
			line = strconv.AppendInt(line, seq, 10)
			line = append(line, ',')
			line = strconv.AppendInt(line, 1_700_000_000_000_000+seq*1000, 10)
			line = append(line, ",17,power cap,,engine,0,false,,0,nvjet_tst_128x256_64x4_2x1_v_bz_TNT,normal,7,"...)
			line = strconv.AppendInt(line, int64(round/2), 10)
			line = append(line, ",,,128,256,64,1.5,1,,0123456789abcdef0123456789abcdef,node7,GPU-1,\n"...)
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

func largeCSV(b *testing.B, cases, rounds int) string {
	b.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("gemmaudit-bench-%d-%dx%d.csv", os.Getpid(), cases, rounds))
	if _, err := os.Stat(path); err != nil {
		must(b, writeSamplesCSV(path, cases, rounds))
	}
	b.Cleanup(func() { os.Remove(path) })
	return path
}

// apart runs this test binary in a separate process to measure its memory, and reports the maximum resident
// MB and CPU seconds.
func apart(b *testing.B, what string, args ...string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), results.HelperVariable+"="+what)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	state := cmd.ProcessState
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		b.ReportMetric(float64(usage.Maxrss)/1024, "MB")
	}
	// On a busy machine wall time means little.
	b.ReportMetric((state.UserTime() + state.SystemTime()).Seconds(), "cpu-s")
}

func BenchmarkLargeImport(b *testing.B) {
	for _, size := range large {
		b.Run(size.name, func(b *testing.B) {
			csv := largeCSV(b, size.cases, size.rounds)
			dir := b.TempDir()
			i := 0
			for b.Loop() {
				out := filepath.Join(dir, fmt.Sprint(i))
				i++
				apart(b, results.HelperImport, csv, out)
			}
		})
	}
}

// Reads like an audit.
func BenchmarkLargeLoad(b *testing.B) {
	for _, size := range large {
		b.Run(size.name, func(b *testing.B) {
			csv := largeCSV(b, size.cases, size.rounds)
			out := filepath.Join(b.TempDir(), "run.db")
			apart(b, results.HelperImport, csv, out)
			for b.Loop() {
				apart(b, results.HelperLoad, out, strconv.Itoa(size.cases*size.rounds))
			}
		})
	}
}

func init() { results.LargeHelper = importOrLoad }

func importOrLoad(what string, args []string) error {
	if what == results.HelperImport {
		r, err := importing.Import(context.Background(), []string{args[0]}, args[1], importing.Options{})
		if err != nil {
			return err
		}
		return r.Close()
	}
	r, err := results.Open(args[0])
	if err != nil {
		return err
	}
	defer r.Close()
	loaded, err := r.Load()
	if err != nil {
		return err
	}
	n := 0
	for _, s := range loaded.Series {
		for _, row := range s.Rows {
			n += len(row.Samples)
		}
	}
	if strconv.Itoa(n) != args[1] {
		return fmt.Errorf("%d samples, expected %s", n, args[1])
	}
	return nil
}
