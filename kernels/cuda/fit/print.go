package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting"
)

// print writes the table: for each model and for auto, the figures with start constants and fitted ones, on
// the fitted and the held-out shapes. "Not measured" counts cases whose pick was not measured; such a pick
// counts as slow as the slowest measured candidate.
func print(w io.Writer, r *fitting.Result, on candidates.Card) error {
	fmt.Fprintf(w, "%s, compute capability %d.%d, %d multiprocessors; from the constants of %s\n\n", on.Card, on.Capability/10,
		on.Capability%10, on.SMs, r.Start.Card)
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %21s  %15s  %15s  %15s\n", "", "", "", "", "error near the best %", "mean regret %",
		"worst regret %", "not measured")
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %13s  %6s  %7s  %6s  %7s  %6s  %7s  %6s\n", "model", "part", "cases", "times", "before", "after",
		"before", "after", "before", "after", "before", "after")
	for _, list := range [][]fitting.Outcome{r.Models, r.Choices} {
		for _, o := range list {
			for _, part := range []struct {
				name string
				fitting.Comparison
			}{{"fit", o.Fitted}, {"held out", o.Held}} {
				b, a := part.Before, part.After
				fmt.Fprintf(w, "%-24s  %-8s  %5d  %6d  %13s  %6s  %7s  %6s  %7s  %6s  %7d  %6d\n", o.Name, part.name, a.Cases, a.Times,
					near(b), near(a), fitting.Percent(b.Mean), fitting.Percent(a.Mean), fitting.Percent(b.Worst), fitting.Percent(a.Worst),
					b.Unmeasured, a.Unmeasured)
			}
		}
	}
	if len(r.Kept) > 0 {
		fmt.Fprintf(w, "\nunchanged: %s\n", strings.Join(r.Kept, ", "))
	}
	return nil
}

// printPicks writes the cost of auto's picks by rows of A and by type, held out and fitted. "Close" is the
// share that loses at most 1 %.
func printPicks(w io.Writer, r *fitting.Result) {
	for _, part := range []struct {
		name string
		of   []fitting.Picks
	}{{"held out", r.Held}, {"fit", r.Fitted}} {
		fmt.Fprintf(w, "\n%-16s  %5s  %15s  %15s  %15s  %15s\n", "auto, "+part.name, "", "within 1 %, %", "mean loss %", "99 of 100 %",
			"worst %")
		fmt.Fprintf(w, "%-16s  %5s", "", "cases")
		for range 4 {
			fmt.Fprintf(w, "  %7s  %6s", "before", "after")
		}
		fmt.Fprintln(w)
		for _, p := range part.of {
			b, a := p.Before, p.After
			fmt.Fprintf(w, "%-16s  %5d", p.Kind, a.Cases)
			for _, x := range [][2]float64{{b.Share(), a.Share()}, {b.Mean, a.Mean}, {b.P99, a.P99}, {b.Worst, a.Worst}} {
				fmt.Fprintf(w, "  %7s  %6s", fitting.Percent(x[0]), fitting.Percent(x[1]))
			}
			fmt.Fprintln(w)
		}
	}
}

func near(f fitting.Figures) string {
	if f.Near == 0 {
		return "-"
	}
	return fitting.Percent(f.RMS)
}
