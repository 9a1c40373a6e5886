// Fit calibrates a card: it fits the constants of the planning models to a sweep of our kernels' plans, and
// writes the card's file for package calibration. It needs no GPU. To ship the constants of a card:
//
//	make gpu-bundle                     # copy it to the machine, and there: ./run.sh candidates (minutes)
//	go run ./scripts/fit candidates.db attention.db --out kernels/cuda/calibration/h100.json   # same commit, any machine
//	go test ./kernels/cuda ./kernels/cuda/attention ./kernels/cuda/decoder ./kernels/cuda/softmax -update-plans
//
// The fit minimizes the error of log-times near the best plan, and the regret: the time of the picked plan
// over the fastest plan's. A fifth of the shapes is held out. The table shows both figures before and after,
// fitted and held out; keep a model that improves both.
package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

type options struct {
	files       []string // runs of one card
	out         string
	models      []string // empty for all
	evaluations int      // at most, for each model
	seed        uint64
}

// run is the program. It returns the exit code: 2 for invalid arguments, 1 for other failures.
func run(args []string, stdout, stderr io.Writer) int {
	o, code := parse(args, stderr)
	if code >= 0 {
		return code
	}
	if err := o.fit(stdout); err != nil {
		fmt.Fprintf(stderr, "fit: %v\n", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o options, code int) {
	flags := pflag.NewFlagSet("fit", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.SortFlags = false
	flags.StringVar(&o.out, "out", "", "write the card's file here (default: only print)")
	flags.StringSliceVar(&o.models, "model", nil, "fit these models, the others stay as they are: "+strings.Join(calibration.Names(), ", "))
	flags.IntVar(&o.evaluations, "evaluations", 800, "try at most this many sets of constants for each model; 0 leaves all as they are")
	flags.Uint64Var(&o.seed, "seed", 1, "draws the shapes that are held out")
	flags.Usage = func() {
		fmt.Fprintf(stderr,
			"usage: fit RUN... [flags]\n\nFits the constants of a card's models to the times of plans in runs of gemmaudit sweep.\n\n%s",
			flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		if err == pflag.ErrHelp {
			return o, 0
		}
		fmt.Fprintf(stderr, "fit: %v\n", err)
		return o, 2
	}
	switch {
	case flags.NArg() == 0:
		fmt.Fprintln(stderr, "fit: no file, expected runs of one card")
		return o, 2
	case o.evaluations < 0:
		fmt.Fprintf(stderr, "fit: --evaluations %d, expected at least 0\n", o.evaluations)
		return o, 2
	}
	for _, name := range o.models {
		if !slices.Contains(calibration.Names(), name) {
			fmt.Fprintf(stderr, "fit: --model %q, expected %s\n", name, strings.Join(calibration.Names(), ", "))
			return o, 2
		}
	}
	o.files = flags.Args()
	return o, -1
}

func (o options) fit(stdout io.Writer) error {
	on, times, err := readAll(o.files)
	if err != nil {
		return err
	}
	start := calibration.Nearest(on.arch.CC, on.arch.SMs, on.arch.Bandwidth)
	s, err := newSamples(on.arch, times)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(o.files, ", "), err)
	}
	s.holdOut(o.seed)
	r, err := refit(s, start, o.models, o.evaluations)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(o.files, ", "), err)
	}
	r.describe(on)
	if err := print(stdout, r, on); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	if err := os.WriteFile(o.out, encode(r.Card), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s\n", o.out)
	return err
}
