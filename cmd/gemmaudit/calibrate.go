package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	stored "github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/report"
)

type calibrateOptions struct {
	app    *app
	limit  time.Duration
	seed   uint64
	keep   bool
	show   bool
	forget bool
	times  string
	output report.Format
}

// calibrated is a device whose kernels are planned by constants that can be measured.
type calibrated interface {
	kernels.Device
	kernels.Calibrated
	calibrate.Card
}

func newCalibrateCommand(a *app) *cobra.Command {
	opts := &calibrateOptions{app: a}
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure the constants by which kernels are planned on this card",
		Example: examples(
			"gemmaudit calibrate                       # 20 seconds; what is better is kept and used from then on",
			"gemmaudit calibrate --device cuda:1 --keep=false   # only look",
			"gemmaudit calibrate --show                # the constants in force",
			"gemmaudit calibrate --forget              # back to those that ship",
		),
		Long: `Our kernels on a GPU pick tiles, clusters and splits by a model of times; nothing is timed when a
product is bound. The model's constants are data of a card. Those of an H200 and an H100 ship with
the program, and another card takes those of the nearest one: by compute capability,
multiprocessors and bandwidth.

calibrate measures the card at hand: the clock under load, memory, L2, what a launch takes, then
few products and attentions that tell the cycles of tiles and what they cost beside them. The constants
are fitted to these times. Then other products, to which nothing was fitted, are timed: what is
picked before and after, beside the best of some candidates. New constants whose picks are slower
are not kept, for products and attention apart.

Constants are kept in a file a card model, driver version and version of this program, in
$XDG_CONFIG_HOME/gemmaudit/calibration (~/.config). GEMMAUDIT_CALIBRATION names another folder,
"none" none: then those that ship are in force. Kept constants are used by every command that plans
kernels, on cards of the same model. Runs record them: diff names them as a factor, merge refuses runs that
differ in them, and a run that is resumed or confirmed goes on with those that it began with.` + exitHelp(
			"0  measured, and new constants are kept (or --show, --forget)",
			"2  the device's kernels are not planned by constants, or there is no folder to keep them in",
			"3  there is no card, the device failed or the file can't be written",
			"4  the new constants pick slower plans than those in force, and are not kept",
			"130  interrupted; nothing is changed"),
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&opts.limit, "limit", calibrate.Limit, "time for all of it, from 5s to 10m; more of it measures more")
	flags.Uint64Var(&opts.seed, "seed", 1, "seed of the order, and of the products that constants are checked on")
	flags.BoolVar(&opts.keep, "keep", true, "keep new constants that are better")
	flags.BoolVar(&opts.show, "show", false, "only show the constants in force")
	flags.BoolVar(&opts.forget, "forget", false, "remove what is kept of this card model")
	flags.StringVar(&opts.times, "times", "", "also write every time to this `file`, which the project's own fit of constants reads; \"-\" is stdout")
	outputFlag(cmd, &opts.output)
	for _, free := range []string{"limit", "seed"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *calibrateOptions) run(ctx context.Context) error {
	if o.limit < 5*time.Second || o.limit > 10*time.Minute {
		return usagef("--limit: %v, expected 5s to 10m", o.limit)
	}
	if o.show && o.forget {
		return usagef("--show can't be combined with --forget")
	}
	store := stored.Find(o.app.getenv)
	if store.Dir == "" && o.keep && !o.show && !o.forget {
		return hint(usagef("there is no folder to keep constants in"), "%s names one, or --keep=false only looks", stored.Env)
	}
	d, err := o.device()
	if err != nil {
		return err
	}
	switch {
	case o.forget:
		return o.forgetKept(d, store)
	case o.show:
		return o.print(o.described(d, store))
	}
	return o.measure(ctx, d, store)
}

// device is the card that is selected.
func (o *calibrateOptions) device() (calibrated, error) {
	one, err := o.app.oneDevice()
	if err != nil {
		return nil, err
	}
	d, ok := one.(calibrated)
	switch {
	case ok:
		return d, nil
	case o.app.device != "auto":
		return nil, hint(usagef("%s has no constants to calibrate: its kernels are not planned by those of a card", one.Spec().ID), "`gemmaudit devices` lists what this machine has")
	}
	var why []string
	for _, m := range o.app.registry().Missing() {
		why = append(why, m.Name+": "+m.Reason)
	}
	return nil, devicef("there is no card here to calibrate (%s)", strings.Join(why, "; "))
}

// keyOf is what the constants of a device are kept by.
func (o *calibrateOptions) keyOf(d calibrated) stored.Key {
	on := d.CardFacts("")
	return stored.Key{Card: on.Card, Driver: on.Driver, Program: buildVersion()}
}

func (o *calibrateOptions) forgetKept(d calibrated, store stored.Store) error {
	removed, err := store.Forget(o.keyOf(d))
	for _, path := range removed {
		o.app.notef("removed %s", path)
	}
	if err != nil {
		return devicef("forget constants: %w", err)
	}
	if len(removed) == 0 {
		o.app.notef("nothing is kept of %s", d.Spec().Name)
	}
	return nil
}

// described is what is known of a device's constants without measuring.
func (o *calibrateOptions) described(d calibrated, store stored.Store) (*report.Calibration, error) {
	on := d.CardFacts("")
	c := &report.Calibration{Device: d.Spec().ID, Card: on.Card, Driver: on.Driver, Program: buildVersion(), InForce: d.Constants()}
	shipped, err := calibration.Nearest(on.Capability, on.SMs, on.Bandwidth)
	if err != nil {
		return nil, devicef("read the constants: %w", err)
	}
	inForce, measured, err := calibration.InForce(on.Capability, on.SMs, on.Bandwidth)
	if err != nil {
		return nil, devicef("read the constants: %w", err)
	}
	c.From, c.Constants = shipped.Card, constantsOf(shipped, inForce, nil, nil)
	if measured {
		c.Measured, c.Kept = quantitiesOf(inForce.Measured), store.Path(o.keyOf(d))
	}
	return c, nil
}

// print shows what was found, unless that failed.
func (o *calibrateOptions) print(c *report.Calibration, err error) error {
	if err != nil {
		return err
	}
	return o.app.wrapPrint(report.WriteCalibration(o.app.stream(o.app.stdout), o.output, c))
}

// measure calibrates, prints what was found, and keeps what is better.
func (o *calibrateOptions) measure(ctx context.Context, d calibrated, store stored.Store) error {
	a := o.app
	c, err := o.described(d, store)
	if err != nil {
		return err
	}
	c.Kept = ""
	r, err := calibrate.Run(ctx, d, calibrate.Options{
		Limit: o.limit, Seed: o.seed, Program: buildVersion(), Now: a.now, Progress: o.progress(),
	})
	switch {
	case ctx.Err() != nil:
		return interruptedf("nothing is changed")
	case err != nil:
		return devicef("calibrate %s: %w", d.Spec().ID, err)
	}
	o.describe(c, r)
	if o.times != "" {
		if err := a.writeFile(o.times, true, func(w io.Writer) error {
			if err := candidates.WriteCard(w, r.On); err != nil {
				return err
			}
			return candidates.WriteTimes(w, r.All)
		}); err != nil {
			return err
		}
	}
	var failure error
	switch {
	case !r.Kept():
		failure = inconclusivef("%s: the new constants are not kept: %s", d.Spec().ID, reasons(r))
	case o.keep:
		if c.Kept, err = store.Save(r.After); err != nil {
			failure = devicef("keep the constants: %w", err)
		}
	}
	if err := o.print(c, nil); err != nil {
		return errors.Join(failure, err)
	}
	for _, p := range r.Parts {
		if failure == nil && p.Verdict != calibrate.Better {
			a.notef("the constants of %s stay as they were: %s", p.Name, reason(p))
		}
	}
	if c.Kept != "" {
		a.notef("kept in %s", c.Kept)
	}
	return failure
}

// progress notes the phases; single cases are for nobody.
func (o *calibrateOptions) progress() func(string, bool) {
	return func(what string, oneCase bool) {
		if !oneCase {
			o.app.notef("calibrate: %s", what)
		}
	}
}

// reason says why new constants of a part are not kept.
func reason(p calibrate.Part) string {
	switch {
	case p.Verdict == calibrate.Unchecked:
		return "there was no time to check them"
	case p.Lost > calibrate.MostLost:
		return fmt.Sprintf("what they pick is slower by %.1f %% for one of %d cases", 100*p.Lost, p.Cases)
	}
	return fmt.Sprintf("what they pick for %d cases is %.1f %% slower than the best, and %.1f %% by those in force", p.Cases, 100*p.After, 100*p.Before)
}

func reasons(r *calibrate.Result) string {
	var all []string
	for _, p := range r.Parts {
		all = append(all, p.Name+": "+reason(p))
	}
	return strings.Join(all, "; ")
}

// describe adds what was measured.
func (o *calibrateOptions) describe(c *report.Calibration, r *calibrate.Result) {
	better := map[string]bool{}
	c.Cases, c.Times, c.Seconds = r.Cases, r.Times, r.Seconds
	c.Measured = quantitiesOf(r.After.Measured)
	for _, p := range r.Parts {
		for _, m := range p.Models {
			better[m] = p.Verdict == calibrate.Better
		}
		c.Parts = append(c.Parts, report.CalibrationPart{
			Name: p.Name, Cases: p.Cases, Changed: p.Changed, Before: p.Before, After: p.After,
			WorstBefore: p.WorstBefore, WorstAfter: p.WorstAfter, Verdict: string(p.Verdict),
		})
	}
	for _, x := range r.Checks {
		name := func(t calibrate.Timed) string { return t.Family + " " + t.Label }
		c.Checks = append(c.Checks, report.CalibrationCheck{
			Case: x.Case.String(), Before: name(x.Before), After: name(x.After), Best: name(x.Best),
			BeforeUS: 1e6 * x.Before.Seconds, AfterUS: 1e6 * x.After.Seconds, BestUS: 1e6 * x.Best.Seconds,
		})
	}
	c.Constants = constantsOf(r.Near, r.Before, r.Fitted, better)
}

// constantsOf lists constants model by model; measured is nil where there are no new ones.
func constantsOf(shipped, inForce, measured *calibration.Card, better map[string]bool) []report.CalibrationConstant {
	var all []report.CalibrationConstant
	for _, model := range calibration.Names() {
		m := inForce.Models[model]
		for _, name := range m.Order(model) {
			q := m.Constants[name]
			x := report.CalibrationConstant{Model: model, Name: name, Unit: q.Unit, Shipped: shipped.Models[model].Constants[name].Value, InForce: q.Value}
			if measured != nil {
				x.Measured, x.Kept = measured.Models[model].Constants[name].Value, better[model]
			}
			all = append(all, x)
		}
	}
	return all
}

// quantityNames are what is measured without a model, in the order in which it is shown.
var quantityNames = []struct{ key, name string }{
	{"clock", "clock under load"}, {"launch", "launch"}, {"memory", "memory, read"}, {"l2", "L2 to a multiprocessor"},
}

func quantitiesOf(measured map[string]calibration.Quantity) []report.CalibrationQuantity {
	var all []report.CalibrationQuantity
	for _, n := range quantityNames {
		if q, ok := measured[n.key]; ok {
			all = append(all, report.CalibrationQuantity{Name: n.name, Value: q.Value, Unit: q.Unit})
		}
	}
	return all
}
