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
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

// Results that make the exit code of fleet 1.
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
	accept        outcome.Accept
	output        report.Format
}

func newFleetCommand(a *app) *cobra.Command {
	opts := &fleetOptions{app: a, settings: fleet.Default()}
	cmd := &cobra.Command{
		Use:               "fleet DIR|PATTERN|FILE...",
		Args:              atLeastArgs("DIR|PATTERN|FILE"),
		ValidArgsFunction: runFiles(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.settings.Level, "level", opts.settings.Level, "expected share of false positives among flagged cards",
		fixed("0.03", "0.01"))
	addFlag(cmd, &opts.settings.Watch, "watch", opts.settings.Watch, "smallest loss to flag a card, as a share of the time",
		fixed("0.005", "0.01"))
	addFlag(cmd, &opts.settings.Drain, "drain", opts.settings.Drain, "drain a card if the lower bound of its loss exceeds this share",
		fixed("0.01", "0.03"))
	clockFlag(cmd, &opts.settings.ClockMHz)
	addFlag(cmd, &opts.gate, "gate", gateDrain, "verdicts that exit with 1: drain, watch (or drain), none",
		fixed(gateDrain, gateWatch, verdict.None))
	addFlag(cmd, &opts.baseline, "baseline", "", "compare with a file that --write-baseline wrote earlier", filesWith("json"))
	addFlag(cmd, &opts.writeBaseline, "write-baseline", "", "write the times of the cards to a JSON `file`, for later comparisons",
		filesWith("json"))
	addFlag(cmd, &opts.out, "out", "", "write a page to this `folder`: index.html, report.md, fleet.json, cards.csv", folders)
	addFlag(cmd, &opts.tables, "table", nil, "write remedies that pay on every card: .json, .csv, .h or .go (repeatable)",
		filesWith(file.Extensions...))
	flags.BoolVar(&opts.force, "force", false, "replace existing files")
	acceptFlags(cmd, &opts.accept)
	outputFlag(cmd, &opts.output)
	return cmd
}

// check rejects invalid flags before thousands of files are read.
func (o *fleetOptions) check() error {
	s := o.settings
	switch {
	case !(s.Level > 0 && s.Level < 1):
		return usagef("--level: %v, expected above 0 and below 1", s.Level)
	case !(s.Watch >= 0 && s.Watch <= 10):
		return usagef("--watch: %v, expected 0 to 10", s.Watch)
	case !(s.Drain >= s.Watch && s.Drain <= 10):
		return usagef("--drain: %v, expected %v (from --watch) to 10", s.Drain, s.Watch)
	case o.gate != gateDrain && o.gate != gateWatch && o.gate != verdict.None:
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
		collector.Warn(path, "is a link, and links in folders are not followed: name it on the command line to read it")
	}
	holds, err := a.collectRuns(ctx, found.Files, collector)
	if err != nil {
		return err
	}
	r := collector.Result()
	if len(r.Cards) == 0 {
		return joinErrors(o.nothing(r), a.wrapPrint(report.WriteFleet(a.stream(a.stdout), o.output, r)))
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
			a.warnf("%s: no card of %s has several runs, so a check with this baseline never drains a card; use three runs of each card",
				o.writeBaseline, model)
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

// collectRuns reads files in parallel. Each reader releases a file before its next. It returns each run
// file's completeness; exports do not contain it.
func (a *app) collectRuns(ctx context.Context, files []string, collector *fleet.Collector) ([]outcome.Held, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	last := time.Now()
	holds := make([]outcome.Held, len(files))
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
			var h outcome.Held
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
			if leftOut == 0 { // each case names its machine, so a mix is no problem
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

func (o *fleetOptions) evidence(r *fleet.Result, held []outcome.Held) outcome.Evidence {
	e := outcome.Evidence{Held: held, Accept: o.accept, Ungated: o.gate == verdict.None}
	drain, watch := r.Count(fleet.Drain), r.Count(fleet.Watch)
	if drain > 0 {
		e.Proven = append(e.Proven, fmt.Sprintf("%s to drain: %s", plural(drain, "card is", "cards are"), cardName(r.Cards[0])))
	} else if o.gate == gateWatch && watch > 0 {
		e.Proven = append(e.Proven, fmt.Sprintf("%s to watch: %s", plural(watch, "card is", "cards are"), cardName(r.Cards[0])))
	}
	if n := len(r.Unread); n > 0 {
		e.Broken = append(e.Broken,
			outcome.Ground{Text: fmt.Sprintf("%s not read: %s: %s", plural(n, "file was", "files were"), r.Unread[0].Path,
				r.Unread[0].Reason)})
	}
	if r.Count(fleet.Unjudged) == len(r.Cards) {
		e.Open = append(e.Open,
			outcome.Ground{Text: fmt.Sprintf("no card could be compared with another: %s read", plural(r.Runs, "run was", "runs were")),
				Hint: "give runs of several cards of one model, or --baseline"})
	} else if o.baseline != "" && !r.Compared() {
		e.Open = append(e.Open,
			outcome.Ground{Text: fmt.Sprintf("%s has no case of these cards: no card was compared with its earlier times", o.baseline),
				Hint: "omit --baseline, or write a baseline of these cards"})
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

// nothing is the outcome if no file has a card. It writes no baseline and no page.
func (o *fleetOptions) nothing(r *fleet.Result) error {
	if n := len(r.Unread); n > 0 {
		return devicef("no run could be used: %s: %s: %s", plural(n, "file", "files"), r.Unread[0].Path, r.Unread[0].Reason)
	}
	return devicef("no file is a run")
}

func cardName(c fleet.Card) string { return c.Host + " " + c.Device + ": " + c.Reason }
