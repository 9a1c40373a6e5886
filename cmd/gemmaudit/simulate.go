package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/trust"
)

// simulateOptions are the flags of selftest --simulate.
type simulateOptions struct {
	simulate bool
	machines int
	kinds    []string
	worst    int
	keep     string
}

// mostMachines is far above what anybody waits for.
const mostMachines = 1_000_000

func (o *simulateOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.simulate, "simulate", false, "check the verdicts on simulated machines of known truth; no device is used")
	flags.IntVar(&o.machines, "machines", 1000, "simulated machines, dealt to the kinds of noise")
	flags.StringSliceVar(&o.kinds, "noise-kind", nil, "simulate only these kinds of noise (see docs/trust.md)")
	flags.IntVar(&o.worst, "worst", 0, "also list this many of the worst errors of each rate")
	flags.StringVar(&o.keep, "keep", "", "folder in which the simulated run files stay (default: they are deleted)")
	complete(cmd, "noise-kind", listOf(trust.KindNames))
	complete(cmd, "keep", folders)
	for _, free := range []string{"machines", "worst"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
}

// check refuses flags that do not go together.
func (o *simulateOptions) check(cmd *cobra.Command) error {
	for _, name := range []string{"machines", "noise-kind", "worst", "keep"} {
		if !o.simulate && cmd.Flags().Changed(name) {
			return usagef("--%s: expected together with --simulate", name)
		}
	}
	for _, name := range []string{"kernel", "dtype", "noise", "pairs", "rounds", "shape", "device", "kernel-file", "library"} {
		if f := cmd.Flag(name); o.simulate && f != nil && f.Changed {
			return usagef("--%s can't be combined with --simulate", name)
		}
	}
	switch {
	case o.machines < 1 || o.machines > mostMachines:
		return usagef("--machines: %d, expected 1 to %d", o.machines, mostMachines)
	case o.worst < 0:
		return usagef("--worst: %d, expected at least 0", o.worst)
	}
	return nil
}

// run simulates machines, prints the rates and fails when one passes its bound.
func (o *simulateOptions) run(ctx context.Context, a *app, seed uint64, output report.Format) error {
	kinds, err := trust.ParseKinds(o.kinds)
	if err != nil {
		return badFlag("noise-kind", err)
	}
	last := time.Now()
	result, err := trust.Run(ctx, trust.Options{
		Machines: o.machines, Seed: seed, Kinds: kinds, Config: rules.Default(), Worst: o.worst, Keep: o.keep,
		Progress: func(done, of int) {
			if now := time.Now(); now.Sub(last) >= 5*time.Second {
				last = now
				a.notef("%d of %d machines simulated", done, of)
			}
		},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return interruptedf("the simulation of %s was stopped", plural(o.machines, "machine", "machines"))
	case err != nil:
		return devicef("simulate: %w", err)
	}
	doc := trustDocument(result)
	if output == report.CSV {
		doc.Sheets = []report.Sheet{ratesSheet(result)}
	}
	if err := a.print(doc, output); err != nil {
		return err
	}
	return a.conclude(trustEvidence(result))
}

// trustEvidence is what the exit code follows from: what passes its bound, and what could
// not be told.
func trustEvidence(result *trust.Result) rules.Evidence {
	var e rules.Evidence
	if n := len(result.Broken); n > 0 {
		b := result.Broken[0]
		text := fmt.Sprintf("%s under %s is %d of %d, bound %s", b.Measure, b.Kind, b.Hits, b.Of, percent(b.Bound))
		if n > 1 {
			text += fmt.Sprintf(", and %d more", n-1)
		}
		e.Proven = append(e.Proven, fmt.Sprintf("%s past the bound: %s", plural(n, "rate is", "rates are"), text))
	}
	if n := len(result.Thin); n > 0 {
		e.Open = append(e.Open, rules.Ground{Text: fmt.Sprintf("%s too few machines to be compared with the bound: %s under %s was counted %d times",
			plural(n, "rate has", "rates have"), result.Thin[0].Measure, result.Thin[0].Kind, result.Thin[0].Of), Hint: "more --machines"})
	}
	return e
}

// trustDocument arranges rates in tables, one row for each kind of noise.
func trustDocument(r *trust.Result) *report.Document {
	doc := &report.Document{Subject: "simulation", Value: r, Items: []any{}}
	doc.Head = []report.Note{{Text: fmt.Sprintf("%s, seed %d, threshold %g; cells: errors/total, upper 95 %% limit, ! past its bound, ? too few to tell",
		plural(r.Machines, "simulated machine", "simulated machines"), r.Seed, r.Threshold)}}
	type column struct {
		name, key string
		cell      func(trust.KindResult) string
	}
	rate := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string { return rateText(k.Rate(m)) }}
	}
	agree := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string {
			x := k.Rate(m)
			if x.Of == 0 {
				return ""
			}
			return fmt.Sprintf("%.3f of %d", 1-x.Share, x.Of)
		}}
	}
	bias := func(name, key string, of func(trust.KindResult) float64) column {
		return column{name, key, func(k trust.KindResult) string {
			if k.Remedies == 0 {
				return ""
			}
			return fmt.Sprintf("%+.2f %%", 100*of(k))
		}}
	}
	share := func(name string, m trust.Measure) column {
		return column{name, string(m), func(k trust.KindResult) string {
			if x := k.Rate(m); x.Of > 0 {
				return fmt.Sprintf("%.1f %% of %d", 100*x.Share, x.Of)
			}
			return ""
		}}
	}
	sheetOf := func(kinds []trust.KindResult, title string, columns ...column) {
		s := report.Sheet{Title: title, Columns: []report.Column{{Name: "noise", Key: "noise"}}}
		for _, c := range columns {
			s.Columns = append(s.Columns, report.Column{Name: c.name, Key: c.key, Align: report.Right})
		}
		for _, k := range kinds {
			row := []any{k.Name}
			for _, c := range columns {
				row = append(row, c.cell(k))
			}
			s.Rows = append(s.Rows, row)
		}
		doc.Sheets = append(doc.Sheets, s)
	}
	sheet := func(title string, columns ...column) { sheetOf(r.Kinds, title, columns...) }
	sheet("Verdicts",
		column{"machines", "machines", func(k trust.KindResult) string { return strconv.Itoa(k.Machines) }},
		column{"samples a row", "samples", func(k trust.KindResult) string { return fmt.Sprintf("%.1f", k.Samples) }},
		rate("false rows", trust.FalseRows), rate("false findings", trust.FalseFindings), rate("slow rows called clean", trust.MissedRows),
		rate("open rows", trust.OpenRows), rate("marginal", trust.MarginalRows), rate("two levels missed", trust.ModesMissed),
		rate("two levels wrongly", trust.ModesFalse), rate("invalid runs", trust.InvalidRuns))
	var depths []column
	for _, depth := range trust.Depths() {
		depths = append(depths, column{fmt.Sprintf("%.3g %%", 100*depth), fmt.Sprintf("depth_%g", depth), func(k trust.KindResult) string {
			for _, d := range k.Detection {
				if d.Depth == depth {
					return fmt.Sprintf("%d/%d, ≥%s", d.Hits, d.Of, percent(d.Lower))
				}
			}
			return ""
		}})
	}
	sheet("Slow intervals found, by depth (found/planted, lower 95 % limit)", depths...)
	sheet("Two audits of one machine, cold and hot",
		agree("anomalous in both ÷ either", trust.PairDisagree), agree("with marginal as either", trust.PairDisagreeLenient),
		rate("contradictions", trust.PairContradict), rate("diff: cases changed", trust.DiffChanged), rate("diff: alarms", trust.DiffAlarms),
		rate("diff: undecided", trust.DiffOpen), rate("A/A called different", trust.NoiseFlagged))
	sheet("Outside of the 95 % interval",
		rate("row times", trust.UncoveredTime), rate("losses of findings", trust.UncoveredLoss), rate("gains of remedies", trust.UncoveredGain),
		rate("ratios of diff", trust.UncoveredRatio))
	sheet("Remedies",
		rate("executed, not emitted", trust.RemediesUnpaid), rate("emitted, gain nothing", trust.FalseRemedies),
		rate("rows served, gain nothing", trust.FalseTableRows), rate("gain, not served", trust.MissedRemedies),
		bias("promised ÷ true gain", "promised", func(k trust.KindResult) float64 { return k.Promised }),
		bias("predicted ÷ true gain", "predicted", func(k trust.KindResult) float64 { return k.Predicted }))
	sheet("Stopped sweeps that contradict the full one",
		rate("cut short", trust.PrefixContradict), rate("deadline", trust.DeadlineContradict))
	var inferred []trust.KindResult
	for _, k := range r.Kinds {
		if k.Rate(trust.InferredRows).Of > 0 {
			inferred = append(inferred, k)
		}
	}
	if len(inferred) > 0 {
		sheetOf(inferred, "Rows that were not measured", share("inferred", trust.InferredRows), rate("not known", trust.UnknownRows),
			rate("outside of the interval", trust.UncoveredInferred), rate("off by over 1 %", trust.FarInferred),
			rate("check rows outside", trust.ChecksOutside), rate("slow, called clean", trust.MissedInferred),
			rate("slow by themselves, called clean", trust.MissedIsolated))
	}
	if len(r.Worst) > 0 {
		doc.Sheets = append(doc.Sheets, worstSheet(r.Worst))
	}
	for _, k := range r.Kinds {
		for _, x := range k.Rates {
			doc.Items = append(doc.Items, x)
		}
	}
	kinds := report.Sheet{Title: "Kinds of noise", Columns: []report.Column{{Name: "noise", Key: "noise"}, {Name: "what it is", Key: "means", Flex: true}}}
	for _, k := range r.Kinds {
		kinds.Rows = append(kinds.Rows, []any{k.Name, k.Means})
	}
	doc.Sheets = append(doc.Sheets, kinds)
	for _, b := range r.Broken {
		doc.Notes = append(doc.Notes, report.Note{Text: fmt.Sprintf("%s under %s: %d of %d, limits %s and %s, bound %s",
			b.Measure, b.Kind, b.Hits, b.Of, percent(b.Lower), percent(b.Upper), percent(b.Bound)), Tone: report.Bad})
	}
	return doc
}

// ratesSheet has one row for each rate, in numbers.
func ratesSheet(r *trust.Result) report.Sheet {
	var s report.Sheet
	for _, key := range []string{"noise", "rate", "hits", "of", "share", "lower", "upper", "bound", "broken"} {
		s.Columns = append(s.Columns, report.Column{Name: key, Key: key})
	}
	for _, k := range r.Kinds {
		for _, x := range k.Rates {
			var bound any
			if x.Bound > 0 {
				bound = x.Bound
			}
			s.Rows = append(s.Rows, []any{x.Kind, string(x.Measure), x.Hits, x.Of, x.Share, x.Lower, x.Upper, bound, x.Broken})
		}
	}
	return s
}

// rateText is a rate as a cell: "3/400, ≤1.9 %".
func rateText(r trust.Rate) string {
	if r.Of == 0 {
		return ""
	}
	text := fmt.Sprintf("%d/%d, ≤%s", r.Hits, r.Of, percent(r.Upper))
	if r.Broken {
		text += " !"
	}
	if r.Thin {
		text += " ?"
	}
	return text
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }

// worstSheet lists what an audit got wrong.
func worstSheet(worst []trust.Offence) report.Sheet {
	s := report.Sheet{Title: "Worst errors"}
	for _, c := range []struct {
		name  string
		align report.Align
	}{{"noise", report.Left}, {"machine", report.Right}, {"run", report.Left}, {"rate", report.Left}, {"kernel", report.Left}, {"m", report.Right},
		{"rule", report.Left}, {"verdict", report.Left}, {"truth", report.Right}, {"claimed", report.Right}, {"beyond", report.Right}, {"samples", report.Right}} {
		s.Columns = append(s.Columns, report.Column{Name: c.name, Key: c.name, Align: c.align})
	}
	for _, o := range worst {
		truth := fmt.Sprintf("%.4f", o.Truth.Lo)
		if o.Truth.Hi != o.Truth.Lo {
			truth += fmt.Sprintf(" to %.4f", o.Truth.Hi)
		}
		s.Rows = append(s.Rows, []any{o.Kind, o.Machine, o.Run, string(o.Measure), o.Kernel, o.M, o.Rule, o.Verdict, truth,
			fmt.Sprintf("%.4f [%.4f, %.4f]", o.Claimed.Mid, o.Claimed.Lo, o.Claimed.Hi), fmt.Sprintf("%.4f", o.Beyond), o.Samples})
	}
	return s
}
