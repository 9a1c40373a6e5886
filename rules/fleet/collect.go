package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// process is one card in one run, reduced to the data for verdicts.
type process struct {
	path, run    string
	host, device string
	model, card  string
	labels       map[string]string
	factors      []results.Factor
	limits       map[string]bool // the factors that users may change on a card
	machine      map[string]string
	created      time.Time
	from, to     int64
	conditions   Conditions
	cases        []observation
}

// observation is one case of a process. Times are logs of microseconds. It is compact, since millions are
// kept.
type observation struct {
	at        int32   // the case, by the collector's numbers
	samples   int32   //
	atClock   float32 // at the case's own mean clock
	clock     float32 // log of that clock in MHz, 0 if unknown
	beta      float32
	betaSE    float32
	seen      float32 // as observed
	alone     float32 // in the sustained phase, or NaN
	spread    float32
	powerW    float32
	tempC     float32
	throttled float32
	began     int64 // time of the first sample, microseconds since 1970
}

// caseKey identifies a case on any device: the device of the series is empty.
type caseKey struct {
	series results.SeriesKey
	m      int
}

// Collector takes runs in any order and keeps only the levels of their cases. It is safe for concurrent use.
type Collector struct {
	settings Settings
	baseline *Baseline

	mu        sync.Mutex
	numbers   map[caseKey]int32
	cases     []caseKey
	processes []*process
	runs      int
	warnings  []rules.Warning
	unread    []Unread
}

// NewCollector returns an empty collector. Cards are also compared with baseline, which may be nil.
func NewCollector(s Settings, baseline *Baseline) *Collector {
	return &Collector{settings: s, baseline: baseline, numbers: map[caseKey]int32{}}
}

// Skip records an unusable file. It removes path from the start of the error text.
func (c *Collector) Skip(path string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread = append(c.unread, Unread{path, strings.TrimPrefix(err.Error(), path+": ")})
}

// Warn records a warning about a file.
func (c *Collector) Warn(path, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, rules.Warning{Subject: path, Text: text})
}

// Add takes a run and does not keep it.
func (c *Collector) Add(run runs.Run) {
	found := reduce(run)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	for _, text := range run.Warnings {
		c.warnings = append(c.warnings, rules.Warning{Subject: run.Path, Text: text})
	}
	if len(found) == 0 {
		c.unread = append(c.unread, Unread{run.Path, "its sweep has no samples"})
	}
	for _, f := range found {
		for i, key := range f.keys {
			n, ok := c.numbers[key]
			if !ok {
				n = int32(len(c.cases))
				c.numbers[key] = n
				c.cases = append(c.cases, key)
			}
			f.process.cases[i].at = n
		}
		c.processes = append(c.processes, f.process)
	}
}

var defaults = sync.OnceValue(rules.Default)

// Its cases have no numbers yet.
type reduced struct {
	process *process
	keys    []caseKey
}

func reduce(run runs.Run) []reduced {
	data := infer.Data{Name: run.Path, Meta: run.Meta, Series: run.Series, Sentinels: run.Sentinels, Sustained: run.Sustained}
	aloneOn := map[string]map[caseKey]float64{}
	for _, row := range run.Sustained {
		if len(row.Case.Parts) > 0 || row.Case.PadTo > 0 {
			continue
		}
		key := caseKey{row.Case.SeriesKey, row.Case.M}
		device := key.series.Device
		key.series.Device = ""
		if aloneOn[device] == nil {
			aloneOn[device] = map[caseKey]float64{}
		}
		aloneOn[device][key] = medianOf(row.Samples, func(s *results.Sample) float64 { return s.US })
	}
	var out []reduced
	place := map[string]int{}
	state := map[string]*telling{}
	for _, level := range infer.CaseLevels(data, defaults().Basis()) {
		device := level.Series.Device
		at, ok := place[device]
		if !ok {
			at = len(out)
			place[device] = at
			out = append(out, reduced{process: newProcess(run, device)})
			state[device] = &telling{reasons: map[kernels.ThrottleReason]int{}}
		}
		key := caseKey{level.Series, level.M}
		key.series.Device = ""
		o := observation{samples: int32(level.N), atClock: float32(level.AtClock), beta: float32(level.Beta), betaSE: float32(level.BetaSE),
			seen: float32(level.Observed), alone: float32(math.NaN()), spread: float32(level.Spread)}
		if level.ClockMHz > 0 {
			o.clock = float32(math.Log(level.ClockMHz))
		}
		if us := aloneOn[device][key]; us > 0 {
			o.alone = float32(math.Log(us))
		}
		state[device].take(level.Row.Samples, &o)
		out[at].process.cases = append(out[at].process.cases, o)
		out[at].keys = append(out[at].keys, key)
	}
	for _, r := range out {
		state[r.process.device].end(r.process)
	}
	return out
}

// firmware lists versions that come with a card or that the driver implies. They do not split groups, but are
// checked if cards are bimodal.
var firmware = map[string]bool{"microcode": true, "vbios": true, "nvml": true, "cuda driver api": true}

func newProcess(run runs.Run, device string) *process {
	p := &process{path: run.Path, run: run.ID, host: run.Host, device: device, model: device, labels: run.Labels, created: run.Meta.Created,
		limits: map[string]bool{}, machine: map[string]string{}}
	fingerprint := run.Meta.Fingerprint
	if version := cmp.Or(run.Meta.Gemmaudit, fingerprint.Gemmaudit); version != "" {
		p.factors = append(p.factors, results.Factor{Name: "gemmaudit", Value: version})
	}
	for _, spec := range fingerprint.Devices {
		if spec.ID != device {
			continue
		}
		p.model = cmp.Or(spec.Name, device)
		p.card = spec.UUID
		for _, named := range []map[string]string{spec.Versions, spec.Settings} {
			for _, name := range slices.Sorted(maps.Keys(named)) {
				if firmware[name] {
					p.machine[name] = named[name]
					continue
				}
				p.factors = append(p.factors, results.Factor{Name: name, Value: named[name]})
			}
		}
		for name := range spec.Settings {
			p.limits[name] = true
		}
		if spec.Kind.Facts().Host {
			p.model = cmp.Or(fingerprint.CPUModel, p.model)
		}
	}
	for name, value := range map[string]string{"os": fingerprint.OS, "kernel": fingerprint.Kernel, "microcode": fingerprint.Microcode,
		"governor": fingerprint.Governor, "turbo": fingerprint.Turbo, "cpu model": fingerprint.CPUModel} {
		if value != "" {
			p.machine[name] = value
		}
	}
	p.card = cmp.Or(run.Cards[device], p.card, p.host+"/"+device)
	ceilings := run.Meta.Ceilings[device]
	p.conditions.ReadBandwidth, p.conditions.LinkBandwidth = ceilings.ReadBandwidth, ceilings.LinkBandwidth
	return p
}

type telling struct {
	clock, power, temp []float64
	samples, throttled int
	reasons            map[kernels.ThrottleReason]int
	from, to           int64
	middle             float64
}

// take adds the samples of one case, and sets the state in its observation.
func (t *telling) take(samples []results.Sample, o *observation) {
	throttled := 0
	for i := range samples {
		s := &samples[i]
		t.samples++
		appendKnown(&t.clock, s.ClockMHz)
		appendKnown(&t.power, s.PowerW)
		appendKnown(&t.temp, s.TempC)
		if s.Throttle != "" {
			throttled++
			for reason := range s.Throttle.Reasons() {
				if len(t.reasons) < mostReasons || t.reasons[reason] > 0 {
					t.reasons[reason]++
				}
			}
		}
		if at := s.StartedUnixMicro; at > 0 {
			if t.from == 0 || at < t.from {
				t.from = at
			}
			t.to = max(t.to, at)
			if o.began == 0 || at < o.began {
				o.began = at
			}
		}
	}
	t.throttled += throttled
	if len(samples) > 0 {
		o.throttled = float32(throttled) / float32(len(samples))
	}
	o.powerW = float32(medianOf(samples, func(s *results.Sample) float64 { return s.PowerW }))
	o.tempC = float32(medianOf(samples, func(s *results.Sample) float64 { return s.TempC }))
}

const mostReasons = 32

func (t *telling) end(p *process) {
	p.conditions.ClockMHz, p.conditions.PowerW, p.conditions.TempC = stats.Median(t.clock), stats.Median(t.power), stats.Median(t.temp)
	if t.throttled > 0 {
		p.conditions.Throttled = float64(t.throttled) / float64(t.samples)
		p.conditions.Reasons = map[kernels.ThrottleReason]float64{}
		for reason, n := range t.reasons {
			p.conditions.Reasons[reason] = float64(n) / float64(t.samples)
		}
	}
	p.from, p.to = t.from, t.to
	if p.from == 0 && !p.created.IsZero() {
		p.from, p.to = p.created.UnixMicro(), p.created.UnixMicro()
	}
}

// medianOf ignores values that are not positive; 0 for none.
func medianOf(samples []results.Sample, of func(*results.Sample) float64) float64 {
	var room [32]float64
	v := room[:0]
	for i := range samples {
		if x := of(&samples[i]); x > 0 {
			v = append(v, x)
		}
	}
	return stats.Median(v)
}

// arranged returns the processes in an order independent of the input order. A run read from its file and
// from an export counts once.
func (c *Collector) arranged() (out []*process, warnings []rules.Warning) {
	all := slices.Clone(c.processes)
	slices.SortFunc(all, func(a, b *process) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.card, b.card), cmp.Compare(a.from, b.from), cmp.Compare(a.path, b.path),
			cmp.Compare(a.device, b.device))
	})
	type name struct{ run, device, card string }
	seen := map[name]string{}
	hosts := map[string][]string{}
	for _, p := range all {
		if !slices.Contains(hosts[p.card], p.host) {
			hosts[p.card] = append(hosts[p.card], p.host)
		}
		key := name{p.run, p.device, p.card}
		if first, twice := seen[key]; twice && p.run != "" {
			warnings = append(warnings, rules.Warning{Subject: p.path, Text: fmt.Sprintf("has the same run as %s, and is skipped", first)})
			continue
		}
		seen[key] = p.path
		out = append(out, p)
	}
	for card, on := range hosts {
		if len(on) > 1 {
			slices.Sort(on)
			warnings = append(warnings, rules.Warning{Subject: card,
				Text: fmt.Sprintf("the card is on %d hosts, such as %s and %s: it is judged as one", len(on), on[0], on[1])})
		}
	}
	return out, warnings
}
