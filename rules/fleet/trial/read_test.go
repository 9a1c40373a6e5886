package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/direct"
	"github.com/gemmaudit/gemmaudit/results/export"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func large() *Fleet {
	c := Default(1, 1)
	c.Samples = 7
	c.Ms = nil
	for m := 8; len(c.Ms) < 1000; m += 8 {
		c.Ms = append(c.Ms, m)
	}
	return New(c)
}

// The cards are three per host, with the same samples.
func copies(tb testing.TB, dir string, n int) (paths []string) {
	tb.Helper()
	first, err := large().Write(dir, 0, 0)
	if err != nil {
		tb.Fatal(err)
	}
	whole, err := os.ReadFile(first)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.Remove(first); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("run%05d.db", i))
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			tb.Fatal(err)
		}
		db, err := direct.Open("file:"+path+"?mode=rw", "synchronous=0")
		if err != nil {
			tb.Fatal(err)
		}
		host := fmt.Sprintf("node%04d", i/3)
		for _, q := range []string{
			fmt.Sprintf(`UPDATE origins SET run='%032x', host='%s', card='%s'`, i, host, UUID(i)),
			fmt.Sprintf(`UPDATE meta SET value='%032x' WHERE key='run'`, i),
			fmt.Sprintf(`UPDATE meta SET value=replace(replace(value, '%s', '%s'), 'node0000', '%s') WHERE key='fingerprint'`, UUID(0),
				UUID(i), host),
		} {
			if err := db.Exec(q); err != nil {
				tb.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			tb.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func exported(tb testing.TB, paths []string) (out []string) {
	tb.Helper()
	for _, path := range paths {
		run, err := results.Open(path)
		if err != nil {
			tb.Fatal(err)
		}
		to := strings.TrimSuffix(path, runs.RunFile) + runs.Parquet
		f, err := os.Create(to)
		if err != nil {
			tb.Fatal(err)
		}
		if err := export.Write(run, f, export.FormatParquet, export.Samples{}); err != nil {
			tb.Fatal(err)
		}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
		if err := run.Close(); err != nil {
			tb.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			tb.Fatal(err)
		}
		out = append(out, to)
	}
	return out
}

func collect(tb testing.TB, paths []string) *fleet.Result {
	tb.Helper()
	c := fleet.NewCollector(fleet.Default(), nil)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, path := range paths {
		group.Go(func() error { return runs.Read(path, func(r runs.Run) error { c.Add(r); return nil }) })
	}
	if err := group.Wait(); err != nil {
		tb.Fatal(err)
	}
	return c.Result()
}

// Run files and exports of the same runs give the same verdicts.
func TestReadBoth(t *testing.T) {
	cfg := Default(6, 11)
	cfg.PerHost, cfg.Processes = 2, 2
	cfg.Faults = map[int]Fault{4: {Kind: fleet.Memory, Depth: 0.05}}
	f := New(cfg)
	dir := t.TempDir()
	var paths []string
	for card := range cfg.Cards {
		for process := range cfg.Processes {
			path, err := f.Write(dir, card, process)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
	}
	a := collect(t, paths)
	b := collect(t, exported(t, paths))
	if len(a.Cards) != 6 || len(b.Cards) != 6 || CardOf(a.Cards[0].Card) != 4 || a.Cards[0].Kind != fleet.Memory ||
		a.Cards[0].Device != "cuda:0" || a.Cards[0].Labels["rack"] != "0" {
		t.Fatalf("%d and %d cards, first %+v", len(a.Cards), len(b.Cards), a.Cards[0])
	}
	for i := range a.Cards {
		x, y := a.Cards[i], b.Cards[i]
		if x.Card != y.Card || x.Verdict != y.Verdict || x.Reason != y.Reason || x.Common != y.Common || x.Sustained != y.Sustained ||
			x.Host != y.Host || x.Labels["rack"] != y.Labels["rack"] {
			t.Errorf("card %d:\nrun files %+v\nexports   %+v", i, x, y)
		}
	}
	if len(b.Groups) != 1 || len(a.Groups) != 1 || fmt.Sprint(a.Groups[0].Factors) != fmt.Sprint(b.Groups[0].Factors) {
		t.Errorf("groups %v and %v", a.Groups, b.Groups)
	}
	c := New(cfg)
	for card := range cfg.Cards {
		for process := range cfg.Processes {
			if _, err := c.Write(dir, card, process); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, err := runs.Find([]string{dir})
	if err != nil || len(found.Files) != 24 {
		t.Fatalf("%d files, %v", len(found.Files), err)
	}
}

// BenchmarkRead reads and judges runs of 2000 cases and 7 samples, one run per iteration. It measures the
// cost of a fleet of that size:
//
//	go test ./rules/fleet/trial -run '^$' -bench Read -benchtime 1000x
func BenchmarkRead(b *testing.B) {
	for _, format := range []string{"run file", "Parquet"} {
		b.Run(format, func(b *testing.B) {
			paths := copies(b, b.TempDir(), b.N)
			if format == "Parquet" {
				paths = exported(b, paths)
			}
			runtime.GC()
			before := processorTime(b)
			b.ResetTimer()
			r := collect(b, paths)
			b.StopTimer()
			if r.Runs != b.N || len(r.Cards) != b.N {
				b.Fatalf("%d runs of %d cards", r.Runs, len(r.Cards))
			}
			b.ReportMetric(b.Elapsed().Seconds(), "s")
			b.ReportMetric(processorTime(b)-before, "cpu-s")
			b.ReportMetric(float64(peakMemory(b))/(1<<20), "MiB-peak")
		})
	}
}

// On a shared machine CPU time is more reliable than wall time.
func processorTime(tb testing.TB) float64 {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		tb.Fatal(err)
	}
	return float64(use.Utime.Nano()+use.Stime.Nano()) / 1e9
}

func peakMemory(tb testing.TB) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip("the system does not tell a process's memory")
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
