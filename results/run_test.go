package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var SomeKey = SeriesKey{Device: "cpu", Kernel: "tiled", Subject: kernels.Product(kernels.FP32, 4096, 4096), Regime: Engine, Threads: 2}

func SomeMeta() Meta {
	return Meta{
		Schema:    SchemaVersion,
		Created:   time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC),
		Command:   "gemmaudit sweep --shape n4096k4096",
		Gemmaudit: "v0.1.0",
		Fingerprint: Fingerprint{
			Hostname: "alpha", OS: "Debian GNU/Linux 12", Kernel: "6.1.0", Arch: "amd64", CPUModel: "Some CPU", Cores: 2, MemoryGiB: 24,
			Devices: []kernels.Spec{{ID: "cpu", Kind: kernels.CPU, Name: "Some CPU", Units: 2,
				Versions: map[string]string{"openblas": "0.3.21"}}},
		},
		Ceilings: map[string]kernels.Ceilings{"cpu": {
			Peaks:         []kernels.Peak{{DType: kernels.FP32, FLOPS: 4e11, Origin: kernels.Measured, Unit: "AVX-512 FMA"}},
			ReadBandwidth: 28e9,
		}},
		Plan:         []byte(`{"batches":"4:64:4","shard":"1/1"}`),
		Regime:       Engine,
		Distribution: kernels.Normal,
		Seed:         1<<63 + 5,
		Labels:       Labels{"rack": "7"},
	}
}

func NewRun(t testing.TB, ms ...int) (*Run, []Case) {
	t.Helper()
	r, err := Create(filepath.Join(t.TempDir(), "run.db"), SomeMeta())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	var cases []Case
	for _, m := range ms {
		cases = append(cases, Case{SeriesKey: SomeKey, M: m})
	}
	if cases, err = r.AddCases(cases); err != nil {
		t.Fatal(err)
	}
	return r, cases
}

func SomeSample(c Case, phase Phase, round int, seq int64) Sample {
	return Sample{
		CaseID: c.ID, Phase: phase, Round: round, Seq: seq, StartedUnixMicro: 1_700_000_000_000_000 + seq*5000, Launches: 10,
		US: 100.5 + float64(seq), ClockMHz: 3000.25, PowerW: 50, TempC: 61.5,
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStoreAndReload(t *testing.T) {
	r, cases := NewRun(t, 64, 4, 128)
	split := Case{SeriesKey: SomeKey, M: 100, Parts: []int{64, 36}, Label: "pair"}
	pad := Case{SeriesKey: SomeKey, M: 100, PadTo: 128}
	more, err := r.AddCases([]Case{split, cases[1], pad, split})
	must(t, err)
	if more[1].ID != cases[1].ID || more[0].ID != more[3].ID || more[0].ID == more[2].ID {
		t.Fatalf("ids of equal cases differ, or of different ones agree: %v", more)
	}
	var want []Sample
	for i, c := range []Case{cases[2], cases[0], cases[1], more[0]} {
		s := SomeSample(c, PhaseSweep, 0, int64(i))
		s.Throttle, s.Disturbance = "power cap", "stolen 4 ms"
		must(t, r.Append(s))
		want = append(want, s)
	}
	sentinel := SomeSample(cases[0], PhaseSentinel, 0, 4)
	must(t, r.Append(sentinel))
	failure := Failure{CaseID: cases[0].ID, Phase: PhaseSweep, Round: 1, Reason: "out of memory"}
	must(t, r.Fail(failure))
	must(t, r.SetState("status", "interrupted"))
	must(t, r.SetState("status", "complete"))
	must(t, r.SetLaunch(cases[2].ID, "6x64", Launch{Tile: [3]int{6, 64}, Split: 1}))
	must(t, r.Close())
	must(t, r.Close())

	entries, err := os.ReadDir(filepath.Dir(r.Path()))
	must(t, err)
	if len(entries) != 1 {
		t.Errorf("a closed run leaves %v, expected the one file", entries)
	}
	o, err := Open(r.Path())
	must(t, err)
	defer o.Close()
	if w := o.Warnings(); len(w) > 0 {
		t.Errorf("warnings of a sound run: %q", w)
	}
	if d := cmp.Diff(SomeMeta(), o.Meta()); d != "" {
		t.Errorf("meta (-stored +read):\n%s", d)
	}
	got, err := o.Samples(PhaseSweep)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("samples (-stored +read):\n%s", d)
	}
	if all, err := o.Samples(""); err != nil || len(all) != 5 {
		t.Errorf("samples of all phases: %d, %v", len(all), err)
	}
	readCases, err := o.Cases()
	must(t, err)
	labelled := cases[2]
	labelled.Label, labelled.Launch = "6x64", Launch{Tile: [3]int{6, 64}, Split: 1}
	if d := cmp.Diff([]Case{cases[0], cases[1], labelled, more[0], more[2]}, readCases); d != "" {
		t.Errorf("cases (-stored +read):\n%s", d)
	}
	failures, err := o.Failures()
	must(t, err)
	if d := cmp.Diff([]Failure{failure}, failures); d != "" {
		t.Errorf("failures:\n%s", d)
	}
	done, err := o.Done(PhaseSweep)
	must(t, err)
	if d := cmp.Diff(map[int64][]int{cases[0].ID: {0, 1}, cases[1].ID: {0}, cases[2].ID: {0}, more[0].ID: {0}}, done); d != "" {
		t.Errorf("done:\n%s", d)
	}
	if next, err := o.NextSeq(); err != nil || next != 5 {
		t.Errorf("next seq %d, %v, expected 5", next, err)
	}
	if v, ok, err := o.State("status"); v != "complete" || !ok || err != nil {
		t.Errorf("state %q %v %v", v, ok, err)
	}
	if _, ok, err := o.State("drift"); ok || err != nil {
		t.Errorf("state that was never set: %v %v", ok, err)
	}
}

func TestAppendRefuses(t *testing.T) {
	r, cases := NewRun(t, 8, 16)
	first := SomeSample(cases[0], PhaseSweep, 0, 0)
	must(t, r.Append(first))
	must(t, r.Fail(Failure{CaseID: cases[1].ID, Phase: PhaseSweep, Round: 0, Reason: "no"}))
	for name, change := range map[string]func(*Sample){
		"same round":     func(s *Sample) { s.Seq = 1 },
		"same seq":       func(s *Sample) { s.Round = 1 },
		"failed already": func(s *Sample) { s.CaseID, s.Seq = cases[1].ID, 1 },
	} {
		s := first
		change(&s)
		if err := r.Append(s); !errors.Is(err, ErrDuplicate) {
			t.Errorf("%s: %v, expected ErrDuplicate", name, err)
		}
	}
	for name, change := range map[string]func(*Sample){
		"unknown case": func(s *Sample) { s.CaseID = 99 },
		"zero time":    func(s *Sample) { s.US = 0 },
		"no launches":  func(s *Sample) { s.Launches = 0 },
		"no phase":     func(s *Sample) { s.Phase = "" },
		"round":        func(s *Sample) { s.Round = -1 },
	} {
		s := SomeSample(cases[0], PhaseSweep, 1, 1)
		change(&s)
		if err := r.Append(s); err == nil || errors.Is(err, ErrDuplicate) {
			t.Errorf("%s: %v, expected an error of its own", name, err)
		}
	}
	if err := r.Fail(Failure{CaseID: cases[0].ID, Phase: PhaseSweep, Round: 0, Reason: "late"}); !errors.Is(err, ErrDuplicate) {
		t.Errorf("failure in the place of a sample: %v", err)
	}
	if err := r.SetLaunch(99, "x", Launch{}); err == nil {
		t.Error("label of an unknown case was accepted")
	}
	samples, err := r.Samples("")
	must(t, err)
	if d := cmp.Diff([]Sample{first}, samples); d != "" {
		t.Errorf("refused samples left a trace:\n%s", d)
	}
}

func TestParts(t *testing.T) {
	for _, tt := range []struct {
		parts  []int
		reason string
	}{
		{nil, ""}, {[]int{100}, ""}, {[]int{64, 36}, ""}, {[]int{1, 99}, ""},
		{[]int{101}, "a part of 101 rows, expected 1 to 100"},
		{[]int{0, 100}, "a part of 0 rows"},
		{[]int{-1, 101}, "a part of -1 rows"},
		{[]int{64, 35}, "add up to 99, expected 100"},
	} {
		err := Case{SeriesKey: SomeKey, M: 100, Parts: tt.parts}.Validate()
		if (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("parts %v: %v, expected %q", tt.parts, err, tt.reason)
		}
	}
}

// After Forgive a sample is possible, now and after reopening; other failures stay.
func TestForgive(t *testing.T) {
	r, cases := NewRun(t, 64, 4)
	for _, c := range cases {
		must(t, r.Fail(Failure{CaseID: c.ID, Phase: PhaseSweep, Round: 1, Reason: "no"}))
		must(t, r.Fail(Failure{CaseID: c.ID, Phase: PhaseConfirm, Round: 1, Reason: "no"}))
	}
	one := cases[0].ID
	must(t, r.Forgive(one, PhaseSweep))
	must(t, r.Forgive(one, PhaseSweep)) // nothing left to forgive
	must(t, r.Append(Sample{CaseID: one, Phase: PhaseSweep, Round: 1, Launches: 1, US: 5}))
	for i, s := range []Sample{
		{Seq: 1, CaseID: one, Phase: PhaseConfirm, Round: 1, Launches: 1, US: 5},
		{Seq: 1, CaseID: cases[1].ID, Phase: PhaseSweep, Round: 1, Launches: 1, US: 5},
	} {
		if err := r.Append(s); !errors.Is(err, ErrDuplicate) {
			t.Errorf("sample %d in the place of a failure: %v", i, err)
		}
	}
	must(t, r.Close())
	r, err := Open(r.Path())
	must(t, err)
	defer r.Close()
	failures, err := r.Failures()
	if err != nil || len(failures) != 3 {
		t.Errorf("failures %v, %v; expected three", failures, err)
	}
	if err := r.Forgive(cases[1].ID, PhaseSweep); !errors.Is(err, ErrReadOnly) {
		t.Errorf("forgiven in a run opened for reading: %v", err)
	}
}

func TestCreateRefusesExisting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.db")
	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := Create(path, SomeMeta()); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("%v, expected that the file exists", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "mine" {
		t.Fatalf("the file in the way was changed to %q", b)
	}
	if _, err := Create(filepath.Join(t.TempDir(), "no", "run.db"), SomeMeta()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%v, expected that the folder does not exist", err)
	}
}

func TestSeries(t *testing.T) {
	r, cases := NewRun(t, 64, 4, 128, 256)
	other := SomeKey
	other.Kernel, other.DType = "naive", kernels.BF16
	extra, err := r.AddCases([]Case{{SeriesKey: other, M: 8}, {SeriesKey: SomeKey, M: 68, Parts: []int{64, 4}},
		{SeriesKey: SomeKey, M: 60, PadTo: 64}})
	must(t, err)
	seq := int64(0)
	for round := range 2 {
		for _, c := range append([]Case{cases[1], cases[0]}, extra...) {
			must(t, r.Append(SomeSample(c, PhaseSweep, round, seq)))
			seq++
		}
	}
	must(t, r.Append(SomeSample(cases[0], PhaseConfirm, 0, seq)))
	must(t, r.Fail(Failure{CaseID: cases[2].ID, Phase: PhaseSweep, Round: 0, Reason: "out of memory"}))
	got, err := r.Series()
	must(t, err)
	var lines []string
	for _, s := range got {
		for _, row := range s.Rows {
			lines = append(lines, fmt.Sprintf("%v: m%d %d samples %q, peak %.3g %s", s.Key, row.Case.M, len(row.Samples), row.Failed,
				s.Peak.FLOPS, s.Peak.Origin))
		}
	}
	want := []string{
		`cpu/naive/bf16/n4096 k4096: m8 2 samples "", peak 0 relative`,
		`cpu/tiled/fp32/n4096 k4096: m4 2 samples "", peak 4e+11 measured`,
		`cpu/tiled/fp32/n4096 k4096: m64 2 samples "", peak 4e+11 measured`,
		`cpu/tiled/fp32/n4096 k4096: m128 0 samples "out of memory", peak 4e+11 measured`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("series (-want +got):\n%s", d)
	}
	if got[1].Bandwidth != (kernels.Bandwidth{Rate: 28e9, Of: kernels.Reading}) {
		t.Errorf("bandwidth %v", got[1].Bandwidth)
	}
}

func BenchmarkAppend(b *testing.B) {
	r, cases := NewRun(b, 1, 2, 3, 4)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := r.Append(SomeSample(cases[i%4], PhaseSweep, i/4, int64(i))); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkSeries(b *testing.B) {
	ms := make([]int, 8197)
	for i := range ms {
		ms[i] = i + 1
	}
	r, cases := NewRun(b, ms...)
	for i, c := range cases {
		must(b, r.Append(SomeSample(c, PhaseSweep, 0, int64(i))))
	}
	for b.Loop() {
		r.loaded = nil // as read before
		s, err := r.Series()
		if err != nil || len(s) != 1 || len(s[0].Rows) != len(ms) {
			b.Fatal(len(s), err)
		}
	}
}
