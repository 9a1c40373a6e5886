package fleet

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/merge"
)

// shard writes a run of one host with samples at one M.
func shard(t *testing.T, path, host, card string, m int) {
	t.Helper()
	run, err := results.Create(path,
		results.Meta{Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Regime: results.Engine, Distribution: kernels.Normal, Seed: 1,
			Labels: results.Labels{"rack": host},
			Fingerprint: results.Fingerprint{Hostname: host,
				Devices: []kernels.Spec{{ID: "cuda:0", Kind: kernels.CUDA, Name: "Card X", UUID: card}}}})
	if err != nil {
		t.Fatal(err)
	}
	cases, err := run.AddCases([]results.Case{{SeriesKey: results.SeriesKey{Device: "cuda:0", Kernel: "cublas",
		Subject: kernels.Product(kernels.BF16, 64, 64), Regime: results.Engine}, M: m}})
	if err != nil {
		t.Fatal(err)
	}
	for round, phase := range []results.Phase{results.PhaseSweep, results.PhaseSweep, results.PhaseSentinel, results.PhaseSustained} {
		if err := run.Append(results.Sample{CaseID: cases[0].ID, Phase: phase, Round: round, Seq: int64(round), StartedUnixMicro: 1,
			Launches: 1, US: float64(m)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []Run {
	t.Helper()
	var out []Run
	if err := Read(path, func(r Run) error { out = append(out, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReadMerged(t *testing.T) {
	dir := t.TempDir()
	a, b, whole := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), filepath.Join(dir, "whole.db")
	shard(t, a, "node1", "GPU-1", 8)
	shard(t, b, "node2", "GPU-2", 16)
	if r := read(t, a); len(r) != 1 || r[0].Host != "node1" || r[0].Cards["cuda:0"] != "GPU-1" || r[0].Labels["rack"] != "node1" ||
		len(r[0].Sustained) != 1 || len(r[0].Sentinels) != 1 || r[0].ID == "" {
		t.Fatalf("a shard: %+v", r)
	}
	merged, err := merge.Runs(context.Background(), whole, []string{a, b}, merge.Options{DifferentMachines: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := merged.Close(); err != nil {
		t.Fatal(err)
	}
	found := read(t, whole)
	if len(found) != 2 {
		t.Fatalf("%d runs", len(found))
	}
	slices.SortFunc(found, func(x, y Run) int { return strings.Compare(x.Host, y.Host) })
	for i, want := range []struct {
		host, card string
		m          int
	}{{"node1", "GPU-1", 8}, {"node2", "GPU-2", 16}} {
		r := found[i]
		if r.Host != want.host || r.Meta.Fingerprint.Hostname != want.host || r.Cards["cuda:0"] != want.card ||
			r.Labels["rack"] != want.host || r.ID != read(t, []string{a, b}[i])[0].ID {
			t.Errorf("run %d: %+v", i, r)
		}
		if len(r.Series) != 1 || len(r.Series[0].Rows) != 1 || r.Series[0].Rows[0].Case.M != want.m ||
			len(r.Series[0].Rows[0].Samples) != 2 || len(r.Sentinels) != 1 || len(r.Sustained) != 1 {
			t.Errorf("run %d has %+v, %d sentinels, %d sustained", i, r.Series, len(r.Sentinels), len(r.Sustained))
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/1.db", "a/2.parquet", "a/b/3.DB", "a/notes.txt", "empty/readme"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"a/zero.db": "/dev/zero", "a/more": "../a/b", "latest": "a", "linked/run.db": "../a/1.db"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args  []string
		want  string
		links string
		err   string
	}{
		{[]string{"a"}, "a/1.db a/2.parquet a/b/3.DB", "a/more a/zero.db", ""},
		{[]string{"a/*.db", "a/1.db", "a/./1.db"}, "a/1.db a/zero.db", "", ""},
		{[]string{"a", "a", "a/b"}, "a/1.db a/2.parquet a/b/3.DB", "a/more a/zero.db", ""},
		{[]string{"latest"}, "latest/1.db latest/2.parquet latest/b/3.DB", "latest/more latest/zero.db", ""},
		{[]string{"a/b/*", "a/b"}, "a/b/3.DB", "", ""},
		{[]string{"a/notes.txt"}, "a/notes.txt", "", ""},
		{[]string{"linked/run.db"}, "linked/run.db", "", ""},
		{[]string{"linked"}, "", "", "run.db\" are not followed"},
		{[]string{"empty"}, "", "", "no run below it"},
		{[]string{"a/*.csv"}, "", "", "matches no file"},
		{[]string{"none"}, "", "", "no such file"},
		{[]string{"["}, "", "", "syntax error in pattern"},
	} {
		var args []string
		for _, a := range c.args {
			args = append(args, filepath.Join(dir, a))
		}
		found, err := Find(args)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, want %q", c.args, err, c.err)
			}
			continue
		}
		names := func(paths []string) string {
			var out []string
			for _, path := range paths {
				name, _ := filepath.Rel(dir, path)
				out = append(out, filepath.ToSlash(name))
			}
			return strings.Join(out, " ")
		}
		if got, links := names(found.Files), names(found.Links); err != nil || got != c.want || links != c.links {
			t.Errorf("%v: %s and the links %s, %v, want %s and %s", c.args, got, links, err, c.want, c.links)
		}
	}
}
