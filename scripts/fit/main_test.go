package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/results"
)

var update = flag.Bool("update", false, "write the golden table anew")

// write stores times in a run file, each plan of a case as another kernel, like sweep --algos.
func write(t *testing.T, device kernels.Spec, all []timed) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "candidates.db")
	run, err := results.Create(path, results.Meta{
		Schema: results.SchemaVersion, Created: time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC), Regime: results.Engine,
		Distribution: kernels.Normal, Fingerprint: results.Fingerprint{Devices: []kernels.Spec{device}},
	})
	if err != nil {
		t.Fatal(err)
	}
	type of struct {
		sized
		family string
	}
	plans := map[of]int{}
	var cases []results.Case
	for _, x := range all {
		kernel, n := x.family, plans[of{x.sized, x.family}]
		if n > 0 {
			kernel = kernels.CandidateName(kernel, n)
		}
		plans[of{x.sized, x.family}]++
		cases = append(cases, results.Case{M: x.M, Label: x.label,
			SeriesKey: results.SeriesKey{Device: device.ID, Kernel: kernel, Subject: x.Subject, Regime: results.Engine}})
	}
	if cases, err = run.AddCases(cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if err := run.Append(results.Sample{CaseID: c.ID, Phase: results.PhaseSweep, Seq: int64(i), Launches: 1, US: 1e6 * all[i].seconds,
			ClockMHz: all[i].mhz}); err != nil {
			t.Fatal(err)
		}
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// nvl has the chip and memory of the H200, and another name.
var nvl = kernels.Spec{
	ID: "cuda:0", Kind: kernels.CUDA, Name: "NVIDIA H200 NVL", Units: cudatest.H200.SMs, LastLevelCacheBytes: cudatest.H200.L2,
	Features: []string{"sm_90a"}, Versions: map[string]string{"driver": "570.1"}, Settings: map[string]string{"max sm clock": "1980 MHz"},
}

func TestRun(t *testing.T) {
	in := write(t, nvl,
		made(t, another(t, "gemv", "attention_decode", "mma"), 0, 60, func(c sized, family string) bool {
			return few(c, family) || family == "mma" && c.M <= 8 && c.DType != kernels.FP8
		}))
	out := filepath.Join(t.TempDir(), "nvl.json")
	var stdout, stderr bytes.Buffer
	if code := run([]string{in, "--out", out, "--model", "gemv,attention_decode,mma", "--evaluations", "320"}, &stdout,
		&stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	got := strings.ReplaceAll(stdout.String(), out, "nvl.json")
	const golden = "testdata/table.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	c, err := calibration.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	restore, err := calibration.Try(c)
	if err != nil {
		t.Fatal(err)
	}
	restore()
	if c.Card != "NVIDIA H200 NVL" || c.Driver != "570.1" || c.Date != "2026-11-22" || c.Capability != 90 || c.SMs != 132 ||
		c.Bandwidth != 4.8e12 {
		t.Errorf("card %+v", c)
	}
	for name, want := range map[string]string{
		"gemv":   " cases: it meets those near the best within 0.",
		"common": "not fitted on this card, as on NVIDIA H200: ",
	} {
		if got := c.Models[name].FittedTo; !strings.Contains(got, want) {
			t.Errorf("%s is fitted to %q, want %q in it", name, got, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	all := made(t, reference(t), 0, 2, few)
	unknown := nvl
	unknown.Name = "NVIDIA Unknown"
	other := nvl
	other.Name = "NVIDIA H200"
	with := func(change func(*timed)) string {
		other := slices.Clone(all)
		change(&other[1])
		return write(t, nvl, other)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "fit: no file, expected runs of one card"},
		{[]string{write(t, nvl, all), write(t, other, all)}, 1, "measured on NVIDIA H200, expected NVIDIA H200 NVL as in "},
		{[]string{"a", "--model", "naive"}, 2, `fit: --model "naive", expected attention, attention_decode, common, `},
		{[]string{"a", "--evaluations", "-1"}, 2, "fit: --evaluations -1, expected at least 0"},
		{[]string{"--what"}, 2, "fit: unknown flag: --what"},
		{[]string{"--help"}, 0, "usage: fit RUN... [flags]"},
		{[]string{filepath.Join(t.TempDir(), "none.db")}, 1, "none.db"},
		{[]string{with(func(x *timed) { x.label = "fast" })}, 1, `"fast": it was measured by another build`},
		{[]string{with(func(x *timed) { x.label = all[0].label })}, 1, "was measured twice"},
		{[]string{write(t, nvl, all[:0])}, 1, "candidates.db: no times of kernels that choose among plans: sweep --kernel"},
		{[]string{write(t, unknown, all)}, 1, `data sheet is missing`},
		{[]string{"main.go"}, 1, "main.go"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%v: exit %d, %q and %q, want %d and %q", c.args, code, stdout.String(), stderr.String(), c.code, c.want)
		}
	}
}
