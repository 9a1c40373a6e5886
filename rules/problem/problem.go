// Package problem turns the findings and remedies of a run into problems, one per fix.
//
// A problem is one product on one kernel over one stretch of M, whichever rules found it, with the best
// proven remedy. Every finding that is confirmed, unconfirmed or suspected is evidence of exactly one
// problem.
package problem

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Place is where a problem is: everything in a series key except the kernel and the card's number.
type Place struct {
	// Device is the model of the device, or its id if the model is unknown.
	Device string `json:"device"`
	kernels.Subject
	Regime     results.Regime `json:"regime"`
	Threads    int            `json:"threads,omitempty"`
	PackInside bool           `json:"pack_inside,omitempty"`
}

// Problem is one thing to fix.
type Problem struct {
	// Number counts the problems of a run by worth, from 1.
	Number int `json:"number"`
	Place
	// Kernels lists the affected kernels, sorted. There are several if libraries launch the same kernel.
	Kernels []string `json:"kernels"`
	// Own is true if no engine can call these kernels: they are gemmaudit's. It is false in a run without
	// other kernels.
	Own bool `json:"own,omitempty"`
	// Devices lists the ids of the affected devices, sorted.
	Devices []string `json:"devices"`
	// FromM and ToM are its first and last slow M, and Sizes counts the slow sizes. Other sizes in between may be fast.
	FromM int `json:"from_m"`
	ToM   int `json:"to_m"`
	Sizes int `json:"sizes"`
	// Status is the strongest of its findings; Confirmed if a remedy was proven.
	Status rules.Status `json:"status"`
	// Rules lists the rules that found it, in their order.
	Rules []rules.Rule `json:"rules,omitempty"`
	// Series and M are the row that represents the problem: the one with the best remedy, else the worst
	// finding.
	Series results.SeriesKey `json:"series"`
	M      int               `json:"m"`
	// US is the time of that row in microseconds. BetterUS is its time with the remedy, and Gain is
	// US ÷ BetterUS; both are zero without a remedy.
	US       float64        `json:"us"`
	BetterUS float64        `json:"better_us,omitempty"`
	Gain     stats.Interval `json:"gain,omitzero"`
	// ExpectedUS is the time of the comparison if there is no remedy: the device's limit if
	// [Problem.OnlyCeiling]. Zero if the row may be as fast.
	ExpectedUS float64 `json:"expected_us,omitempty"`
	// Baseline is the state of its findings in the baseline, the first of new, grown and known. It is empty
	// without a baseline.
	Baseline rules.BaselineState `json:"baseline,omitempty"`
	// Remedy is the best remedy that an engine can apply: proven if Remedy.Pays, else predicted. Nil if there
	// is none.
	Remedy *rules.Remedy `json:"remedy,omitempty"`
	// Tried is a remedy that was faster when it was run, but in too few rounds to be proven. Nil if there is
	// none, or a Remedy.
	Tried *rules.Remedy `json:"tried,omitempty"`
	// Others are the kernels that were proven faster than Series by M, ascending, for grouped products: no table has them.
	Others []Other `json:"others,omitempty"`
	// Possible is a faster kernel that the engine lacks, or "".
	Possible string `json:"possible,omitempty"`
	// Cause and Explanation give the reason; empty if only a remedy was proven.
	Cause       cause.Kind `json:"cause,omitempty"`
	Explanation string     `json:"explanation,omitempty"`
	// WorthUS is the time that its proven remedies save, in microseconds × weight of traffic for one pass
	// over the measured sizes. Without one it is the time at stake of its findings, the worst of overlapping
	// ones.
	WorthUS float64 `json:"worth_us"`
	// Findings are the ids of its findings.
	Findings []string `json:"findings,omitempty"`

	slow map[int]bool // the Ms that Sizes counts
}

// Other is a kernel to switch to from an M to another.
type Other struct {
	Kernel string `json:"kernel"`
	FromM  int    `json:"from_m"`
	ToM    int    `json:"to_m"`
}

// Holds reports whether a row is one of its slow sizes.
func (p *Problem) Holds(s results.SeriesKey, m int) bool {
	return p.slow[m] && p.Subject == s.Subject && p.Regime == s.Regime && p.Threads == s.Threads && p.PackInside == s.PackInside &&
		slices.Contains(p.Devices, s.Device) && slices.Contains(p.Kernels, s.Kernel)
}

// Proven reports whether a measured remedy pays.
func (p *Problem) Proven() bool { return p.Remedy != nil && p.Remedy.Pays }

// OnlyPossible reports whether the only evidence is a kernel that the engine lacks, next to the machine's
// limit.
func (p *Problem) OnlyPossible() bool {
	return p.Remedy == nil && p.Possible != "" && !p.Impossible() &&
		!slices.ContainsFunc(p.Rules, func(r rules.Rule) bool {
			return r != rules.Alternative && r != rules.Fusion && r != rules.Roofline
		})
}

// OnlyCeiling reports whether the only evidence is the limit of the machine, which no kernel may reach.
func (p *Problem) OnlyCeiling() bool {
	return p.Remedy == nil && !p.Impossible() && len(p.Rules) == 1 && p.Rules[0] == rules.Roofline
}

// Impossible reports whether its times are shorter than the device allows: the times, their unit or the
// device's name are wrong.
func (p *Problem) Impossible() bool { return p.Cause == cause.MeasurementError }

// Same reports whether p and a problem of another run have the same product and kernel and overlap in M.
func (p *Problem) Same(o *Problem) bool {
	return p.Place == o.Place && p.FromM <= o.ToM && o.FromM <= p.ToM &&
		slices.ContainsFunc(p.Kernels, func(k string) bool { return slices.Contains(o.Kernels, k) })
}

type finder struct {
	data   infer.Data
	names  map[string]string
	cases  map[results.SeriesKey]map[int]results.Case
	times  map[results.SeriesKey]map[int]float64
	ms     map[results.SeriesKey][]int
	engine func(device, kernel string) bool
	fdr    float64 // the audit's
	// rejected holds rows with an executed remedy that does not pay, and paid those with one that does.
	rejected, paid map[row]rules.Remedy
}

// Find makes the problems of a run from its audit and the remedies found, which may be nil. engine lists the
// engine's kernels; nil stands for [remedy.EngineKernels]. Waived findings, and remedies of their sizes, are
// omitted. A run that cannot be judged has no problems.
func Find(data infer.Data, audit *rules.Audit, found *remedy.Result, engine []string) ([]*Problem, Summary) {
	f := newFinder(data, audit.Whole(), engine)
	if found != nil {
		for _, r := range found.Whole().Rejected {
			if at := (row{r.Series, r.M}); f.rejected[at].M == 0 || !r.Unsteady { // a steady verdict outranks the others
				f.rejected[at] = r.Remedy
			}
		}
		for _, r := range found.Whole().Splits {
			if r.Pays {
				f.paid[row{r.Series, r.M}] = r.Remedy
			}
		}
	}
	problems := []*Problem{}
	if audit.Whole().Invalid == "" {
		problems = f.find(audit, found)
	}
	return problems, f.summarize(audit.Whole(), found, problems)
}

func (f *finder) find(audit *rules.Audit, found *remedy.Result) []*Problem {
	problems := f.unite(f.adjoin(f.group(f.items(audit.Whole(), found))))
	slices.SortStableFunc(problems, func(a, b *Problem) int {
		return cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(b.WorthUS, a.WorthUS),
			strings.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.FromM, b.FromM))
	})
	for i, p := range problems {
		p.Number = i + 1
	}
	return problems
}

// kind is how certain a problem is and what can be done about it.
type kind struct{ suspected, onlyPossible, onlyCeiling bool }

func (p *Problem) kind() kind {
	return kind{p.Status == rules.Suspected, p.OnlyPossible(), p.OnlyCeiling()}
}

// class sorts fixable and known slow problems first, then suspected ones, then those that no engine can
// change, then our own kernels.
func class(p *Problem) int {
	switch {
	case p.Own:
		return 3
	case p.OnlyPossible(), p.OnlyCeiling():
		return 2
	case p.Status == rules.Suspected:
		return 1
	}
	return 0
}

func newFinder(data infer.Data, audit *rules.Audit, engine []string) *finder {
	f := &finder{data: data, names: deviceNames(data), cases: map[results.SeriesKey]map[int]results.Case{},
		times: map[results.SeriesKey]map[int]float64{}, ms: map[results.SeriesKey][]int{}, rejected: map[row]rules.Remedy{},
		paid: map[row]rules.Remedy{}, fdr: audit.FDR}
	for _, s := range data.Series {
		cases := make(map[int]results.Case, len(s.Rows))
		for _, r := range s.Rows {
			cases[r.Case.M] = r.Case
			f.ms[s.Key] = append(f.ms[s.Key], r.Case.M)
		}
		f.cases[s.Key] = cases
	}
	for _, s := range audit.Series {
		times := make(map[int]float64, len(s.Rows))
		for _, r := range s.Rows {
			times[r.M] = r.US.Mid
		}
		f.times[s.Key] = times
	}
	f.engine = remedy.EngineKernels(data, engine)
	return f
}

func deviceNames(data infer.Data) map[string]string {
	names := map[string]string{}
	for _, d := range data.Meta.Fingerprint.Devices {
		names[d.ID] = cmp.Or(d.Name, d.ID)
	}
	return names
}

func (f *finder) place(key results.SeriesKey) Place {
	return Place{Device: cmp.Or(f.names[key.Device], key.Device), Subject: key.Subject, Regime: key.Regime, Threads: key.Threads,
		PackInside: key.PackInside}
}

// own reports whether no engine can call a series' kernel.
func (f *finder) own(key results.SeriesKey) bool { return !f.engine(key.Device, key.Kernel) }
