package main

import (
	"fmt"
	"io"
	"strings"
)

// print writes the table: for each model and for auto, the figures with start constants and fitted ones, on
// the fitted and the held-out shapes. "Not measured" counts cases whose pick was not measured; such a pick
// counts as slow as the slowest measured candidate.
func print(w io.Writer, r *result, on gpu) error {
	fmt.Fprintf(w, "%s, compute capability %d.%d, %d multiprocessors; from the constants of %s\n\n", on.name, on.arch.CC/10, on.arch.CC%10,
		on.arch.SMs, r.Start.Card)
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %21s  %15s  %15s  %15s\n", "", "", "", "", "error near the best %", "mean regret %",
		"worst regret %", "not measured")
	fmt.Fprintf(w, "%-24s  %-8s  %5s  %6s  %13s  %6s  %7s  %6s  %7s  %6s  %7s  %6s\n", "model", "part", "cases", "times", "before", "after",
		"before", "after", "before", "after", "before", "after")
	for _, list := range [][]outcome{r.Models, r.Choices} {
		for _, o := range list {
			for _, part := range []struct {
				name string
				comparison
			}{{"fit", o.Fitted}, {"held out", o.Held}} {
				b, a := part.Before, part.After
				fmt.Fprintf(w, "%-24s  %-8s  %5d  %6d  %13s  %6s  %7s  %6s  %7s  %6s  %7d  %6d\n", o.Name, part.name, a.Cases, a.Times,
					near(b), near(a), percent(b.Mean), percent(a.Mean), percent(b.Worst), percent(a.Worst),
					b.Unmeasured, a.Unmeasured)
			}
		}
	}
	if len(r.Kept) > 0 {
		fmt.Fprintf(w, "\nunchanged: %s\n", strings.Join(r.Kept, ", "))
	}
	return nil
}

func near(f figures) string {
	if f.Near == 0 {
		return "-"
	}
	return percent(f.RMS)
}
