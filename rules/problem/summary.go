package problem

import (
	"cmp"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Summary counts the inputs and results of a run.
type Summary struct {
	// Devices are the models of the devices. Kernels are the judged kernels, with the version of the library
	// if known.
	Devices []string `json:"devices"`
	Kernels []Kernel `json:"kernels"`
	DTypes  []string `json:"dtypes"`
	// Products counts the products; Product names a single one.
	Products int    `json:"products"`
	Product  string `json:"product,omitempty"`
	// Own lists kernels of gemmaudit next to those of engines, and OwnProblems counts their problems; no
	// other field counts them.
	Own         []string `json:"own,omitempty"`
	OwnProblems int      `json:"own_problems,omitempty"`
	// Sizes counts the measured sizes: products at one M, on any kernel and device.
	Sizes int `json:"sizes"`
	// Slow counts the sizes in problems that are more than suspected, and neither [Problem.OnlyPossible] nor
	// [Problem.OnlyCeiling]. Suspected counts those in suspected problems.
	// Confirmed counts the sizes of Slow in confirmed problems; the others were not measured again.
	// Unconfirmed is the reason, if known.
	Slow        int    `json:"slow"`
	Confirmed   int    `json:"confirmed"`
	Unconfirmed string `json:"unconfirmed,omitempty"`
	Suspected   int    `json:"suspected"`
	// Undecided and Unjudged count the sizes with these verdicts, by Rule.
	Undecided int        `json:"undecided"`
	Unjudged  int        `json:"unjudged"`
	Rule      rules.Rule `json:"rule,omitempty"`
	// UndecidedByClock counts those of Undecided whose clock was far from ClockMHz, the common clock.
	UndecidedByClock int     `json:"undecided_by_clock,omitempty"`
	ClockMHz         float64 `json:"clock_mhz,omitempty"`
	// Proven counts the problems with a measured remedy. OnlyPossible counts those where only a kernel that
	// the engine lacks is faster, and OnlyCeiling those where only the machine's limit is. Problems counts
	// all.
	Problems     int `json:"problems"`
	Proven       int `json:"proven"`
	OnlyPossible int `json:"only_possible"`
	OnlyCeiling  int `json:"only_ceiling"`
	// Fusing counts the sizes of fused products that were compared with their parts; nil if there are none.
	Fusing *FusingCount `json:"fusing,omitempty"`
	// Waived counts the waived findings.
	Waived int `json:"waived,omitempty"`
	// SlowProblems counts the problems of Slow and Suspected.
	SlowProblems int `json:"slow_problems"`
	// Baseline names the baseline; New, Grown and Known count the problems by their state in it.
	Baseline string `json:"baseline,omitempty"`
	New      int    `json:"new,omitempty"`
	Grown    int    `json:"grown,omitempty"`
	Known    int    `json:"known,omitempty"`
	// Impossible counts the sizes whose times are shorter than the device allows.
	Impossible int `json:"impossible,omitempty"`
	// DirectUS is the time of one pass over the sizes searched for remedies, and SavedUS the remedies'
	// saving. Both are sums over kernels and devices, in microseconds × weight of traffic.
	DirectUS float64 `json:"direct_us,omitempty"`
	SavedUS  float64 `json:"saved_us,omitempty"`
	// Weighed is true if the weights come from known traffic.
	Weighed bool `json:"weighed,omitempty"`
	// Resolution is the smallest detectable difference, as a share; 0 if unknown.
	Resolution float64 `json:"resolution,omitempty"`
	// Invalid is the reason why the run cannot be judged, or "".
	Invalid string `json:"invalid,omitempty"`
	// Imported is true if others measured the run.
	Imported bool `json:"imported,omitempty"`
}

// FusingCount counts sizes by [rules.FusingAnswer], on all kernels and devices.
type FusingCount struct {
	Sizes int `json:"sizes"`
	Pays  int `json:"pays"`
	Costs int `json:"costs"`
	// Most is the largest gain of those where fusing pays.
	Most stats.Interval `json:"most,omitzero"`
}

func fusingOf(audit *rules.Audit) *FusingCount {
	if len(audit.Fusing) == 0 {
		return nil
	}
	count := &FusingCount{}
	for _, f := range audit.Fusing {
		for _, r := range f.Rows {
			count.Sizes++
			switch r.Answer {
			case rules.FusingPays:
				count.Pays++
				if r.Gain.Mid > count.Most.Mid {
					count.Most = r.Gain
				}
			case rules.FusingCosts:
				count.Costs++
			}
		}
	}
	return count
}

// Kernel is a judged kernel, with the version of its library; empty if unknown.
type Kernel struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// SavedShare is the share of one pass over the sizes that the remedies save.
func (s Summary) SavedShare() float64 {
	if s.DirectUS <= 0 {
		return 0
	}
	return s.SavedUS / s.DirectUS
}

// size is one product at one M, on any kernel and device.
type size struct {
	Place
	m int
}

// If the run has kernels of engines, only these count.
func (f *finder) summarize(audit *rules.Audit, found *remedy.Result, problems []*Problem) Summary {
	s := Summary{Rule: audit.RowRule, Resolution: audit.Resolution, Invalid: audit.Invalid, Problems: len(problems),
		Imported: f.data.Meta.Source != ""}
	devices, dtypes, products, seen := map[string]bool{}, map[string]bool{}, map[kernels.Subject]bool{}, map[Kernel]bool{}
	own := map[string]bool{}
	measured := map[size]bool{}
	further := infer.FurtherChoices(f.data.Series)
	for _, series := range f.data.Series {
		key := series.Key
		if further[key] {
			continue
		}
		if f.own(key) {
			own[key.Kernel] = true
			continue
		}
		place := f.place(key)
		devices[place.Device], dtypes[string(key.DType)], products[key.Subject] = true, true, true
		library, version := kernels.SplitVersion(key.Kernel)
		version = cmp.Or(version, f.data.Spec(key.Device).Versions[kernels.PackageOf(library)])
		if kernels.IsFileVersion(version) {
			version = "" // a hash tells people nothing
		}
		k := Kernel{library, version}
		if !seen[k] {
			seen[k] = true
			s.Kernels = append(s.Kernels, k)
		}
		for _, r := range series.Rows {
			if r.Failed == "" && len(r.Samples) > 0 {
				measured[size{place, r.Case.M}] = true
			}
		}
	}
	s.Devices, s.DTypes, s.Products, s.Sizes, s.Own = sorted(devices), sorted(dtypes), len(products), len(measured), sorted(own)
	if len(products) == 1 {
		for p := range products {
			s.Product = p.Curve()
			if experts := p.Experts(); experts != "" {
				s.Product += " (" + experts + ")"
			}
		}
	}
	slow := map[size]bool{}
	suspected, impossible, confirmed := map[size]bool{}, map[size]bool{}, map[size]bool{}
	for _, p := range problems {
		switch p.Baseline {
		case rules.BaselineNew:
			s.New++
		case rules.BaselineGrown:
			s.Grown++
		case rules.BaselineKnown:
			s.Known++
		}
		switch {
		case p.Impossible():
			f.mark(impossible, p)
			continue
		case p.Own:
			s.OwnProblems++
			continue
		case p.OnlyPossible():
			s.OnlyPossible++
			continue
		case p.OnlyCeiling():
			s.OnlyCeiling++
			continue
		case p.Status == rules.Suspected:
			f.mark(suspected, p)
		default:
			f.mark(slow, p)
			if p.Status == rules.Confirmed {
				f.mark(confirmed, p)
			}
		}
		s.SlowProblems++
		if p.Proven() {
			s.Proven++
		}
	}
	s.Slow, s.Confirmed, s.Suspected, s.Impossible = len(slow), len(confirmed), len(suspected), len(impossible)
	s.Baseline, s.Fusing = audit.Baseline, fusingOf(audit)
	for _, w := range audit.Warnings {
		if w.Unconfirmed > 0 {
			s.Unconfirmed = w.Text
			break
		}
	}
	for _, d := range audit.Findings {
		if d.Status == rules.Waived {
			s.Waived++
		}
	}
	f.count(&s, audit, slow)
	if found != nil {
		f.save(&s, found.Whole())
	}
	return s
}

func (f *finder) mark(into map[size]bool, p *Problem) {
	for _, d := range p.Devices {
		for _, k := range p.Kernels {
			key := p.Series
			key.Device, key.Kernel = d, k
			for _, m := range f.between(key, p.FromM, p.ToM) {
				if p.slow[m] {
					into[size{p.Place, m}] = true
				}
			}
		}
	}
}

func (f *finder) count(s *Summary, audit *rules.Audit, slow map[size]bool) {
	undecided, byClock, unjudged := map[size]bool{}, map[size]bool{}, map[size]bool{}
	for _, series := range audit.Series {
		if f.own(series.Key) {
			continue
		}
		place, clock := f.place(series.Key), audit.Clocks[series.Key.Device]
		for _, r := range series.Rows {
			at := size{place, r.M}
			switch {
			case slow[at]:
			case r.Verdict == rules.Unjudged:
				unjudged[at] = true
			case r.Verdict == rules.Undecided:
				undecided[at] = true
				if clock > 0 && r.ClockMHz > 0 && math.Abs(r.ClockMHz/clock-1) > infer.ClockReach {
					byClock[at] = true
				}
			}
		}
		s.ClockMHz = max(s.ClockMHz, clock)
	}
	s.Undecided, s.UndecidedByClock, s.Unjudged = len(undecided), len(byClock), len(unjudged)
}

// save sums the savings of remedies that an engine can apply.
func (f *finder) save(s *Summary, found *remedy.Result) {
	for _, saving := range found.Savings {
		if !f.engine(saving.Device, saving.Kernel) {
			continue
		}
		s.DirectUS += saving.DirectUS
		s.Weighed = s.Weighed || saving.Weighed
	}
	for _, st := range found.Stretches {
		if !f.own(st.Series) && f.applies(st.Series.Device, st.Kind, st.Kernel) {
			s.SavedUS += st.StakeUS
		}
	}
}
