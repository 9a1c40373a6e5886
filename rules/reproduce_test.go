package rules

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// The command is pasted into a shell, and names in it may come from an untrusted file.
func TestReproduceIsQuoted(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"cpu", "cuda:0", "a b", "$(echo x)", "`echo x`", "a;echo x", "a|b", "a>b", "it's", `q"q`, `b\n`, "*", "~",
		"#"} {
		line := reproduce(results.Case{SeriesKey: results.SeriesKey{Device: name, Kernel: name,
			Subject: kernels.Product(kernels.FP32, 8, 16)}, M: 4}, results.Case{}, nil)
		out, err := exec.Command(shell, "-c", strings.Replace(line, "gemmaudit", `printf '%s\n'`, 1)).Output()
		if words := strings.Split(string(out), "\n"); err != nil || len(words) < 5 || words[2] != name || words[4] != name {
			t.Errorf("%q: %s is read as %q, %v", name, line, words, err)
		}
	}
}

// Kernels from files, and libraries in two versions, need their files again, but a run does not keep the paths.
func TestReproduceBringsKernels(t *testing.T) {
	versions := map[string]string{
		"mine": kernels.FileVersion("12ab"), "openblas@0.3.21": "0.3.21", "openblas@0.3.30": "0.3.30", "onednn": "2.6",
		"cublas@1": "12.4", "cublas@2": "12.4", "cublaslt@1": "12.4", "cublaslt@2": "12.4",
	}
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"onednn", "tiled"}, ""},
		{[]string{"mine", "tiled"}, "--kernel-file PATH"},
		{[]string{"mine", "mine"}, "--kernel-file PATH"},
		{[]string{"openblas@0.3.21", "openblas@0.3.30"}, "--library openblas=PATH --library openblas=PATH"},
		{[]string{"cublas@1", "cublaslt@2:3"}, "--library cublas=PATH --library cublas=PATH"},
		{[]string{"onednn", "mine"}, "--kernel-file PATH"},
	} {
		flags := kernels.BroughtFlags(versions, c.names...)
		if got := strings.Join(flags, " "); got != c.want {
			t.Errorf("%v: %q, want %q", c.names, got, c.want)
		}
		line := reproduce(results.Case{SeriesKey: results.SeriesKey{Device: "cpu", Kernel: c.names[0],
			Subject: kernels.Product(kernels.FP32, 8, 16)}, M: 4}, results.Case{}, flags)
		if !strings.HasSuffix(line, c.want) {
			t.Errorf("%v: %s", c.names, line)
		}
	}
}

// A finding's command must use the settings of its verdict.
func TestFindingsAreJudgedAgain(t *testing.T) {
	for _, c := range []struct {
		change  func(*Config)
		want    string
		paths   bool
		brought []string
	}{
		{func(*Config) {}, "sweep --out split-m8.db && gemmaudit audit split-m8.db --rule split --confirm", false, nil},
		{func(c *Config) { c.Threshold, c.FDR, c.ClockMHz = 0.85, 0.01, 1500 },
			"--rule split --threshold 0.85 --fdr 0.01 --clock 1500 --confirm", false, nil},
		{func(c *Config) { c.Rules.Split.Margin = 0.2 }, "--rule split --rules PATH --confirm", true, nil},
		{func(c *Config) { c.MinSamples = 9 }, "--rule split --rules PATH --confirm", true, nil},
		{func(c *Config) { c.Rules.Pad.Margin = 0.2 }, "--rule split --confirm", false, nil},
		{func(c *Config) { *c = c.Only(SplitRule) }, "--rule split --confirm", false, nil},
		{func(c *Config) { c.Method = MethodArticle }, "--rule split --method article", false, nil},
		{func(*Config) {}, "--rule split --confirm --kernel-file PATH --python PATH", false,
			[]string{"--kernel-file", "PATH", "--python", "PATH"}},
	} {
		cfg := Default()
		c.change(&cfg)
		changes, err := CompareConfigs(Default(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		f := Finding{Rule: SplitRule, WorstM: 8, Reproduce: "sweep", Brought: c.brought}
		if f.JudgeAgain(cfg, changes); !strings.HasSuffix(f.Reproduce, c.want) || f.NeedsPaths != c.paths {
			t.Errorf("%s, paths %v; want %s", f.Reproduce, f.NeedsPaths, c.want)
		}
	}
}

// The interpreter of kernels in Python, and how they were called, are of the run's command.
func TestReproduceRunsWorkersAlike(t *testing.T) {
	for _, c := range []struct{ kernel, command, want string }{
		{"mine", "gemmaudit run --kernel ./mine.py --python /opt/bin/python3 --out x", "--kernel-file PATH --python PATH"},
		{"mine", "gemmaudit run --python=py --eager --kernel ./mine.py", "--kernel-file PATH --python PATH --eager"},
		{"mine", "gemmaudit run --eager=false --kernel ./mine.py", "--kernel-file PATH"},
		{"lib", "gemmaudit run --kernel ./mine.py,lib --python /opt/bin/python3", ""},
	} {
		data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed(c.kernel, kernels.BF16)}, func(r results.Case) float64 {
			us := 20 + float64(r.M)
			if r.M == 96 {
				us *= 3
			}
			return us
		}, synthetic.Grid(16, 256, 16), 4)
		data.Meta.Command = c.command
		versions := map[string]string{"mine": kernels.FileVersion("12ab")}
		data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: synthetic.Key.Device, Versions: versions}}
		f := only(t, Monotonic, data, w)
		if len(f) == 0 {
			t.Fatalf("%s: no finding", c.command)
		}
		sweep, audit, _ := strings.Cut(f[0].Reproduce, " && ")
		sweep, _, _ = strings.Cut(sweep, " --out ")
		for _, line := range []string{sweep, audit} {
			if !strings.HasSuffix(line, c.want) || strings.Contains(line, "PATH") != (c.want != "") {
				t.Errorf("%s: %s, expected %q", c.command, line, c.want)
			}
		}
	}
}

// A finding's command must measure the row and its reference.
func TestReproduceMeasuresBoth(t *testing.T) {
	row := results.Case{SeriesKey: results.SeriesKey{Device: "cpu", Kernel: "a", Subject: kernels.Product(kernels.FP32, 8, 16)}, M: 100}
	other := func(change func(*results.Case)) results.Case {
		c := row
		change(&c)
		return c
	}
	for _, c := range []struct {
		against results.Case
		want    []string
	}{
		{results.Case{}, []string{"--kernel a ", "--dtype fp32 ", "--batch 100 "}},
		{other(func(c *results.Case) { c.M = 96 }), []string{"--batch 100,96 "}},
		{other(func(c *results.Case) { c.PadTo = 128 }), []string{"--batch 100,128 "}},
		{other(func(c *results.Case) { c.Parts = []int{64, 36} }), []string{"--batch 100,64,36 "}},
		{other(func(c *results.Case) { c.Kernel = "b" }), []string{"--kernel a,b ", "--batch 100 "}},
		{other(func(c *results.Case) { c.DType = kernels.BF16 }), []string{"--dtype fp32,bf16 ", "--batch 100 "}},
	} {
		line := reproduce(row, c.against, nil) + " "
		for _, want := range c.want {
			if !strings.Contains(line, want) {
				t.Errorf("against %+v: %s lacks %s", c.against, line, want)
			}
		}
	}
}
