package remedy

import (
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// ResultTeller is implemented by measurers that can compare results too.
type ResultTeller interface {
	// Numerics compares the results of remedies with the direct product's: one result per remedy, in order.
	// ok is false if the product can't be checked.
	Numerics(ctx context.Context, r results.ResultRequest) (n []results.Numerics, ok bool, err error)
}

// resultLook checks the results of remedies. A remedy whose result fails the correctness bound, or is not
// available, is rejected.
type resultLook struct {
	r      *Result
	o      Options
	teller ResultTeller // nil if results can't be checked
	failed map[string]bool
}

func newResultLook(r *Result, o Options, m rules.Measurer) *resultLook {
	teller, _ := m.(ResultTeller)
	return &resultLook{r: r, o: o, teller: teller, failed: map[string]bool{}}
}

func (l *resultLook) restricts() bool { return l.o.SameBits || l.o.BatchInvariant }

func (l *resultLook) fits(n *results.Numerics) bool {
	switch {
	case n == nil:
		return !l.restricts()
	case n.Failed != "" || n.Wrong > 0:
		return false
	}
	return (!l.o.SameBits || n.SameBits) && (!l.o.BatchInvariant || n.BatchInvariant)
}

// admit checks the results of all remedies to be executed and keeps the contests with acceptable ones. left
// is how many contests have none, unreached how many the deadline cut off.
func (l *resultLook) admit(ctx context.Context, contests []*contest) (out []*contest, left, unreached int, err error) {
	remedies := 0
	for i, c := range contests {
		if err := l.look(ctx, c, c.entries); err != nil {
			if !rules.TimeUp(ctx, err) {
				return nil, 0, 0, err
			}
			unreached = len(contests) - i
			l.timeUp(unreached)
			break
		}
		all := len(c.entries)
		c.entries = slices.DeleteFunc(c.entries, func(e *entry) bool { return !l.fits(e.remedy.Numerics) })
		remedies += all - len(c.entries)
		if len(c.entries) > 0 {
			out = append(out, c)
		} else {
			left++
		}
	}
	if remedies > 0 {
		what := "differs in bits from the direct product"
		switch {
		case l.o.SameBits && l.o.BatchInvariant:
			what += " or depends on M"
		case l.o.BatchInvariant:
			what = "depends on M"
		}
		l.r.warn("run", "%d remedies skipped, whose result %s, or may", remedies, what)
	}
	return out, left, unreached, nil
}

func (l *resultLook) proof(ctx context.Context, contests []*contest) error {
	for i, c := range contests {
		var paying []*entry
		for _, e := range c.entries {
			if e.paying && e.remedy.Numerics == nil {
				paying = append(paying, e)
			}
		}
		if err := l.look(ctx, c, paying); err != nil {
			if !rules.TimeUp(ctx, err) {
				return err
			}
			l.timeUp(len(contests) - i)
			return nil
		}
		for _, e := range paying {
			if !l.fits(e.remedy.Numerics) {
				e.paying, e.remedy.Pays = false, false
			}
		}
	}
	return nil
}

func (l *resultLook) timeUp(rows int) {
	l.r.warn("run", "the time limit was reached before the results of remedies of %s could be checked", phrase.Count(rows, "row"))
}

func (l *resultLook) look(ctx context.Context, c *contest, entries []*entry) error {
	if l.teller == nil || len(entries) == 0 || !c.stretch.curve.Series.Key.OverM() { // padded weights have another layout
		return nil
	}
	direct := c.direct()
	direct.ID, direct.Label, direct.Launch = 0, "", results.Launch{}
	request := results.ResultRequest{Direct: []results.Case{direct}}
	others := otherMs(c.m)
	for _, m := range others {
		at := direct
		at.M = m
		request.Direct = append(request.Direct, at)
	}
	for _, e := range entries {
		cases := []results.Case{e.remedy.Case(direct)}
		for _, at := range request.Direct[1:] {
			if r, ok := e.plan.remedy(at.M); ok {
				cases = append(cases, r.Case(at))
			}
		}
		request.Remedies = append(request.Remedies, cases)
	}
	found, ok, err := l.teller.Numerics(ctx, request)
	switch {
	case err != nil && (rules.TimeUp(ctx, err) || errors.Is(err, kernels.ErrDeviceLost)):
		return err
	case err != nil:
		l.warnOnce(c, err.Error())
		return nil
	case !ok:
		return nil
	}
	for i, e := range entries {
		n := found[i]
		e.remedy.Numerics = &n
		switch {
		case n.Failed != "":
			l.warnOnce(c, n.Failed)
		case n.Wrong > 0:
			l.r.warn(c.stretch.curve.Series.Key.String(), "m%d: the result of a %s is wrong: %s above the bound of the correctness check",
				c.m, e.remedy.Kind, phrase.Count(n.Wrong, "element"))
		}
	}
	return nil
}

func (l *resultLook) warnOnce(c *contest, why string) {
	key := c.stretch.curve.Series.Key.String()
	if !l.failed[key] {
		l.failed[key] = true
		l.r.warn(key, "m%d: a result could not be checked: %s", c.m, why)
	}
}

// otherMs are the Ms for comparing a row's bits with m: alone, in a batch half as large, and at the next M.
func otherMs(m int) []int {
	if m == 1 {
		return []int{2}
	}
	out := []int{1, m / 2, m - 1}
	slices.Sort(out)
	return slices.Compact(out)
}
