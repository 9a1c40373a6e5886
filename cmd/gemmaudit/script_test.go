package main

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results/published"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files in the scripts")

// TestMain makes this test binary act as the program: `gemmaudit` as shipped, `gemmaudit-sim` with only the
// simulated device, and `gemmaudit-cards` with a host of simulated cards. `simfleet` writes the runs of a
// simulated fleet.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"gemmaudit": main,
		"gemmaudit-sim": func() {
			sim := newSimulation()
			a := newApp(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv, func() []kernels.Provider {
				return []kernels.Provider{sim}
			})
			a.now = sim.device.Now // time passes as the device simulates it
			os.Exit(a.main(os.Args[1:]))
		},
		"gemmaudit-cards": func() {
			cards := newCards(os.Getenv("CARDS"))
			a := newApp(os.Stdin, os.Stdout, os.Stderr, os.LookupEnv, func() []kernels.Provider {
				return []kernels.Provider{cards}
			})
			a.now = cards.now
			os.Exit(a.main(os.Args[1:]))
		},
		"simfleet": func() {
			if err := writeFleet(os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		},
	})
}

// simulation provides a device that only takes a given time, so scripts know the expected
// result.
type simulation struct{ device *simulated.Device }

func (s simulation) Open() ([]kernels.Device, []kernels.Missing) {
	return []kernels.Device{metered{s.device}}, []kernels.Missing{{Name: "cuda", Reason: "this is a simulation"}}
}

// metered is a device with a constant power draw and an energy counter.
type metered struct{ *simulated.Device }

// EnergyMJ implements kernels.EnergyMeter.
func (d metered) EnergyMJ() (float64, error) {
	const watts = 500
	return watts * 1e3 * d.Now().Sub(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds(), nil
}

func newSimulation() simulation {
	const (
		rate     = 200e9 // FLOP/s at best
		overhead = 2e-6
	)
	float := []kernels.DType{kernels.FP32, kernels.BF16}
	flat := simulated.Linear(rate, overhead)
	var libraries []simulated.KernelConfig
	if os.Getenv("SIMULATED_CUBLASLT") != "" {
		// An algorithm reaches the peak, another takes twice as long.
		libraries = append(libraries,
			simulated.KernelConfig{Name: "cublaslt", DTypes: float, Cost: flat, Algorithms: map[kernels.Algorithm]simulated.KernelConfig{
				{ID: 66, Tile: 20, SplitK: 1}: {DTypes: float, Cost: flat},
				{ID: 67, Tile: 20, SplitK: 1}: {DTypes: float, Cost: simulated.Slow(flat, 1, 1<<20, 2)},
			}})
	}
	if os.Getenv("SIMULATED_ALIGNED") != "" {
		// Takes 1.6 times as long where N is no multiple of 8.
		libraries = append(libraries, simulated.KernelConfig{Name: "aligned", DTypes: float, Cost: simulated.Misaligned(flat, 8, 1.6)})
	}
	// fused takes 10 % longer than without an epilogue, but twice as long for M from 96 to 128; apart reads C once more.
	further := map[kernels.Operation][]simulated.KernelConfig{kernels.Projections.Operation().WithEpilogue(): {
		{Name: "fused", DTypes: float, Cost: simulated.Slow(simulated.Linear(rate/1.1, overhead), 96, 128, 2)},
		{Name: "fused-separate", DTypes: float, Cost: simulated.Linear(rate/1.3, overhead)},
	}}
	if os.Getenv("SIMULATED_EXPERTS") != "" {
		further[kernels.GroupedGEMM] = expertKernels(rate)
		libraries = append(libraries, simulated.KernelConfig{Name: "cublas", DTypes: float, Cost: flat})
	}
	return simulation{simulated.New(simulated.Config{
		Kernels:             further,
		Seed:                1,
		Noise:               simulated.Disturbances{Sigma: 0.01},
		LastLevelCacheBytes: 64 << 10, // few copies of weights to rotate over
		HostOverhead:        100 * time.Microsecond,
		Gemms: append(libraries, []simulated.KernelConfig{
			// Takes 1.5 times as long for M from 96 to 128; 64 + 32..64 do not, nor does an algorithm that it
			// does not choose there.
			{Name: "dented", DTypes: float, Cost: simulated.Slow(flat, 96, 128, 1.5), Packs: true, ExecuteError: planted("dented"),
				Candidates: []simulated.KernelConfig{
					{DTypes: float, Cost: simulated.Slow(flat, 1, 64, 1.3), Packs: true,
						Label: func(kernels.Task) string { return "algo 7" }, Choice: foretold},
				}},
			// Reaches its peak at every M.
			{Name: "flat", DTypes: float, Cost: flat, Packs: true, Choice: tilesOf, ExecuteError: planted("flat")},
			// Computes real results, for selftest.
			{Name: "exact", DTypes: []kernels.DType{kernels.FP32}, Cost: flat, Arithmetic: true},
			// Does not compute, which selftest must detect.
			{Name: "idle", DTypes: []kernels.DType{kernels.FP32}, Cost: flat},
		}...),
		Attentions: []simulated.KernelConfig{
			// Takes 1.5 times as long for prompts and contexts of 192 to 224 tokens.
			{Name: "dented", Cost: func(t kernels.Task) float64 {
				if t.M >= 192 && t.M <= 224 {
					return 1.5 * attentionTime(t.Attention(), rate/2, overhead)
				}
				return attentionTime(t.Attention(), rate/2, overhead)
			}},
			{Name: "flat", Cost: func(t kernels.Task) float64 { return attentionTime(t.Attention(), rate/2, overhead) }},
			{Name: "short", MaxM: 1, Cost: func(t kernels.Task) float64 { return attentionTime(t.Attention(), rate/2, overhead) }},
		},
		Softmaxes: []simulated.KernelConfig{
			// Takes four times as long for 192 to 224 rows.
			{Name: "dented", Cost: func(p kernels.Task) float64 {
				t := softmaxTime(p, overhead)
				if p.M >= 192 && p.M <= 224 {
					t *= 4
				}
				return t
			}},
			{Name: "flat", Cost: func(p kernels.Task) float64 { return softmaxTime(p, overhead) }},
			{Name: "short", MaxColumns: 64, Cost: func(p kernels.Task) float64 { return 2 * softmaxTime(p, overhead) }},
		},
	})}
}

// expertKernels are ways to compute grouped products: a loop that pays most for each group, one in streams, one call whose rate is
// lower, and one that is slow for groups whose rows do not fill tiles of 16.
func expertKernels(rate float64) []simulated.KernelConfig {
	way := func(name string, group, share float64, tile int) simulated.KernelConfig {
		cost := func(t kernels.Task) float64 {
			parts, err := t.GroupedParts()
			if err != nil { // the task is normalized
				return 1
			}
			seconds := 0.0
			for _, p := range parts {
				of := rate * share
				if tile > 0 && p.M%tile != 0 {
					of *= 0.6
				}
				seconds += group + max(p.FLOPs(p.M)/of, p.Bytes(p.M)/90e9)
			}
			return seconds
		}
		return simulated.KernelConfig{Name: name, DTypes: []kernels.DType{kernels.FP32, kernels.BF16}, Cost: cost}
	}
	return []simulated.KernelConfig{way("cublas", 4e-3, 1, 0), way("cublas-streams", 1e-3, 0.9, 0), way("cublas-grouped", 0, 0.5, 0),
		way("ragged", 1e-3, 0.9, 16)}
}

// planted makes a kernel's products fail as SIMULATED_FAULTS describes, "hang:dented:64,context:flat:8": at
// an M they hang, break the context, or lose the card.
func planted(kernel string) func(kernels.Task) error {
	at := map[int]string{}
	for plan := range strings.SplitSeq(os.Getenv("SIMULATED_FAULTS"), ",") {
		if of := strings.Split(plan, ":"); len(of) == 3 && of[1] == kernel {
			m, err := strconv.Atoi(of[2])
			if err != nil {
				panic(err)
			}
			at[m] = of[0]
		}
	}
	return func(p kernels.Task) error {
		switch at[p.M] {
		case "hang":
			select {}
		case "context":
			return fmt.Errorf("%w: illegal address", kernels.ErrContextLost)
		case "card":
			return fmt.Errorf("%w: fallen off the bus", kernels.ErrDeviceLost)
		case "fail":
			return errors.New("no workspace")
		case "":
			return nil
		}
		return fmt.Errorf("SIMULATED_FAULTS has an unknown fault %q", at[p.M])
	}
}

// foretold predicts one algorithm up to m128 and another above; the prediction is wrong there.
func foretold(p kernels.Task) (kernels.Choice, error) {
	if p.M > 128 {
		return kernels.Choice{Label: "algo 8"}, nil
	}
	return kernels.Choice{Label: "algo 7"}, nil
}

// tilesOf has 16 tiles in flight, with larger tiles from m100, or from m64 for [K,N] weights.
func tilesOf(p kernels.Task) (kernels.Choice, error) {
	tile := 32
	if p.M >= 100 || p.Layout == kernels.RowMajor && p.M >= 64 {
		tile = 64
	}
	return kernels.Choice{Tiling: kernels.Tiling{Tile: [3]int{tile, tile, 32}, Split: 1}, Stages: 3, Slots: 16}, nil
}

func attentionTime(a kernels.Attention, rate, overhead float64) float64 {
	pairs := float64(a.Rows) * (float64(a.Length) - float64(a.Rows-1)/2)
	return overhead + 4*float64(a.Heads.Query*a.Heads.Dim)*pairs/rate
}

// softmaxTime is the time of softmax at 90 % of the simulated bandwidth.
func softmaxTime(p kernels.Task, overhead float64) float64 {
	return overhead + p.Bytes(p.M)/90e9
}

func TestScripts(t *testing.T) {
	sweeps := published.Folder(t)
	fixtures, err := filepath.Abs("../../kernels/mistral")
	if err != nil {
		t.Fatal(err)
	}
	// An interrupted sweep of the simulated device by the program's first version.
	schema1, err := filepath.Abs("testdata/schema1.db")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PUBLISHED", sweeps)
			env.Setenv("FIXTURES", fixtures)
			env.Setenv("SCHEMA1", schema1)
			env.Setenv("ROOT", root)
			env.Setenv("COLUMNS", "400") // scripts check columns that a narrow table may omit
			// Share the build cache, so scripts that build Go do not recompile the standard library.
			env.Setenv("GOCACHE", cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")))
			env.Setenv("GOFLAGS", compiledAs())
			env.Setenv("PYTHON", numpyPython())
			// The user's environment must not affect the tests.
			env.Setenv("TERM", "dumb")
			// Processes started by scripts get the race detector's settings.
			env.Setenv("GORACE", os.Getenv("GORACE"))
			// Scripts get the same instruction set limits as this process.
			for _, cap := range []string{"GEMMAUDIT_ISA", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE"} {
				if value, set := os.LookupEnv(cap); set {
					env.Setenv(cap, value)
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "numpy" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return numpyPython() != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": exitcode,
			"lines":    lines,
			"fewer":    fewer,
			"damage":   damage,
			"limited":  limitedFiles,
			"flagged":  flagged,
			"remedies": remedies,
			"slower":   slower,
			"drifting": drifting,

			"reproduce": reproduceFinding,
		},
	})
}

// exitcode runs a command and requires its exit code, or any of several: exitcode 2 gemmaudit sweep. Sweeps
// of the real CPU allow 0,4 if the verdict does not matter: other load can make the machine too unsteady for
// one.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND [ARG...]")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if !slices.Contains(strings.Split(args[0], ","), got) {
		ts.Fatalf("exit code %s, expected %s", got, args[0])
	}
}

// lines requires a number of lines of stdout, stderr or a file: lines stderr 2.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines FILE COUNT")
	}
	text := ts.ReadFile(args[0])
	if got := fmt.Sprint(strings.Count(text, "\n")); got != args[1] {
		ts.Fatalf("%s has %s lines, expected %s:\n%s", args[0], got, args[1], text)
	}
}

// fewer requires that one file has fewer lines than another: fewer A B.
func fewer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fewer FILE FILE")
	}
	a, b := strings.Count(ts.ReadFile(args[0]), "\n"), strings.Count(ts.ReadFile(args[1]), "\n")
	if a >= b {
		ts.Fatalf("%s has %d lines, %s has %d: expected fewer", args[0], a, args[1], b)
	}
}

// damage copies a file with one fault: of a run file or, with overflow, of bf16 weights whose first norm
// exceeds fp16's range. verdict-audit and verdict-splits flip one bit of the stored proof: damage
// truncate|newer|foreign|verdict-audit|verdict-splits|overflow FROM TO.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: damage truncate|newer|foreign|verdict-audit|verdict-splits|overflow FROM TO")
	}
	b := []byte(ts.ReadFile(args[1]))
	// Offsets of the SQLite header: user version, application ID.
	switch args[0] {
	case "truncate":
		b = b[:len(b)/2]
	case "newer":
		binary.BigEndian.PutUint32(b[60:], 99)
	case "foreign":
		binary.BigEndian.PutUint32(b[68:], 0)
	case verdict.StateAudit, verdict.StateSplits:
		// A database row stores key and value next to each other.
		i := bytes.Index(b, []byte(args[0]+"{"))
		if i < 0 {
			ts.Fatalf("%s keeps no %s", args[1], args[0])
		}
		b[i+len(args[0])] ^= 0x20
	case "overflow":
		header := int(binary.LittleEndian.Uint64(b))
		var tensors map[string]struct {
			Offsets [2]int `json:"data_offsets"`
		}
		ts.Check(json.Unmarshal(b[8:8+header], &tensors))
		at := tensors["model.layers.0.input_layernorm.weight"].Offsets
		for i := 8 + header + at[0]; i < 8+header+at[1]; i += 2 {
			binary.LittleEndian.PutUint16(b[i:], kernels.EncodeBF16(50000))
		}
	default:
		ts.Fatalf("unknown damage %q", args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), b, 0o644))
}

// limitedFiles runs a command that may not write files larger than a number of KiB, as on a full disk, and
// requires its exit code: limited KIB CODE COMMAND [ARG...].
func limitedFiles(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: limited KIB CODE COMMAND [ARG...]")
	}
	exitcode(ts, false, append([]string{args[1], "bash", "-c", `ulimit -f "$1"; shift; exec "$@"`, "bash", args[0]}, args[2:]...))
}

// flagged counts the findings of the plain rule: flagged RUN THRESHOLD CASES COUNT.
func flagged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: flagged RUN THRESHOLD CASES COUNT")
	}
	ts.Check(ts.Exec("gemmaudit-sim", "audit", args[0], "--rule", "monotonic", "--method", "article", "--threshold", args[1], "-o", "json"))
	var audit struct {
		Cases   int
		Flagged []int
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &audit))
	if got := fmt.Sprint(audit.Cases, len(audit.Flagged)); got != args[2]+" "+args[3] {
		ts.Fatalf("cases and flagged rows are %s, expected %s %s", got, args[2], args[3])
	}
	if !slices.IsSorted(audit.Flagged) {
		ts.Fatalf("the flagged rows are not ascending: %v", audit.Flagged)
	}
}

// remedies counts the plain rule's splits: remedies RUN AMONG COUNT.
func remedies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: remedies RUN AMONG COUNT")
	}
	ts.Check(ts.Exec("gemmaudit-sim", "splits", args[0], "--method", "article", "--threshold", "0.85", "--ratio", "0.9", "--among", args[1],
		"-o", "json"))
	var found struct {
		Splits []struct {
			Saved float64 `json:"stake_us"`
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &found))
	if got := fmt.Sprint(len(found.Splits)); got != args[2] {
		ts.Fatalf("%s splits, expected %s", got, args[2])
	}
	for i, s := range found.Splits {
		if s.Saved <= 0 || i > 0 && s.Saved > found.Splits[i-1].Saved {
			ts.Fatalf("split %d saves %v us: expected more than none, and no more than the one before", i, s.Saved)
		}
	}
}

// slower copies a samples CSV and slows rows from m96 by a tenth: slower FROM TO.
func slower(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: slower FROM TO")
	}
	records, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	ts.Check(err)
	m, us := slices.Index(records[0], "m"), slices.Index(records[0], "us")
	for _, r := range records[1:] {
		batch, err := strconv.Atoi(r[m])
		ts.Check(err)
		time, err := strconv.ParseFloat(r[us], 64)
		ts.Check(err)
		if batch >= 96 {
			r[us] = fmt.Sprint(1.1 * time)
		}
	}
	var b strings.Builder
	ts.Check(csv.NewWriter(&b).WriteAll(records))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o644))
}

// drifting copies a samples CSV and adds sentinels that take twice as long at the end as at the start:
// drifting FROM TO.
func drifting(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: drifting FROM TO")
	}
	records, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[0]))).ReadAll()
	ts.Check(err)
	column := func(name string) int { return slices.Index(records[0], name) }
	const sentinels = 40
	first, swept := slices.Clone(records[1]), len(records)-1
	for i, r := range records[1:] {
		r[column("seq")] = strconv.Itoa(2 * i)
	}
	for i := range sentinels {
		r := slices.Clone(first)
		r[column("phase")], r[column("round")] = "sentinel", strconv.Itoa(i)
		r[column("seq")] = strconv.Itoa(2*(i*swept/sentinels) + 1)
		r[column("us")] = fmt.Sprint(100 * (1 + float64(i)/sentinels))
		records = append(records, r)
	}
	var b strings.Builder
	ts.Check(csv.NewWriter(&b).WriteAll(records))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b.String()), 0o644))
}

func compiledAs() string {
	info, _ := debug.ReadBuildInfo()
	var flags []string
	for _, s := range info.Settings {
		if s.Key == "-trimpath" || s.Key == "-gcflags" && !strings.Contains(s.Value, " ") {
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return strings.Join(flags, " ")
}
