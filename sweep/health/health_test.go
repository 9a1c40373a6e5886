package health

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var update = flag.Bool("update", false, "rewrite the expected findings in testdata")

// After Wait, files of an archive below after/ replace the earlier ones.
type passing struct {
	before, after fstest.MapFS
	waited        time.Duration
}

func (p *passing) Open(name string) (fs.File, error) {
	if p.waited > 0 {
		return p.after.Open(name)
	}
	return p.before.Open(name)
}

func load(t *testing.T, a *txtar.Archive) *passing {
	t.Helper()
	p := &passing{before: fstest.MapFS{}, after: fstest.MapFS{}}
	later := fstest.MapFS{}
	for _, f := range a.Files {
		file := &fstest.MapFile{Data: f.Data}
		if name, ok := strings.CutPrefix(f.Name, "after/"); ok {
			later[name] = file
		} else if f.Name != "want" {
			p.before[f.Name], p.after[f.Name] = file, file
		}
	}
	for name, file := range later {
		p.after[name] = file
	}
	return p
}

func xeon() kernels.Spec {
	return kernels.Spec{ID: "cpu", Kind: kernels.CPU, Name: "Xeon", MemoryBytes: 64 << 30, LastLevelCacheBytes: 60 << 20}
}

// Each archive of testdata has a machine's files and the expected findings.
func TestCheck(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p := load(t, a)
			report := Check(Source{Files: p, Wait: func(d time.Duration) { p.waited += d }, Devices: []kernels.Spec{xeon()}})
			if p.waited > time.Second {
				t.Errorf("it waited %v", p.waited)
			}
			var b strings.Builder
			for _, f := range report.Findings {
				fmt.Fprintf(&b, "%s %s: %s\n", f.Severity, f.Check, f.Seen)
				if f.Hint != "" {
					fmt.Fprintf(&b, "\thint: %s\n", f.Hint)
				}
			}
			i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
			if *update {
				if i < 0 {
					i = len(a.Files)
					a.Files = append(a.Files, txtar.File{Name: "want"})
				}
				a.Files[i].Data = []byte(b.String())
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if i < 0 {
				t.Fatal("the archive has no file want: run with -update")
			}
			if d := cmp.Diff(string(a.Files[i].Data), b.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReport(t *testing.T) {
	r := Report{Findings: []Finding{{"a", Warning, "", ""}, {"b", OK, "", ""}, {"c", Note, "", ""}, {"d", OK, "", ""}}}
	if r.Count(Warning) != 1 || r.Count(OK) != 2 || r.Count(Error) != 0 {
		t.Errorf("%d warnings, %d ok, %d errors", r.Count(Warning), r.Count(OK), r.Count(Error))
	}
}

func TestDevices(t *testing.T) {
	empty := fstest.MapFS{}
	gpu := kernels.Spec{ID: "cuda:0", Kind: kernels.CUDA, Name: "tiny", MemoryBytes: 100 << 20, LastLevelCacheBytes: 50 << 20}
	for _, c := range []struct {
		name   string
		source Source
		want   Finding
	}{
		{"none", Source{Files: empty}, Finding{"devices", Error, "no device can be", "the reasons are listed"}},
		{"one", Source{Files: empty, Devices: []kernels.Spec{xeon()}}, Finding{"devices", OK, "cpu (Xeon)", ""}},
		{"missing", Source{Files: empty, Missing: []kernels.Missing{{Name: "openblas", Reason: "not installed"}}},
			Finding{"kernels", Note, "openblas is missing: not installed", ""}},
		{"small GPU", Source{Files: empty, Devices: []kernels.Spec{gpu}},
			Finding{"memory", Error, "cuda:0: 100 MiB of memory, last-level cache of 50 MiB, which weights can't rotate",
				"free memory, or audit"}},
	} {
		found := func(f Finding) bool {
			return f.Check == c.want.Check && f.Severity == c.want.Severity && strings.HasPrefix(f.Seen, c.want.Seen) &&
				strings.Contains(f.Hint, c.want.Hint) && (f.Hint == "") == (c.want.Hint == "")
		}
		if r := Check(c.source); !slices.ContainsFunc(r.Findings, found) {
			t.Errorf("%s: %v lacks %v", c.name, r.Findings, c.want)
		}
	}
}

type closed struct {
	fstest.MapFS
	name string
}

func (c closed) Open(name string) (fs.File, error) {
	if name == c.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.MapFS.Open(name)
}

// Stat and ReadFile hide those of MapFS, which would not go through Open.
func (c closed) Stat(name string) (fs.FileInfo, error) { return c.MapFS.Stat(name) }
func (c closed) ReadFile(name string) ([]byte, error) {
	if name == c.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.MapFS.ReadFile(name)
}

func TestUnreadableFrequency(t *testing.T) {
	const name = "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
	files := closed{fstest.MapFS{name: {Data: []byte("1")}}, name}
	for _, f := range Check(Source{Files: files}).Findings {
		if f.Check == "rights" && f.Severity == Note && strings.Contains(f.Seen, "permission denied") {
			return
		}
	}
	t.Error("a frequency that can't be read was not noted")
}

func TestLive(t *testing.T) {
	r := Check(Live(kernels.NewRegistry()))
	if r.Count(Error) == 0 {
		t.Errorf("a machine without devices has no error: %+v", r.Findings)
	}
	for _, f := range r.Findings {
		if f.Check == "" || f.Seen == "" || f.Severity.rank() < 0 {
			t.Errorf("incomplete finding %+v", f)
		}
		t.Logf("%+v", f)
	}
}

var nameless = regexp.MustCompile(`(?m)^-- --\r?$`)

// FuzzCheck checks machines with arbitrary file contents.
func FuzzCheck(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		f.Fatalf("no archives, %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if nameless.Match(text) {
			t.Skip("the reader of archives, which is no part of ours, fails on a marker without a name")
		}
		p := load(t, txtar.Parse(text))
		r := Check(Source{Files: p, Wait: func(d time.Duration) { p.waited += d }, Devices: []kernels.Spec{xeon()}})
		for _, finding := range r.Findings {
			if finding.Check == "" || finding.Seen == "" || !slices.Contains([]Severity{OK, Note, Warning, Error}, finding.Severity) {
				t.Errorf("finding %+v", finding)
			}
		}
	})
}
