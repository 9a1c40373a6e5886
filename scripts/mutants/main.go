// Mutants changes the program in one place at a time and runs the tests of the package that was changed: those that notice
// nothing say where a test is missing.
//
//	go run ./scripts/mutants                          # 200 mutants; make mutants
//	go run ./scripts/mutants --seed 7 --n 50
//	go run ./scripts/mutants --only 'rules/fdr.go reject: < to <= #1'
//	go run ./scripts/mutants --only @names.txt --run 'TestReject'  # whether a new test kills what it was written for
//
// Mutants are drawn from all places with a seed: a change of the program changes no more of the draw than what was drawn of that
// change. The tree stays as it is: all mutants of a package are compiled into one test
// program, by go build's overlay, as copies of their functions, and a variable of the environment says which one is in force.
// Mutants of variables and constants get a program each. Each test is run once without a mutant, which tells how long it
// takes and which mutants it reaches; then each mutant is held against the tests that reach it, the fastest first. Mutants
// that can't be noticed, since they make no difference, stand with their reason in survivors.txt beside this file, and
// count as neither.
//
// Exit codes: 0 when at least --share of the mutants are killed, 1 when fewer are, 2 for usage, 3 when the tests fail as
// they are or can't be run.
//
// Tools that mutate Go were looked at. They change files in place or copy the module for each mutant, and none draws by a seed.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// rooms are the packages whose tests are held to account.
var rooms = []string{"rules", "results", "results/table", "sweep", "kernels"}

//go:embed survivors.txt
var survivors string

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	n        int
	seed     uint64
	share    float64
	only     string
	tests    string
	packages string
	list     bool
	short    bool
	within   time.Duration
	jobs     int
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.n, "n", 200, "mutants to draw")
	flags.Uint64Var(&o.seed, "seed", 1, "what is drawn")
	flags.Float64Var(&o.share, "share", 0.9, "share of the mutants that the tests are to kill")
	flags.StringVar(&o.only, "only", "", "the one mutant to try, as it is printed, or @ and a file of such names")
	flags.StringVar(&o.tests, "run", "", "the tests that are to kill, a regular expression; all without it")
	flags.StringVar(&o.packages, "packages", strings.Join(rooms, ","), "packages that are changed")
	flags.BoolVar(&o.short, "short", false, "run the tests with -short, as make test does")
	flags.BoolVar(&o.list, "list", false, "print what would be tried")
	flags.DurationVar(&o.within, "for", 0, "the time after which no further mutant is tried; 0 is no limit")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "mutants that are tried at a time")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 || o.n < 1 || o.jobs < 1:
		fmt.Fprintln(stderr, "mutants: expected flags alone, and --n and --jobs of at least 1")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	killed, err := o.try(ctx, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "mutants: error:", err)
		return 3
	}
	if killed < o.share {
		fmt.Fprintf(stderr, "mutants: %.1f %% were killed, expected %.1f %%\n", 100*killed, 100*o.share)
		return 1
	}
	return 0
}

// try draws, tries and counts mutants, and returns the share that was killed.
func (o *options) try(ctx context.Context, out io.Writer) (killed float64, err error) {
	harmless, err := parseSurvivors(survivors)
	if err != nil {
		return 0, err
	}
	var all []mutant
	for _, room := range strings.Split(o.packages, ",") {
		found, err := mutantsOf(room)
		if err != nil {
			return 0, err
		}
		all = append(all, found...)
	}
	names := map[string]bool{}
	for _, m := range all {
		names[m.name] = true
	}
	for name := range harmless {
		if room, _, _ := strings.Cut(name, " "); slices.ContainsFunc(all, func(m mutant) bool { return m.file == room }) && !names[name] {
			return 0, fmt.Errorf("survivors.txt: no mutant is named %q", name)
		}
	}
	draw(all, o.seed)
	fmt.Fprintf(out, "%d mutants, seed %d, of %d places\n", min(o.n, len(all)), o.seed, len(all))
	order := slices.Clone(all)
	only, err := wanted(o.only)
	if err != nil {
		return 0, err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool {
		return o.only != "" && !only[m.name] || o.only == "" && harmless[m.name] != ""
	})
	if o.list {
		for _, m := range all[:min(o.n, len(all))] {
			fmt.Fprintln(out, m.name)
		}
		return 1, nil
	}
	w, err := newWorkshop()
	if err != nil {
		return 0, err
	}
	defer w.close()
	began := time.Now()
	trials, err := w.prepare(ctx, all, o.n, func(m mutant, why string) { fmt.Fprintf(out, "unbuilt   %s: %s\n", m.name, why) })
	if err != nil {
		return 0, err
	}
	excused := 0
	for _, m := range order {
		if len(trials) == 0 || m.name == trials[len(trials)-1].name {
			break
		}
		if o.only == "" && harmless[m.name] != "" {
			excused++
			fmt.Fprintf(out, "harmless  %s: %s\n", m.name, harmless[m.name])
		}
	}
	for _, room := range slices.Sorted(maps.Keys(w.rooms)) {
		if err := w.measure(ctx, w.rooms[room], o.tests, o.short, o.jobs); err != nil {
			return 0, err
		}
		fmt.Fprintf(out, "%d tests of %s, %v\n", len(w.rooms[room].tests), room, time.Since(began).Round(time.Second))
	}
	var mu sync.Mutex
	counts := map[outcome]int{}
	var left []string
	err = inParallel(o.jobs, len(trials), func(i int) error {
		if ctx.Err() != nil || o.within > 0 && time.Since(began) > o.within {
			return ctx.Err()
		}
		t, at := trials[i], time.Now()
		end, how, err := w.outcome(ctx, t)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		counts[end]++
		fmt.Fprintf(out, "%-9s %s: %s, %.0f s\n", end, t.name, how, time.Since(at).Seconds())
		if end == alive {
			left = append(left, fmt.Sprintf("%s:%d: %s", t.file, t.line, t.name))
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	tried := counts[dead] + counts[alive]
	if tried == 0 {
		return 0, errors.New("no mutant was tried")
	}
	killed = float64(counts[dead]) / float64(tried)
	fmt.Fprintf(out, "%d of %d mutants were killed, %.1f %%, beside %d that are harmless, in %v; survivors:\n", counts[dead], tried, 100*killed, excused, time.Since(began).Round(time.Second))
	for _, s := range left {
		fmt.Fprintln(out, " ", s)
	}
	return killed, ctx.Err()
}

// draw puts mutants into the order in which a seed draws them. Each has its own place by its name and the seed, so that an edit of
// the program neither moves the others nor brings all new ones in.
func draw(all []mutant, seed uint64) {
	places := make(map[string][]byte, len(all))
	for _, m := range all {
		place := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), m.name...))
		places[m.name] = place[:]
	}
	slices.SortFunc(all, func(a, b mutant) int { return bytes.Compare(places[a.name], places[b.name]) })
}

// wanted returns the names of the mutants that alone are tried: one, or those of a file, one a line.
func wanted(only string) (map[string]bool, error) {
	file, found := strings.CutPrefix(only, "@")
	if !found {
		return map[string]bool{only: true}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		out[strings.TrimSpace(line)] = true
	}
	return out, nil
}

// parseSurvivors reads a line each of a mutant's name and, in front of " -- ", the reason why nobody can notice it.
func parseSurvivors(text string) (map[string]string, error) {
	out := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		name, reason, found := strings.Cut(line, " -- ")
		if !found || reason == "" {
			return nil, fmt.Errorf("survivors.txt:%d: %q, expected a mutant's name, \" -- \" and a reason", n, line)
		}
		out[name] = reason
	}
	return out, lines.Err()
}
