package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.history/1"

// Settings are what a change has to be to be reported.
type Settings struct {
	// Level is the share of changes reported that are none, 0 to 1.
	Level float64 `json:"level"`
	// Threshold is the least change that is reported, as a share of the time.
	Threshold float64 `json:"threshold"`
}

// Default are the settings of the command.
func Default() Settings { return Settings{Level: 0.05, Threshold: 0.01} }

// Run is one run of a history.
type Run struct {
	Path    string    `json:"path"`
	Created time.Time `json:"created"`
	// Taken is when the first sample was taken, by which runs are ordered; it is Created where no sample tells.
	Taken     time.Time `json:"taken"`
	Gemmaudit string    `json:"gemmaudit"`
	Cases     int       `json:"cases"`
	// Host and Labels are what the machine is called by.
	Host   string         `json:"host,omitempty"`
	Labels results.Labels `json:"labels,omitempty"`

	fingerprint results.Fingerprint
}

// Case is one case over all runs.
type Case struct {
	// Identity is [rules.SeriesIdentity], Series the key in the last run that has the case.
	Identity string            `json:"identity"`
	Series   results.SeriesKey `json:"series"`
	M        int               `json:"m"`
	// US are the medians in microseconds at a common clock, by run; nil where a run has not the case.
	US []*float64 `json:"us"`
	// Changes are its changes of level, by time.
	Changes []Change `json:"changes"`
}

// Change is a change of level.
type Change struct {
	// Run is the index of the first run of the new level, Before of the last of the old one that has the case.
	Run    int `json:"run"`
	Before int `json:"before"`
	// Ratio is the new level over the old one, with bounds of 95 % confidence.
	Ratio rules.Interval `json:"ratio"`
	// FromUS and ToUS are the levels in microseconds.
	FromUS float64 `json:"from_us"`
	ToUS   float64 `json:"to_us"`
	// P is the p-value over all runs at which there might be a step.
	P float64 `json:"p"`
}

// Event is a run at which cases have changed, and what else changed there.
type Event struct {
	Run    int `json:"run"`
	Before int `json:"before"`
	Slower int `json:"slower"`
	Faster int `json:"faster"`
	// Ratio is the geometric mean over the cases that changed.
	Ratio float64 `json:"ratio"`
	// Factors are what differs between the two runs in software and machine, [results.FactorDiff].
	Factors []results.FactorDiff `json:"factors"`
}

// Result is a history with its changes.
type Result struct {
	Schema   string   `json:"schema"`
	Settings Settings `json:"settings"`
	Runs     []Run    `json:"runs"`  // by date
	Cases    []Case   `json:"cases"` // by identity and M
	// Events are the runs at which something changed, by date.
	Events []Event `json:"events"`
	// Short counts the cases that too few runs have for anything to be said of them.
	Short int `json:"short"`
	// Clocks are the clocks in MHz at which times are, by the models of devices.
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

// place is the identity of a case.
type place struct {
	identity string
	m        int
}

// Collector takes runs one after the other, and keeps the medians of their cases alone.
type Collector struct {
	cfg    rules.Config
	runs   []Run
	common map[string]float64
	keys   map[place]results.SeriesKey
	times  map[place]map[int]float64 // by the order in which runs were added
	warned []rules.Warning
}

// NewCollector returns a collector without runs. cfg says at which clock times are taken.
func NewCollector(cfg rules.Config) *Collector {
	return &Collector{cfg: cfg, common: map[string]float64{}, keys: map[place]results.SeriesKey{}, times: map[place]map[int]float64{}}
}

// Add takes a run. data is not kept.
func (c *Collector) Add(path string, data rules.Data) {
	at := len(c.runs)
	times, clocks := rules.CaseTimes(data, c.cfg, c.common)
	for id, mhz := range clocks {
		for _, d := range data.Meta.Fingerprint.Devices {
			if one := c.common[d.Name]; d.ID == id && one != mhz {
				c.warned = append(c.warned, rules.Warning{Subject: path, Text: fmt.Sprintf("%s ran at %.0f MHz, too far from the %.0f of the first run for times to be brought to that clock", id, mhz, one)})
			}
		}
	}
	identities := map[results.SeriesKey]string{}
	for _, t := range times {
		identity, ok := identities[t.Series]
		if !ok {
			identity = rules.SeriesIdentity(data.Meta, t.Series)
			identities[t.Series] = identity
		}
		p := place{identity, t.M}
		if c.times[p] == nil {
			c.times[p] = map[int]float64{}
		}
		c.keys[p], c.times[p][at] = t.Series, t.US
	}
	taken, known := data.Taken()
	if !known {
		c.warned = append(c.warned, rules.Warning{Subject: path, Text: "nothing says when it was measured: it is placed by when it was imported"})
	}
	c.runs = append(c.runs, Run{Path: path, Created: data.Meta.Created, Taken: taken, Gemmaudit: data.Meta.Gemmaudit, Cases: len(times),
		Host: data.Meta.Fingerprint.Hostname, Labels: data.Meta.Labels, fingerprint: data.Meta.Fingerprint})
}

// Result puts the runs in order of when they were measured and finds the changes.
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
	for p, times := range c.times {
		k := Case{Identity: p.identity, Series: c.keys[p], M: p.m, US: make([]*float64, len(order)), Changes: []Change{}}
		for at, i := range order {
			if us, ok := times[i]; ok {
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

// find fills in the changes of all cases.
func (r *Result) find() {
	tested := 0
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
		for _, s := range steps(y, r.Settings.Level) {
			half := 1.96 * s.se
			c.Changes = append(c.Changes, Change{Run: at[s.at], Before: at[s.at-1], P: s.p, FromUS: math.Exp(s.from), ToUS: math.Exp(s.from + s.log),
				Ratio: rules.Interval{Lo: math.Exp(s.log - half), Mid: math.Exp(s.log), Hi: math.Exp(s.log + half)}})
		}
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
	bound := 0.0 // the largest p-value that holds the rate over all cases
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

// group gathers changes by the run at which they came, and says what else changed there.
func (r *Result) group() {
	at := map[int]int{}
	logs := map[int]float64{}
	for _, c := range r.Cases {
		for _, x := range c.Changes {
			i, ok := at[x.Run]
			if !ok {
				i = len(r.Events)
				at[x.Run] = i
				r.Events = append(r.Events, Event{Run: x.Run, Before: x.Before, Factors: r.Runs[x.Before].fingerprint.Diff(r.Runs[x.Run].fingerprint)})
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
