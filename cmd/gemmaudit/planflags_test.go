package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// A sweep's drift test must have the bound of the rules that judge its run.
func TestPlansHaveTheRulesBoundOfDrift(t *testing.T) {
	o, err := (&planFlags{changed: func(string) bool { return false }, set: sweep.Options{Preset: defaultPreset}, tp: []int{1},
		layout: "nk", operations: []string{"gemm"}, distribution: "normal"}).options()
	if err != nil || o.Sentinel.DriftBound != rules.Default().DriftBound || o.Sentinel.DriftBound == 0 {
		t.Errorf("a bound of %v, expected %v: %v", o.Sentinel.DriftBound, rules.Default().DriftBound, err)
	}
}

func commandNamed(t *testing.T, name string) *cobra.Command {
	t.Helper()
	a, _, _ := testApp()
	cmd, _, err := newRootCommand(a).Find([]string{name})
	if err != nil || cmd.Name() != name {
		t.Fatalf("there is no command %s: %v", name, err)
	}
	return cmd
}

// Each flag of run and sweep must declare its behavior under --resume, and the commands must follow it.
func TestResumeKnowsEveryFlag(t *testing.T) {
	plan := map[string]resumption{}
	for _, d := range declaredPlanFlags {
		if plan[d.name] = fromPlan; d.resume != "" {
			plan[d.name] = d.resume
		}
	}
	seen := map[string]bool{}
	for _, name := range []string{"run", "sweep"} {
		cmd := commandNamed(t, name)
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			seen[f.Name] = true
			how, other := plan[f.Name], resumptions[f.Name]
			switch {
			case f.Name == "help" || f.Name == helpAllFlag:
			case how == "" && other == "":
				t.Errorf("%s --%s: nothing says what --resume does with it", name, f.Name)
			case how != "" && other != "":
				t.Errorf("%s --%s is declared twice", name, f.Name)
			case how == fromPlan || other == fromPlan:
				a, _, stderr := testApp()
				value := f.DefValue
				if value == "" || strings.HasPrefix(value, "[") {
					value = "1"
				}
				code := a.main([]string{name, "--resume", "--out", filepath.Join(t.TempDir(), "none.db"), "--" + f.Name + "=" + value})
				if code != exitUsage || !strings.Contains(stderr.String(), "--"+f.Name+" can't be combined with --resume") {
					t.Errorf("%s --resume --%s: exit code %d, %s", name, f.Name, code, stderr)
				}
			}
		})
	}
	for name := range resumptions {
		if !seen[name] {
			t.Errorf("--%s is a flag of neither run nor sweep", name)
		}
	}
	for _, s := range verdict.SearchSettings(remedy.Options{}) {
		if seen[s.Flag] && resumptions[s.Flag] != fromSearch {
			t.Errorf("--%s is restored with the search, and declared otherwise", s.Flag)
		}
	}
}

// The command shown to continue a run must repeat the flags that run files do not store.
func TestResumeRepeatsFlags(t *testing.T) {
	for name, how := range resumptions {
		cmd := commandNamed(t, "run")
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue
		}
		values := map[string]string{"string": "x", "float64": "0.5", "bool": "true", "duration": "3s", "format": "json"}
		value, ok := values[f.Value.Type()]
		if how != repeated {
			continue
		}
		if !ok {
			t.Errorf("--%s: no value of type %s", name, f.Value.Type())
			continue
		}
		if err := cmd.Flags().Set(name, value); err != nil {
			t.Fatal(err)
		}
		a, _, _ := testApp()
		if line := (&runOptions{app: a}).resumeRun(cmd, "folder"); !strings.Contains(line, "--"+name+"="+f.Value.String()) {
			t.Errorf("--%s is not repeated: %s", name, line)
		}
	}
}

// Each plan flag must change the plan, and a run file must return the plan unchanged.
func TestPlansKeepTheirFlags(t *testing.T) {
	folder := t.TempDir()
	traffic, untuned := filepath.Join(folder, "traffic.csv"), filepath.Join(folder, "tunableop_untuned0.csv")
	for path, text := range map[string]string{traffic: "m,weight\n8,1\n", untuned: "GemmTunableOp_float_TN,tn_256_8_128_ld_128_128_256\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	product := []string{"--shape=n256k128", "--batch=8:800:8", "--dtype=fp32"}
	examples := map[string][]string{
		"preset": {"--preset=standard"}, "op": {"--op=attention-prefill,softmax"}, "shape": {"--shape=n512k128"},
		"shapes-from": {"--shapes-from=" + untuned}, "neighbours": {"--neighbours"}, "model": {"--model=llama3-8b:o_proj"},
		"tp": {"--tp=2"}, "ep": {"--ep=2"}, "routing": {"--routing=even,skew:100"}, "epilogue": {"--epilogue=bias+gelu"},
		"top-k": {"--top-k=1"}, "tokens": {"--tokens=8"},
		"layout": {"--layout=kn"}, "weights": {"--weights=plain,int8:column"}, "batch": {"--batch=16"}, "dtype": {"--dtype=fp32,bf16"},
		"kernel": {"--kernel=flat"},
		"algos":  {"--algos=1"}, "infer": {"--infer"}, "regime": {"--regime=hot"}, "distribution": {"--distribution=zeros"},
		"threads":     {"--threads=1"},
		"pack-inside": {"--pack-inside"}, "rounds": {"--rounds=3"}, "rounds-for": {"--rounds-for=all"}, "block": {"--block=3ms"},
		"clock":    {"--clock=1500"},
		"deadline": {"--deadline=5h"}, "traffic": {"--traffic=" + traffic}, "shard": {"--shard=2/3"}, "seed": {"--seed=7"},
	}
	experts := []string{"--model=mixtral-8x7b:experts.down_proj", "--batch=8"}
	// Some flags do not apply to a plan of one product.
	bases := map[string][]string{"weights": {"--shape=n256k128", "--dtype=bf16", "--batch=8"}, "op": {"--preset=quick"},
		"tp": {"--model=llama3-8b:o_proj", "--batch=8"}, "ep": experts, "routing": experts, "top-k": {"--shape=n256k128g4", "--batch=8"},
		"tokens": {"--shape=n256k128g4"}, "neighbours": {"--shapes-from=" + untuned}}
	planOf := func(args ...string) *sweep.Plan {
		t.Helper()
		a, _, _ := testApp()
		var f planFlags
		cmd := &cobra.Command{Use: "test"}
		f.register(a, cmd, defaultPreset)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		o, err := f.options()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		plan, err := sweep.NewPlan(context.Background(), []kernels.Device{newSimulation().device}, o, nil)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		text, err := plan.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := sweep.DecodePlan(text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(plan, back); d != "" {
			t.Errorf("%v: the plan of the run file differs:\n%s", args, d)
		}
		return back
	}
	for _, d := range declaredPlanFlags {
		example, ok := examples[d.name]
		if !ok {
			t.Errorf("--%s: give this test a value of it", d.name)
			continue
		}
		base, ok := bases[d.name]
		if !ok {
			base = product
		}
		if cmp.Equal(planOf(base...), planOf(slices.Concat(base, example)...)) {
			t.Errorf("%v changes nothing of the plan", example)
		}
	}
}
