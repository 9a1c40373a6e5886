// Mutants changes the program in one place at a time and runs the tests of the changed package. A mutant that no test
// kills shows where a test is missing.
//
//	go run ./scripts/mutants                          # 200 mutants; make mutants
//	go run ./scripts/mutants --seed 7 --n 50
//	go run ./scripts/mutants --only 'rules/fdr.go reject: < to <= #1'
//	go run ./scripts/mutants --only @names.txt --run 'TestReject'  # does a new test kill its mutants?
//	go run ./scripts/mutants --n 50 -- -tags cuda     # flags of go test follow --
//
// make mutants uses the flags of make test, so both share the build cache.
//
// A seed draws the mutants. The draw depends on each mutant's name, so an edit of the program changes only its own mutants.
// Files are not modified: go build's overlay compiles each mutant. Every test first runs without a mutant, to record its time
// and the code that it reaches. Each mutant then runs the tests that reach it, the fastest first. survivors.txt lists mutants
// that make no difference, with the reason; they do not count.
//
// Exit codes: 0 if at least --share of the mutants are killed, 1 if fewer, 2 for usage, 3 if the tests fail without a
// mutant or can't run.
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
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// rooms are the packages that are mutated by default.
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
	build    []string
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.n, "n", 200, "mutants to draw")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flags.Float64Var(&o.share, "share", 0.9, "share of the mutants that the tests must kill")
	flags.StringVar(&o.only, "only", "", "try this mutant, by its printed name, or @FILE with such names")
	flags.StringVar(&o.tests, "run", "", "regular expression of tests to run (default all)")
	flags.StringVar(&o.packages, "packages", strings.Join(rooms, ","), "packages to mutate")
	flags.BoolVar(&o.short, "short", false, "run tests with -short, as make test does")
	flags.BoolVar(&o.list, "list", false, "only print the mutants")
	flags.DurationVar(&o.within, "for", 0, "start no further mutant after this time; 0 for no limit")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "mutants to try in parallel")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0 && !strings.HasPrefix(flags.Arg(0), "-") || o.n < 1 || o.jobs < 1:
		fmt.Fprintln(stderr, "mutants: expected --n and --jobs of at least 1, and flags of go test after --")
		return 2
	}
	o.build = flags.Args()
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

// try draws and tries mutants, and returns the share that was killed.
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
	only, err := wanted(o.only)
	if err != nil {
		return 0, err
	}
	if o.only != "" {
		all, harmless = slices.DeleteFunc(all, func(m mutant) bool { return !only[m.name] }), nil
	}
	if o.list {
		all = slices.DeleteFunc(all, func(m mutant) bool { return harmless[m.name] != "" })
		for _, m := range all[:min(o.n, len(all))] {
			fmt.Fprintln(out, m.name)
		}
		return 1, nil
	}
	w, err := newWorkshop(o.build)
	if err != nil {
		return 0, err
	}
	defer w.close()
	began := time.Now()
	for _, room := range strings.Split(o.packages, ",") {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.room == room }) {
			continue
		}
		if err := w.measure(ctx, room, o.tests, o.short, o.jobs); err != nil {
			return 0, err
		}
		fmt.Fprintf(out, "%d tests of %s, %v\n", len(w.rooms[room].tests), room, time.Since(began).Round(time.Second))
	}
	var mu sync.Mutex
	counts := map[outcome]int{}
	excused, at := 0, 0
	next := func() (m mutant, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		for ; at < len(all) && (o.within == 0 || time.Since(began) < o.within); at++ {
			if m = all[at]; harmless[m.name] == "" {
				at++
				return m, true
			}
			excused++
			fmt.Fprintf(out, "harmless  %s: %s\n", m.name, harmless[m.name])
		}
		return m, false
	}
	var left []string
	err = inParallel(o.jobs, min(o.n, len(all)), func(int) error {
		for { // until one compiles
			m, ok := next()
			if !ok || ctx.Err() != nil {
				return ctx.Err()
			}
			started := time.Now()
			end, how, err := w.outcome(ctx, m)
			if err != nil {
				return err
			}
			mu.Lock()
			counts[end]++
			fmt.Fprintf(out, "%-9s %s: %s, %.0f s\n", end, m.name, how, time.Since(started).Seconds())
			if end == alive {
				left = append(left, fmt.Sprintf("%s:%d: %s", m.file, m.line, m.name))
			}
			mu.Unlock()
			if end != unbuilt {
				return nil
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		return 0, err
	}
	tried := counts[dead] + counts[alive]
	if tried == 0 {
		return 0, errors.New("no mutant was tried")
	}
	killed = float64(counts[dead]) / float64(tried)
	fmt.Fprintf(out, "%d of %d mutants were killed, %.1f %%, in %v; %d more are harmless; survivors:\n", counts[dead], tried, 100*killed,
		time.Since(began).Round(time.Second), excused)
	for _, s := range left {
		fmt.Fprintln(out, " ", s)
	}
	return killed, ctx.Err()
}

// draw orders mutants by a hash of their name and the seed, so an edit of the program does not move the others.
func draw(all []mutant, seed uint64) {
	places := make(map[string][]byte, len(all))
	for _, m := range all {
		place := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), m.name...))
		places[m.name] = place[:]
	}
	slices.SortFunc(all, func(a, b mutant) int { return bytes.Compare(places[a.name], places[b.name]) })
}

// wanted returns the names of --only: one, or the lines of a file.
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

// parseSurvivors reads lines of a mutant's name, " -- " and the reason why it makes no difference.
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
