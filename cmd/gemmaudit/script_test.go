package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

var update = flag.Bool("update", false, "rewrite the golden files in the scripts")

// TestMain makes this test binary serve as the program itself: `gemmaudit` as
// it is shipped, and `gemmaudit-sim`, the same with the simulated device alone.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gemmaudit": main,
		"gemmaudit-sim": func() {
			a := newApp(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv, func() []kernels.Provider {
				return []kernels.Provider{simulation{}}
			})
			os.Exit(a.main(os.Args[1:]))
		},
	})
}

// simulation provides a device that computes nothing and takes the time that it
// is told to, so that what a script expects is known.
type simulation struct{}

func (simulation) Open() ([]kernels.Device, []kernels.Missing) {
	const (
		rate     = 200e9 // FLOP/s at best
		overhead = 2e-6
	)
	float := []kernels.DType{kernels.FP32, kernels.BF16}
	flat := kerneltest.Linear(rate, overhead)
	d := kerneltest.New(kerneltest.Config{
		Seed:                1,
		Noise:               kerneltest.Noise{Sigma: 0.01},
		LastLevelCacheBytes: 1 << 20,
		Gemms: []kerneltest.GemmConfig{
			// Takes half as long again for M from 96 to 128, where 64 + 32..64 do not.
			{Name: "dented", DTypes: float, Cost: kerneltest.Slow(flat, 96, 128, 1.5), Packs: true},
			// As fast as its peak lets it be, everywhere.
			{Name: "flat", DTypes: float, Cost: flat, Packs: true},
			// Computes for real, for selftest.
			{Name: "exact", DTypes: []kernels.DType{kernels.FP32}, Cost: flat, Arithmetic: true},
			// Computes nothing, which selftest must notice.
			{Name: "idle", DTypes: []kernels.DType{kernels.FP32}, Cost: flat},
		},
	})
	return []kernels.Device{d}, []kernels.Missing{{Name: "cuda", Reason: "this is a simulation"}}
}

func TestScripts(t *testing.T) {
	published, err := filepath.Abs("../../../shared/data/fairyspeed")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(published); err != nil {
		t.Logf("scripts on published sweeps skip: %v", err)
		published = ""
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PUBLISHED", published)
			// Nothing of the person who runs the tests shows.
			env.Setenv("TERM", "dumb")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "published" {
				return published != "", nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": exitcode,
			"lines":    lines,
		},
	})
}

// exitcode runs a command and demands its exit code: exitcode 2 gemmaudit sweep.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARG...]")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, expected %s", got, args[0])
	}
}

// lines demands a number of lines of stdout, stderr or a file: lines stderr 2.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE COUNT")
	}
	text := ts.ReadFile(args[0])
	if got := fmt.Sprint(strings.Count(text, "\n")); got != args[1] {
		ts.Fatalf("%s has %s lines, expected %s:\n%s", args[0], got, args[1], text)
	}
}
