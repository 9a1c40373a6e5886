package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type startResult struct {
	code           int
	stdout, stderr string
}

// start runs the program on a host of simulated cards, or on this machine's CPU if cards is "cpu".
func start(host string, args ...string) startResult {
	var stdout, stderr bytes.Buffer
	var provider kernels.Provider = cpu.Provider{}
	now := time.Now
	if host != "cpu" {
		cards := newCards(host)
		provider, now = cards, cards.now
	}
	a := newApp(strings.NewReader(""), &stdout, &stderr, func(string) (string, bool) { return "", false },
		func() []kernels.Provider { return []kernels.Provider{provider} })
	a.now = now
	code := a.main(args)
	return startResult{code, stdout.String(), stderr.String()}
}

// unsteady reports whether other load on this shared machine caused too much drift for a verdict.
func unsteady(r startResult) bool {
	return r.code == exitInconclusive && strings.Contains(r.stderr, "the sentinels") && strings.Contains(r.stderr, verdict.UnsteadyHint)
}

// fleetOf sweeps hosts, each the given number of times, and writes the fleet's baseline.
func fleetOf(t *testing.T, dir string, sweeps int, host string, plan ...string) string {
	t.Helper()
	path := filepath.Join(dir, "fleet.json")
	args := []string{"fleet", "-q", "--gate", "none", "--write-baseline", path}
	for i := range sweeps {
		night := filepath.Join(dir, fmt.Sprintf("night%d.db", i))
		got := start(host, append([]string{"sweep", "-q", "--out", night, "--label", fmt.Sprint("night=", i)}, plan...)...)
		if got.code != exitClean {
			t.Fatalf("sweep: exit code %d: %s", got.code, got.stderr)
		}
		args = append(args, night)
	}
	if got := start(host, args...); got.code != exitClean {
		t.Fatalf("fleet: exit code %d: %s", got.code, got.stderr)
	}
	return path
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	const known = "clock:9:1800"
	baseline := fleetOf(t, dir, 3, known, "--device", "cuda:all", "--shape", "n256k256,n512k256", "--batch", "8:128:8", "--dtype",
		"fp32,bf16", "--rounds", "7")
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"schema":"other"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		host   string
		args   []string
		code   int
		stdout []string
		stderr []string
	}{
		{"fit", known, nil, 0, []string{" is fit: ", "4 cards, each like the 4 cards of the baseline", "cuda:3", "fine"}, nil},
		{"one is slow", known + " slow:1:1.1", nil, 1, []string{"not fit: 1 of 4 ", "cuda:1 10.0 %", "drain", "fine"},
			[]string{"gemmaudit: gate: ", "is not fit: cuda:1 "}},
		{"the reason", known + " slow:1:1.1", []string{"--reason"}, 1, []string{"is not fit: cuda:1 "}, nil},
		{"the reason of one that is fit", known, []string{"--reason", "--device", "cuda:2"}, 0,
			[]string{"cuda:2 like the 4 cards of the baseline"}, nil},
		{"one card of two types", known + " float:3:", nil, 0, []string{" is fit: ", "4 cards", "fine"}, nil},
		{"a lost card", known + " lost:2:30", nil, 3, nil, []string{"gemmaudit: error: ", "cuda:2"}},
		{"the reason of a lost card", known + " lost:2:30", []string{"--reason"}, 3, []string{"cuda:2"}, nil},
		{"no such device", known, []string{"--device", "cuda:9"}, 2, nil, []string{`no device "cuda:9"`}},
		{"no baseline", known, []string{"--baseline", filepath.Join(dir, "absent.json")}, 3, nil, []string{"absent.json", "no such file"}},
		{"another file", known, []string{"--baseline", bad}, 3, nil, []string{"not a fleet baseline", "hint: write one with"}},
		{"too short", known, []string{"--budget", "1s"}, 2, nil, []string{"--budget: 1s, expected at least 2s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := start(c.host, append([]string{"check", "-q", "--baseline", baseline}, c.args...)...)
			if got.code != c.code {
				t.Errorf("exit code %d, expected %d: %s%s", got.code, c.code, got.stdout, got.stderr)
			}
			for _, want := range c.stdout {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("stdout lacks %q:\n%s", want, got.stdout)
				}
			}
			for _, want := range c.stderr {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
				}
			}
			if c.args != nil && c.args[0] == "--reason" && strings.Count(got.stdout, "\n") != 1 {
				t.Errorf("the reason is not one line: %q", got.stdout)
			}
		})
	}
}

// A check must leave a complete run within its budget, and write its metrics.
func TestCheckKeepsWhatItMeasured(t *testing.T) {
	dir := t.TempDir()
	const host = "count:2:"
	baseline := fleetOf(t, dir, 2, host, "--device", "cuda:all", "--shape", "n256k256", "--batch", "8:512:8", "--dtype", "fp32", "--rounds",
		"7")
	out, prom := filepath.Join(dir, "check.db"), filepath.Join(dir, "check.prom")
	got := start(host, "check", "-q", "--baseline", baseline, "--budget", "5s", "--out", out, "--label", "rack=7", "--textfile", prom, "-o",
		"json")
	var c report.NodeCheck
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.stderr)
	}
	if !c.Fit || c.Schema != report.NodeCheckSchema || len(c.Devices) != 2 || c.Labels["rack"] != "7" || c.Seconds > 5 {
		t.Errorf("the check is %+v", c)
	}
	run, err := results.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	series, err := run.Series()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]int{}
	for _, s := range series {
		for _, r := range s.Rows {
			if len(r.Samples) != 7 {
				t.Errorf("%v has %d samples, expected 7", r.Case, len(r.Samples))
			}
			cases[s.Key.Device]++
		}
	}
	if cases["cuda:0"] != c.Devices[0].Cases || cases["cuda:1"] != c.Devices[1].Cases || cases["cuda:0"] < 4 {
		t.Errorf("cases %v, the check tells of %d and %d", cases, c.Devices[0].Cases, c.Devices[1].Cases)
	}
	text, err := os.ReadFile(prom)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`gemmaudit_last_result{command="check",device="cuda:1",result="clean"} 1`,
		`gemmaudit_check_verdict{command="check",device="cuda:0",verdict="fine"} 1`,
		`gemmaudit_check_slowdown_ratio{command="check",device="cuda:0",time="common_clock"} `, `label_rack="7"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
	// A check must run cases alone if the fleet did.
	alone := filepath.Join(dir, "alone.json")
	if err := os.WriteFile(alone,
		[]byte(strings.ReplaceAll(readText(t, baseline), `"sustained_of": "sweep"`, `"sustained_of": "sustained"`)), 0o644); err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(dir, "alone.db")
	got = start(host, "check", "-q", "--baseline", alone, "--budget", "10s", "--out", out, "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || got.code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.stderr)
	}
	sustained, err := results.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer sustained.Close()
	samples, err := sustained.Samples(results.PhaseSustained)
	if err != nil || len(samples) < 4 || c.Devices[0].Sustained.Mid <= 0 || c.Devices[0].Cases <= len(samples)/2 {
		t.Errorf("%d samples of cases by themselves, %v; the check is %+v", len(samples), err, c)
	}
	// Another model has no baseline to compare with.
	other := strings.ReplaceAll(readText(t, baseline), `"model": "simulated device"`, `"model": "other device"`)
	if err := os.WriteFile(baseline, []byte(other), 0o644); err != nil {
		t.Fatal(err)
	}
	got = start(host, "check", "-q", "--baseline", baseline, "--label", "rack=8", "--textfile", prom)
	if got.code != exitInconclusive || !strings.Contains(got.stderr, "the baseline has no simulated device") ||
		!strings.Contains(got.stdout, "cuda:0: the baseline") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	metrics := readText(t, prom)
	for _, want := range []string{
		`gemmaudit_last_result{command="check",device="cuda:1",result="inconclusive"} 1`,
		`gemmaudit_check_verdict{command="check",device="cuda:0",verdict="unjudged"} 1`,
		`gemmaudit_check_verdict{command="check",device="cuda:1",verdict="fine"} 0`,
		`gemmaudit_check_cases{command="check",device="cuda:1"} 0`, `label_rack="8"`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, metrics)
		}
	}
}

// The metrics must include devices that a check does not measure, such as devices without a baseline.
func TestMachineInTextfile(t *testing.T) {
	var f textfile
	f.machine([]kernels.Spec{{ID: "cuda:0", Name: "A"}, {ID: "cuda:1", Name: "B"}}, nil)
	run, err := results.Create(filepath.Join(t.TempDir(), "run.db"), results.Meta{Command: "check",
		Fingerprint: results.Fingerprint{Devices: []kernels.Spec{{ID: "cuda:0", Name: "A", UUID: "GPU-0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	f.run(run)
	devices := f.told.Meta.Fingerprint.Devices
	if len(devices) != 2 || devices[0].UUID != "GPU-0" || devices[1].ID != "cuda:1" || f.told.Meta.Command != "check" ||
		f.told.Run != run.ID() {
		t.Errorf("devices %+v of run %q", devices, f.told.Run)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A check must measure and compare on this machine, with any result.
func TestCheckOfCPU(t *testing.T) {
	if testing.Short() {
		t.Skip("measures the ceilings of the CPU")
	}
	spec := openCPU(t)
	key := results.SeriesKey{Kernel: "auto", Subject: kernels.Product(kernels.FP32, 64, 64), Regime: results.Engine}
	key.Layout = kernels.Transposed
	b := fleet.Baseline{Schema: fleet.BaselineSchema,
		Groups: []fleet.BaselineGroup{{Cards: 8, Processes: 24, SustainedOf: results.PhaseSweep}}}
	_, b.Groups[0].Model = b.For(results.Meta{Fingerprint: results.ReadFingerprint([]kernels.Spec{spec}, "")}, spec.ID)
	for _, m := range []int{8, 16, 32, 64} {
		b.Groups[0].Cases = append(b.Groups[0].Cases, fleet.BaselineCase{Series: key, M: m, US: 10, SustainedUS: 10})
	}
	path := filepath.Join(t.TempDir(), "fleet.json")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.Write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	// for a busy machine: an idle one ends long before
	got := start("cpu", "check", "-q", "--baseline", path, "--budget", "20m", "-o", "json")
	if unsteady(got) {
		return
	}
	var c report.NodeCheck
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.stderr)
	}
	// The baseline tells no versions, so a CPU that is slower than its times may be so because of them.
	confounded := got.code == exitInconclusive && len(c.Devices) == 1 && len(c.Devices[0].Confounds) > 0
	if got.code != exitClean && got.code != exitGate && !confounded {
		t.Fatalf("exit code %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if len(c.Devices) != 1 || c.Devices[0].Device != "cpu" || c.Devices[0].Cases != 4 || c.Devices[0].Common.Mid <= 0 ||
		c.Fit != (got.code == exitClean || confounded) {
		t.Errorf("the check is %+v", c)
	}
}

func openCPU(t *testing.T) kernels.Spec {
	t.Helper()
	reg := kernels.NewRegistry(cpu.Provider{})
	defer reg.Close()
	devices, err := reg.Select("cpu")
	if err != nil {
		t.Fatal(err)
	}
	return devices[0].Spec()
}
