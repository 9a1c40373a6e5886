package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// print writes the table: for each model and for auto, with the constants of the start and with
// those fitted, the figures of what was fitted to and of what was held out. "Not measured" counts
// the cases whose pick was not; it is taken to be as slow as the slowest that was.
func (r *result) print(w io.Writer, on candidates.Card) error {
	fmt.Fprintf(w, "%s, compute capability %d.%d, %d multiprocessors; from the constants of %s\n\n", on.Card, on.Capability/10, on.Capability%10, on.SMs, r.start.Card)
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %21s  %15s  %15s  %15s\n", "", "", "", "", "error near the best %", "mean regret %", "worst regret %", "not measured")
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %13s  %6s  %7s  %6s  %7s  %6s  %7s  %6s\n", "model", "part", "cases", "times", "before", "after", "before", "after", "before", "after", "before", "after")
	for _, list := range [][]outcome{r.models, r.choices} {
		for _, o := range list {
			for _, part := range []struct {
				name string
				comparison
			}{{"fit", o.fitted}, {"held out", o.held}} {
				b, a := part.before, part.after
				fmt.Fprintf(w, "%-24s  %-8s  %5d  %6d  %13s  %6s  %7s  %6s  %7s  %6s  %7d  %6d\n", o.name, part.name, a.cases, a.times,
					b.error(), a.error(), percent(b.mean), percent(a.mean), percent(b.worst), percent(a.worst), b.unmeasured, a.unmeasured)
			}
		}
	}
	if len(r.kept) > 0 {
		fmt.Fprintf(w, "\nunchanged: %s\n", strings.Join(r.kept, ", "))
	}
	return nil
}

// error prints the error near the best, a dash where no time is near.
func (f figures) error() string {
	if f.near == 0 {
		return "-"
	}
	return percent(f.rms)
}
