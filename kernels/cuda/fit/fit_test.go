package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting/fittest"
)

var update = flag.Bool("update", false, "write the golden table anew")

func write(t *testing.T, all []candidates.Time) string {
	t.Helper()
	var b bytes.Buffer
	on := candidates.Describe("NVIDIA H100 80GB HBM3", "570.1", "2026-11-22", cudatest.H200)
	if err := candidates.WriteCard(&b, on); err != nil {
		t.Fatal(err)
	}
	if err := candidates.WriteTimes(&b, all); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "candidates.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRun(t *testing.T) {
	in := write(t,
		fittest.Times(t, fittest.Another(t, "gemv", "attention_decode", "mma"), 0, 60, func(c candidates.Case, family string) bool {
			return fittest.Few(c, family) || family == "mma" && c.M <= 8 && c.DType != kernels.FP8
		}))
	out := filepath.Join(t.TempDir(), "h100.json")
	var stdout, stderr bytes.Buffer
	if code := run([]string{in, "--out", out, "--model", "gemv,attention_decode,mma", "--evaluations", "320", "--picks"}, &stdout,
		&stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	got := strings.ReplaceAll(stdout.String(), out, "h100.json")
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
	if c.Card != "NVIDIA H100 80GB HBM3" || c.Driver != "570.1" || c.Date != "2026-11-22" || c.Capability != 90 || c.SMs != 132 ||
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
	all := fittest.Times(t, fittest.Reference(t), 0, 2, fittest.Few)
	with := func(change func(*candidates.Time)) string {
		other := slices.Clone(all)
		change(&other[1])
		return write(t, other)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, "fit: 0 files, expected one file of candidates"},
		{[]string{"a", "b"}, 2, "fit: 2 files, expected one"},
		{[]string{"a", "--model", "naive"}, 2, `fit: --model "naive", expected attention, attention_decode, common, `},
		{[]string{"a", "--evaluations", "-1"}, 2, "fit: --evaluations -1, expected at least 0"},
		{[]string{"--what"}, 2, "fit: unknown flag: --what"},
		{[]string{"--help"}, 0, "usage: fit CANDIDATES.jsonl [flags]"},
		{[]string{filepath.Join(t.TempDir(), "none.jsonl")}, 1, "no such file"},
		{[]string{with(func(x *candidates.Time) { x.M = 0 })}, 1, "candidates.jsonl: line 3: m is 0"},
		{[]string{with(func(x *candidates.Time) { x.Label = "fast" })}, 1, `"fast": it was measured by another build`},
		{[]string{with(func(x *candidates.Time) { x.Index = 1000 })}, 1, "it was measured by another build"},
		{[]string{with(func(x *candidates.Time) { *x = all[0] })}, 1, "was measured twice"},
		{[]string{with(func(x *candidates.Time) { x.Family = "tiled" })}, 1, `no family "tiled" chooses`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(c.args, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%v: exit %d, %q and %q, want %d and %q", c.args, code, stdout.String(), stderr.String(), c.code, c.want)
		}
	}
}
