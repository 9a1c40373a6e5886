package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.history/1"

// Settings are the criteria for reporting a change.
type Settings struct {
	// Level is the accepted share of false positives among reported changes, 0 to 1.
	Level float64 `json:"level"`
	// Threshold is the smallest reported change, as a share of the time.
	Threshold float64 `json:"threshold"`
	// DespiteDisturbance includes runs that were disturbed more than others.
	DespiteDisturbance bool `json:"despite_disturbance,omitempty"`
}

// Default returns the settings of the command.
func Default() Settings { return Settings{Level: 0.05, Threshold: 0.01} }

// Run is one run of a history.
type Run struct {
	Path    string    `json:"path"`
	Created time.Time `json:"created"`
	// Taken is the time of the first sample, or Created if samples have no times. Runs are ordered by it.
	Taken     time.Time `json:"taken"`
	Gemmaudit string    `json:"gemmaudit"`
	Cases     int       `json:"cases"`
	// Host and Labels identify the machine.
	Host   string         `json:"host,omitempty"`
	Labels results.Labels `json:"labels,omitempty"`

	fingerprint results.Fingerprint
}

// Case is one case over all runs.
type Case struct {
	// Identity is [baseline.SeriesIdentity], Series the key in the last run that has the case.
	Identity string            `json:"identity"`
	Series   results.SeriesKey `json:"series"`
	M        int               `json:"m"`
	// US are the medians in microseconds at a common clock, by run; nil for runs without the case.
	US []*float64 `json:"us"`
	// Changes are its changes of level, by time.
	Changes []Change `json:"changes"`
}

// Change is a change of level.
type Change struct {
	// Run is the index of the first run of the new level, Before the last one of the old level that has the
	// case.
	Run    int `json:"run"`
	Before int `json:"before"`
	// Ratio is the new level over the old one, with bounds of 95 % confidence.
	Ratio stats.Interval `json:"ratio"`
	// FromUS and ToUS are the levels in microseconds.
	FromUS float64 `json:"from_us"`
	ToUS   float64 `json:"to_us"`
	// P is the p-value over all runs at which there might be a step.
	P float64 `json:"p"`
}

// Event is a run at which cases changed, with other changes in it.
type Event struct {
	Run    int `json:"run"`
	Before int `json:"before"`
	Slower int `json:"slower"`
	Faster int `json:"faster"`
	// Ratio is the geometric mean over the cases that changed.
	Ratio float64 `json:"ratio"`
	// Factors lists the differences in software and machine between the two runs.
	Factors []results.FactorDiff `json:"factors"`
}

// Result is a history with its changes.
type Result struct {
	Schema   string   `json:"schema"`
	Settings Settings `json:"settings"`
	Runs     []Run    `json:"runs"`  // by date
	Cases    []Case   `json:"cases"` // by identity and M
	// Events are the runs with changes, by date.
	Events []Event `json:"events"`
	// Short counts the cases with too few runs to judge.
	Short int `json:"short"`
	// Shows is the step, as a share of the time, that half of the other cases would surely show several runs
	// from either end; 0 without such cases.
	Shows float64 `json:"shows,omitempty"`
	// Clocks are the clocks of the times in MHz, by device model.
	Clocks   map[string]float64 `json:"clock_mhz,omitempty"`
	Warnings []rules.Warning    `json:"warnings,omitempty"`
}

// Slower counts the cases whose last change made them slower.
func (r *Result) Slower() int {
	n := 0
	for _, c := range r.Cases {
		if k := len(c.Changes); k > 0 && c.Changes[k-1].Ratio.Mid > 1 {
			n++
		}
	}
	return n
}

// Changed counts the cases with a change.
func (r *Result) Changed() int {
	n := 0
	for _, c := range r.Cases {
		if len(c.Changes) > 0 {
			n++
		}
	}
	return n
}

type place struct {
	identity string
	m        int
}

// Collector takes runs one by one and keeps only the medians of their cases.
type Collector struct {
	cfg    rules.Config
	runs   []Run
	common map[string]float64
	keys   map[place]results.SeriesKey
	times  map[place]map[int]float64 // by the order of addition
	warned []rules.Warning
	// In order of addition.
	disturbed []diff.Disturbed
}

// NewCollector returns an empty collector. cfg sets the common clock.
func NewCollector(cfg rules.Config) *Collector {
	return &Collector{cfg: cfg, common: map[string]float64{}, keys: map[place]results.SeriesKey{}, times: map[place]map[int]float64{}}
}

// Add takes a run and does not keep data.
func (c *Collector) Add(path string, data infer.Data) {
	at := len(c.runs)
	times, clocks := infer.CaseTimes(data, c.cfg.Basis(), c.common)
	for id, mhz := range clocks {
		for _, d := range data.Meta.Fingerprint.Devices {
			if one := c.common[d.Name]; d.ID == id && one != mhz {
				c.warned = append(c.warned,
					rules.Warning{Subject: path,
						Text: fmt.Sprintf("%s ran at %.0f MHz, too far from the %.0f MHz of the first run to convert its times", id, mhz,
							one)})
			}
		}
	}
	identities := map[results.SeriesKey]string{}
	for _, t := range times {
		identity, ok := identities[t.Series]
		if !ok {
			identity = baseline.SeriesIdentity(data.Meta, t.Series)
			identities[t.Series] = identity
		}
		p := place{identity, t.M}
		if c.times[p] == nil {
			c.times[p] = map[int]float64{}
		}
		c.keys[p], c.times[p][at] = t.Series, t.US
	}
	c.disturbed = append(c.disturbed, diff.CountDisturbed(data))
	taken, known := data.Taken()
	if !known {
		c.warned = append(c.warned, rules.Warning{Subject: path, Text: "time of measurement unknown: ordered by the time of its import"})
	}
	c.runs = append(c.runs, Run{Path: path, Created: data.Meta.Created, Taken: taken, Gemmaudit: data.Meta.Gemmaudit, Cases: len(times),
		Host: data.Meta.Fingerprint.Hostname, Labels: data.Meta.Labels, fingerprint: data.Meta.Fingerprint})
}

// Result sorts the runs by time of measurement and finds the changes.
func (c *Collector) Result(s Settings) *Result {
	order := make([]int, len(c.runs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(c.runs[a].Taken.Compare(c.runs[b].Taken), cmp.Compare(c.runs[a].Path, c.runs[b].Path))
	})
	r := &Result{Schema: Schema, Settings: s, Runs: []Run{}, Cases: []Case{}, Events: []Event{}, Clocks: c.common, Warnings: c.warned}
	for _, i := range order {
		r.Runs = append(r.Runs, c.runs[i])
	}
	aside := map[int]bool{}
	if !s.DespiteDisturbance {
		aside = c.disturbedMore(r)
	}
	for p, times := range c.times {
		k := Case{Identity: p.identity, Series: c.keys[p], M: p.m, US: make([]*float64, len(order)), Changes: []Change{}}
		for at, i := range order {
			if us, ok := times[i]; ok && !aside[i] {
				k.US[at] = &us
			}
		}
		r.Cases = append(r.Cases, k)
	}
	slices.SortFunc(r.Cases, func(a, b Case) int { return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.M, b.M)) })
	r.find()
	r.group()
	return r
}

// disturbedMore returns the runs with many more disturbed samples than the others, whose times do not
// represent the machine, and warns of each.
func (c *Collector) disturbedMore(r *Result) map[int]bool {
	out := map[int]bool{}
	if len(c.disturbed) == 0 {
		return out
	}
	shares := make([]float64, len(c.disturbed))
	for i, d := range c.disturbed {
		shares[i] = d.Share()
	}
	slices.Sort(shares)
	usual := shares[(len(shares)-1)/2]
	for i, d := range c.disturbed {
		if d.MoreDisturbed(usual) {
			out[i] = true
			r.Warnings = append(r.Warnings,
				rules.Warning{Subject: c.runs[i].Path,
					Text: fmt.Sprintf("excluded: other load disturbed %.0f %% of its samples, compared with %.0f %% in the median run",
						100*d.Share(), 100*usual)})
		}
	}
	return out
}

func (r *Result) find() {
	tested := 0
	var noise []float64
	for i := range r.Cases {
		c := &r.Cases[i]
		var y []float64
		var at []int
		for run, us := range c.US {
			if us != nil {
				y, at = append(y, math.Log(*us)), append(at, run)
			}
		}
		if len(y) < LeastRuns {
			r.Short++
			continue
		}
		tested++
		noise = append(noise, firstNoise(y))
		for _, s := range steps(y, r.Settings.Level) {
			half := 1.96 * s.se
			c.Changes = append(c.Changes,
				Change{Run: at[s.at], Before: at[s.at-1], P: s.p, FromUS: math.Exp(s.from), ToUS: math.Exp(s.from + s.log),
					Ratio: stats.Interval{Lo: math.Exp(s.log - half), Mid: math.Exp(s.log), Hi: math.Exp(s.log + half)}})
		}
	}
	if tested > 0 {
		r.Shows = math.Expm1(sureStep * stats.Median(noise))
	}
	least := func(c Case) float64 {
		p := 1.0
		for _, x := range c.Changes {
			p = math.Min(p, x.P)
		}
		return p
	}
	var p []float64
	for _, c := range r.Cases {
		if len(c.Changes) > 0 {
			p = append(p, least(c))
		}
	}
	slices.Sort(p)
	bound := 0.0 // the largest p-value that satisfies the rate over all cases
	for k, v := range p {
		if v <= r.Settings.Level*float64(k+1)/float64(tested) {
			bound = v
		}
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		c.Changes = slices.DeleteFunc(c.Changes, func(x Change) bool {
			return x.P > math.Max(bound, 0) || math.Abs(math.Log(x.Ratio.Mid)) < math.Log1p(r.Settings.Threshold)
		})
	}
}

func (r *Result) group() {
	at := map[int]int{}
	logs := map[int]float64{}
	for _, c := range r.Cases {
		for _, x := range c.Changes {
			i, ok := at[x.Run]
			if !ok {
				i = len(r.Events)
				at[x.Run] = i
				r.Events = append(r.Events,
					Event{Run: x.Run, Before: x.Before, Factors: r.Runs[x.Before].fingerprint.Diff(r.Runs[x.Run].fingerprint)})
			}
			e := &r.Events[i]
			if x.Ratio.Mid > 1 {
				e.Slower++
			} else {
				e.Faster++
			}
			logs[x.Run] += math.Log(x.Ratio.Mid)
		}
	}
	for i := range r.Events {
		e := &r.Events[i]
		e.Ratio = math.Exp(logs[e.Run] / float64(e.Slower+e.Faster))
		if e.Factors == nil {
			e.Factors = []results.FactorDiff{}
		}
	}
	slices.SortFunc(r.Events, func(a, b Event) int { return cmp.Compare(a.Run, b.Run) })
}
