package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// What makes the exit code of fleet 1.
const (
	gateDrain = "drain"
	gateWatch = "watch"
)

type fleetOptions struct {
	app           *app
	settings      fleet.Settings
	gate          string
	baseline      string
	writeBaseline string
	out           string
	tables        []string
	force         bool
	accept        rules.Accept
	output        report.Format
}

func newFleetCommand(a *app) *cobra.Command {
	opts := &fleetOptions{app: a, settings: fleet.Default()}
	cmd := &cobra.Command{
		Use:   "fleet DIR|PATTERN|FILE...",
		Short: "Compare the cards of many machines: which one is not like the others",
		Example: examples(
			"gemmaudit fleet night/                                # every .db and .parquet below the folder",
			"gemmaudit fleet 'night/*/run.db' --out night-report   # and a page with a heatmap of card × case",
			"gemmaudit fleet night/ --write-baseline fleet.json    # what later nights are compared with",
			"gemmaudit fleet tonight/ --baseline fleet.json -o csv",
			"gemmaudit fleet night/ --table fleet-table.json       # remedies that pay on every card",
		),
		Long: `Reads run files and exports in Parquet as they come from nodes, any number of them, one after the other,
and holds each card against its peers: cards of the same model with the same software and limits. Where
these differ, the groups are compared first, and what differs is named. A card is told by its UUID,
or by host and device where it has none.

Each card is drain, watch or fine, as a whole and case by case, at the common clock and in sustained time,
with the reason: its clock, its heat, its power, its memory, one kernel, the link to its host, or all cases alike.
What times scatter by between hosts, cards and processes is estimated from cards that are like the others;
three runs of each card, over the night, tell a card that is 2 % slow among eight. What the whole fleet
does over time is blamed on nobody. A fleet that falls into two groups is said to. A card that was measured when no
other host was is not judged: is its clock right?

--baseline compares each card with itself as well, as it was when the baseline was written: so two cards
are enough. gemmaudit check compares one node with the same file.

--table writes a lookup table of the remedies that the runs hold: those that were executed and pay on every
card of a model, with the least gain of all; what only some cards need is listed.

Nothing in a folder is trusted: a file that is damaged, or none of this program's, is named in a warning and left
out, the others are judged, and the exit code is 3. Links in folders are named and not followed. A run that takes 30 times as long
as the others of its model, or a 30th, was measured wrongly: it is named and set aside.` + exitHelp(
			"0  no card is to be drained (--gate watch: nor to be watched; --gate none: whatever was found)",
			"1  the gate failed; also where 3 or 4 would hold as well",
			"3  a file or a folder can't be read, or cases failed in a run; all others are judged. Where no run can be",
			"   used, nothing is written",
			"4  a card could not be compared with another, cases of a plan are missing, or no remedy pays on every card"),
		Args:              atLeastArgs("DIR|PATTERN|FILE"),
		ValidArgsFunction: runFiles(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.Float64Var(&opts.settings.Level, "level", opts.settings.Level, "share of the cards named that may be like the others")
	flags.Float64Var(&opts.settings.Watch, "watch", opts.settings.Watch, "least loss for which a card is named, as a share of the time")
	flags.Float64Var(&opts.settings.Drain, "drain", opts.settings.Drain, "loss that a card surely has that is to be drained")
	clockFlag(cmd, &opts.settings.ClockMHz)
	flags.StringVar(&opts.gate, "gate", gateDrain, "verdicts that make the exit code 1: drain, watch (or drain), none")
	flags.StringVar(&opts.baseline, "baseline", "", "compare with what --write-baseline wrote earlier")
	flags.StringVar(&opts.writeBaseline, "write-baseline", "", "write what the cards take, for later comparisons: a JSON `file`")
	flags.StringVar(&opts.out, "out", "", "write a page to this `folder`: index.html, report.md, fleet.json, cards.csv")
	flags.StringSliceVar(&opts.tables, "table", nil, "write the remedies that pay on every card: out.json, out.csv, out.h, out.go (repeatable)")
	flags.BoolVar(&opts.force, "force", false, "replace existing files")
	acceptFlags(cmd, &opts.accept)
	outputFlag(cmd, &opts.output)
	complete(cmd, "gate", fixed(gateDrain, gateWatch, gateNone))
	complete(cmd, "level", fixed("0.03", "0.01"))
	complete(cmd, "watch", fixed("0.005", "0.01"))
	complete(cmd, "drain", fixed("0.01", "0.03"))
	complete(cmd, "baseline", filesWith("json"))
	complete(cmd, "write-baseline", filesWith("json"))
	complete(cmd, "out", folders)
	complete(cmd, "table", filesWith(tableExtensions...))
	return cmd
}

// check refuses flags that can't be carried out, before thousands of files are read.
func (o *fleetOptions) check() error {
	s := o.settings
	switch {
	case !(s.Level > 0 && s.Level < 1):
		return usagef("--level: %v, expected above 0 and below 1", s.Level)
	case !(s.Watch >= 0 && s.Watch <= 10):
		return usagef("--watch: %v, expected 0 to 10", s.Watch)
	case !(s.Drain >= s.Watch && s.Drain <= 10):
		return usagef("--drain: %v, expected %v, which --watch is, to 10", s.Drain, s.Watch)
	case o.gate != gateDrain && o.gate != gateWatch && o.gate != gateNone:
		return usagef("--gate: %q, expected drain, watch or none", o.gate)
	}
	var cfg rules.Config
	if err := setClock(&cfg, s.ClockMHz); err != nil {
		return err
	}
	if o.writeBaseline != "" {
		if err := refuseExisting(o.writeBaseline, o.force); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := checkReportFolder(o.out, o.force); err != nil {
			return err
		}
	}
	return checkTablePaths(o.tables, o.force)
}

func (o *fleetOptions) run(ctx context.Context, args []string) error {
	a := o.app
	if err := o.check(); err != nil {
		return err
	}
	var baseline *fleet.Baseline
	if o.baseline != "" {
		var err error
		if baseline, err = readFleetBaseline(o.baseline); err != nil {
			return err
		}
	}
	found, err := runs.Find(args)
	if err != nil {
		return devicef("%w", err)
	}
	collector := fleet.NewCollector(o.settings, baseline)
	for _, u := range found.Unread {
		collector.Skip(u.Path, withoutPath(u.Err))
	}
	for _, path := range found.Links {
		collector.Warn(path, "is a link, and links in folders are not followed: name it beside the folder to have it read")
	}
	holds, err := a.collectRuns(ctx, found.Files, collector)
	if err != nil {
		return err
	}
	r := collector.Result()
	if len(r.Cards) == 0 {
		return besides(o.nothing(r), a.wrapPrint(report.WriteFleet(a.stream(a.stdout), o.output, r)))
	}
	var noTable error
	if len(o.tables) > 0 {
		if noTable, err = o.writeTables(ctx, found.Files, r); err != nil {
			return err
		}
	}
	if o.writeBaseline != "" {
		written := r.Baseline()
		if err := a.writeFile(o.writeBaseline, o.force, written.Write); err != nil {
			return err
		}
		for _, model := range written.Thin() {
			a.warnf("%s: no card of %s has several runs: a check by this baseline drains none; take it of three runs a card", o.writeBaseline, model)
		}
	}
	if o.out != "" {
		if err := report.WriteFleetFolder(ctx, o.out, r); err != nil {
			return devicef("%w", err)
		}
		a.notef("report: %s", filepath.Join(o.out, "index.html"))
	}
	if err := a.wrapPrint(report.WriteFleet(a.stream(a.stdout), o.output, r)); err != nil {
		return err
	}
	e := o.evidence(r, holds)
	e.Open = append(e.Open, groundsOf(noTable)...)
	return a.conclude(e)
}

// collectRuns reads files side by side. Each is let go before the next one is read by the same reader. It returns what each run file
// holds of what it was asked for; an export does not say that.
func (a *app) collectRuns(ctx context.Context, files []string, collector *fleet.Collector) ([]rules.Held, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	last := time.Now()
	holds := make([]rules.Held, len(files))
	for i, path := range files {
		if ctx.Err() != nil {
			break
		}
		if now := time.Now(); now.Sub(last) >= 5*time.Second {
			last = now
			a.notef("%d of %s read", i, plural(len(files), "file", "files"))
		}
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			leftOut := 0
			var h rules.Held
			err := runs.ReadWith(path, func(run *results.Run) (err error) {
				h, err = held(run)
				return err
			}, func(r runs.Run) error {
				leftOut += r.LeftOut
				collector.Add(r)
				return nil
			})
			if err != nil {
				collector.Skip(path, err)
				return nil
			}
			if leftOut == 0 { // each case is its machine's: the shards of several are told apart
				h.Mixed = nil
			}
			holds[i] = h
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, interruptedf("stopped while runs were read")
	}
	return holds, nil
}

// readFleetBaseline reads the file of --baseline.
func readFleetBaseline(path string) (*fleet.Baseline, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	b, err := fleet.ReadBaseline(io.Reader(f))
	if err != nil {
		return nil, hint(devicef("%q: %w", path, err), "write one with `gemmaudit fleet DIR --write-baseline FILE`")
	}
	return b, nil
}

// evidence is what the exit code follows from.
func (o *fleetOptions) evidence(r *fleet.Result, held []rules.Held) rules.Evidence {
	e := rules.Evidence{Held: held, Accept: o.accept, Ungated: o.gate == gateNone}
	drain, watch := r.Count(fleet.Drain), r.Count(fleet.Watch)
	if drain > 0 {
		e.Proven = append(e.Proven, fmt.Sprintf("%s to be drained: %s", plural(drain, "card is", "cards are"), cardName(r.Cards[0])))
	} else if o.gate == gateWatch && watch > 0 {
		e.Proven = append(e.Proven, fmt.Sprintf("%s to be watched: %s", plural(watch, "card is", "cards are"), cardName(r.Cards[0])))
	}
	if n := len(r.Unread); n > 0 {
		e.Broken = append(e.Broken, rules.Ground{Text: fmt.Sprintf("%s not read: %s: %s", plural(n, "file was", "files were"), r.Unread[0].Path, r.Unread[0].Reason)})
	}
	if r.Count(fleet.Unjudged) == len(r.Cards) {
		e.Open = append(e.Open, rules.Ground{Text: fmt.Sprintf("no card could be compared with another: %s read", plural(r.Runs, "run was", "runs were")),
			Hint: "give runs of several cards of one model, or --baseline"})
	} else if o.baseline != "" && !r.Compared() {
		e.Open = append(e.Open, rules.Ground{Text: fmt.Sprintf("%s has none of these cards, or none of their cases: none was compared with what it was", o.baseline),
			Hint: "leave --baseline out, or write one of these cards"})
	} else {
		e.Of = "card"
		for _, c := range r.Cards {
			if c.Verdict == fleet.Unjudged {
				e.Unjudged = append(e.Unjudged, cardName(c))
			}
		}
	}
	return e
}

// nothing is the outcome where no card is in any file. No baseline and no page are written of that.
func (o *fleetOptions) nothing(r *fleet.Result) error {
	if n := len(r.Unread); n > 0 {
		return devicef("no run could be used of %s: %s: %s", plural(n, "file", "files"), r.Unread[0].Path, r.Unread[0].Reason)
	}
	return devicef("no file holds a run")
}

func cardName(c fleet.Card) string { return c.Host + " " + c.Device + ": " + c.Reason }
