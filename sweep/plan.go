package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// PlanSchema names the format of plans in run files.
const PlanSchema = "gemmaudit/plan/1"

// Plan determines what a sweep measures and in which order. It is stored in the run file for resuming sweeps
// and merging shards.
type Plan struct {
	Schema string          `json:"schema"`
	Preset string          `json:"preset,omitempty"`
	Series []PlannedSeries `json:"series"`
	// Screening rounds cover every case; a [Designer] chooses the cases of inferred series. Further rounds,
	// up to Rounds per case, cover the cases that a [Chooser] leaves open, or all without one.
	Screening int    `json:"screening"`
	Rounds    int    `json:"rounds"`
	Seed      uint64 `json:"seed"`

	Regime       results.Regime       `json:"regime"`
	Distribution kernels.Distribution `json:"distribution"`
	// A block has as many launches as BlockTarget needs, and at least MinLaunches.
	BlockTarget time.Duration `json:"block_target_ns"`
	MinLaunches int           `json:"min_launches"`

	Sentinel SentinelConfig `json:"sentinel"`
	// Shard is the part of the plan that is measured here.
	Shard Shard `json:"shard,omitzero"`
	// ReferenceClock is the clock in MHz at which times are judged; 0 uses the sentinels' clock of each
	// device. It does not affect the measurement.
	ReferenceClock float64 `json:"reference_clock_mhz,omitempty"`
	// Deadline limits the wall time of one start of the sweep; 0 means no limit.
	Deadline time.Duration `json:"deadline_ns,omitempty"`
	// Lead is the deadline for screening the lead of a recorded workload, if longer: there is no result
	// without the heaviest product. 0 means Deadline.
	Lead time.Duration `json:"lead_ns,omitempty"`
	// Step limits the screening time of one group of seeds. If all need more, the most informative come
	// first. 0 means no limit.
	Step time.Duration `json:"step_ns,omitempty"`
	// Traffic orders the steps: rows with the most traffic first. It is empty if unknown.
	Traffic results.Traffic `json:"traffic,omitempty"`
	// Recorded is the recorded workload, with each product at its own M. With a Step the products with the
	// most time come first. Traffic is then empty.
	Recorded results.Recorded `json:"recorded,omitempty"`
	// Spread measures the rows of all series step by step, for a deadline that may be too short: first the
	// smallest and largest M of each series, then the Ms that halve the gaps.
	Spread bool `json:"spread,omitempty"`
	// Routings are the recorded routings of grouped products.
	Routings []kernels.RecordedRouting `json:"routings,omitempty"`
	// Cut is what a deadline took from the request; nil if nothing.
	Cut *results.Cut `json:"cut,omitempty"`
	// Notes explain what else the plan omits.
	Notes []Note `json:"noted,omitempty"`
}

// PlannedSeries is a curve over M that a plan measures. A [Designer] chooses the measured Ms of an inferred
// one.
type PlannedSeries = results.PlannedSeries

func task(c results.Case, m int) kernels.Task {
	return kernels.Task{Subject: c.Subject, M: m, Threads: c.Threads, PackInside: c.PackInside}
}

// SentinelConfig configures the cases that recur through a sweep.
type SentinelConfig struct {
	// Every is the wall time between two visits; Blocks is the maximum number of blocks between them.
	Every  time.Duration `json:"every_ns"`
	Blocks int           `json:"blocks"`
	// DriftBound is the maximum drift of the sentinels in a valid run, as a share of the time; 0 means no
	// limit. See [Runner.DriftTest].
	DriftBound float64 `json:"drift_bound"`
	// Warm-up runs the sentinel in windows of SettleWindow, until the medians of the last SettleWindows
	// windows are within SettleSpread, or for SettleCap. Single blocks are too short: a clock that rises for
	// a second hardly changes between two.
	SettleWindow  time.Duration `json:"settle_window_ns"`
	SettleWindows int           `json:"settle_windows"`
	SettleSpread  float64       `json:"settle_spread"`
	SettleCap     time.Duration `json:"settle_cap_ns"`
}

// DefaultSentinel costs a few milliseconds per second; half a minute gives enough visits to tell drift from
// other load. The rules that judge a run set the drift bound.
func DefaultSentinel() SentinelConfig {
	return SentinelConfig{
		Every: time.Second, Blocks: 1000,
		SettleWindow: 80 * time.Millisecond, SettleWindows: 5, SettleSpread: 0.03, SettleCap: 3 * time.Second,
	}
}

func (c SentinelConfig) validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"time between visits of the sentinels", c.Every}, {"settle window", c.SettleWindow}, {"settle cap", c.SettleCap}} {
		if f.value < 0 || f.value > time.Hour {
			return fmt.Errorf("a %s of %v, expected 0 to 1h", f.name, f.value)
		}
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"bound of drift", c.DriftBound}, {"settle spread", c.SettleSpread}} {
		if !(f.value >= 0) {
			return fmt.Errorf("a %s of %g, expected at least 0", f.name, f.value)
		}
	}
	return nil
}

// MaxClock is the highest reference clock, in MHz.
const MaxClock = 10000

// Validate returns an error that names the invalid field.
func (p *Plan) Validate() error {
	if p.Schema != PlanSchema {
		return fmt.Errorf("plan of schema %q, expected %q", p.Schema, PlanSchema)
	}
	for _, f := range []struct {
		name  string
		value int
		most  int
	}{
		{"rounds", p.Rounds, 1 << 20}, {"screening rounds", p.Screening, p.Rounds},
		{"launches a block", p.MinLaunches, 1 << 20}, {"sentinel blocks", p.Sentinel.Blocks, 1 << 30},
		{"settle windows", p.Sentinel.SettleWindows, 1 << 10},
	} {
		if f.value < 1 || f.value > f.most {
			return fmt.Errorf("plan: %s: %d, expected 1 to %d", f.name, f.value, f.most)
		}
	}
	if p.BlockTarget <= 0 || p.BlockTarget > time.Minute {
		return fmt.Errorf("plan: a block of %v, expected above 0 and at most 1m", p.BlockTarget)
	}
	if c := p.ReferenceClock; !(c >= 0) || c > MaxClock {
		return fmt.Errorf("plan: a reference clock of %g MHz, expected above 0 and at most %d", c, MaxClock)
	}
	if p.Deadline < 0 {
		return fmt.Errorf("plan: deadline %v lies in the past", p.Deadline)
	}
	if _, err := ParseRegime(string(p.Regime)); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := p.Sentinel.validate(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if p.Shard.Count != 0 && (p.Shard.Index < 1 || p.Shard.Index > p.Shard.Count || p.Shard.Count > maxShards) {
		return fmt.Errorf("plan: shard %d/%d, expected 1/1 up to %d/%d", p.Shard.Index, p.Shard.Count, maxShards, maxShards)
	}
	if p.Lead < 0 {
		return fmt.Errorf("plan: a lead of %v, expected at least 0", p.Lead)
	}
	if p.Step < 0 {
		return fmt.Errorf("plan: a step of %v, expected at least 0", p.Step)
	}
	if err := p.Traffic.Validate(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := p.Recorded.Validate(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	cases := 0
	for _, s := range p.Series {
		if err := checkSeries(s); err != nil {
			return fmt.Errorf("plan: %w", err)
		}
		cases += len(s.Ms)
	}
	if cases > results.MostPlannedMs {
		return fmt.Errorf("plan: %d cases, expected at most %d", cases, results.MostPlannedMs)
	}
	if cases == 0 {
		return fmt.Errorf("plan: no case to measure%s", notesHint(p.Notes))
	}
	return nil
}

// The requirements hold between two Ms if they hold at both.
func checkSeries(s PlannedSeries) error {
	for i, m := range s.Ms {
		if i > 0 && m <= s.Ms[i-1] {
			return fmt.Errorf("%v: m%d follows m%d, expected batches in ascending order", s.SeriesKey, m, s.Ms[i-1])
		}
	}
	if len(s.Ms) == 0 {
		return nil
	}
	if err := checkCase(s.Case(s.Ms[0])); err != nil {
		return err
	}
	return checkCase(s.Case(s.Ms[len(s.Ms)-1]))
}

// The first notes list kernels left out by default; the last explains why other kernels can't run the
// request.
func notesHint(notes []Note) string {
	if len(notes) == 0 {
		return ""
	}
	return ": " + notes[len(notes)-1].String()
}

// ParseRegime parses the name of a regime.
func ParseRegime(s string) (results.Regime, error) {
	switch r := results.Regime(s); r {
	case results.Engine, results.Cold, results.Hot:
		return r, nil
	case "":
		return results.Engine, nil
	}
	return "", fmt.Errorf("unknown regime %q: expected engine, cold or hot", s)
}

// Own lists the shard's part of each series, without empty ones. An inferred series is included whole or not
// at all, since its rows depend on each other.
func (p *Plan) Own() []PlannedSeries {
	cases, inferred := 0, 0
	for _, s := range p.Series {
		if s.Infer {
			inferred++
		} else {
			cases += len(s.Ms)
		}
	}
	if p.Shard.Count <= 1 {
		return slices.DeleteFunc(slices.Clone(p.Series), func(s PlannedSeries) bool { return len(s.Ms) == 0 })
	}
	var out []PlannedSeries
	kept, whole := p.Shard.keep(p.Seed, cases), p.Shard.keep(^p.Seed, inferred)
	for _, s := range p.Series {
		switch {
		case s.Infer:
			if !whole[0] {
				s.Ms = nil
			}
			whole = whole[1:]
		default:
			var ms Batches
			for i, m := range s.Ms {
				if kept[i] {
					ms = append(ms, m)
				}
			}
			s.Ms, kept = ms, kept[len(s.Ms):]
		}
		if len(s.Ms) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// Cases lists the shard's cases of series that are not inferred, series by series, M ascending.
func (p *Plan) Cases() []results.Case {
	var out []results.Case
	for _, s := range p.Own() {
		if s.Infer {
			continue
		}
		for _, m := range s.Ms {
			out = append(out, s.Case(m))
		}
	}
	return out
}

// Rows counts the Ms of all series in the shard, including inferred ones.
func (p *Plan) Rows() int {
	n := 0
	for _, s := range p.Own() {
		n += len(s.Ms)
	}
	return n
}

// Infers reports whether a series of the plan's shard is inferred.
func (p *Plan) Infers() bool {
	return slices.ContainsFunc(p.Own(), func(s PlannedSeries) bool { return s.Infer })
}

func (p *Plan) of(device string) *Plan {
	mine := *p
	mine.Series = slices.DeleteFunc(p.Own(), func(s PlannedSeries) bool { return s.Device != device })
	mine.Shard = Shard{}
	return &mine
}

// Devices lists the ids of the required devices in order of appearance.
func (p *Plan) Devices() []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range p.Series {
		if !seen[s.Device] {
			seen[s.Device] = true
			out = append(out, s.Device)
		}
	}
	return out
}

// Encode returns the plan as stored in [results.Meta].
func (p *Plan) Encode() (json.RawMessage, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return data, nil
}

// DecodePlan decodes a plan from a run file's [results.Meta].
func DecodePlan(data json.RawMessage) (*Plan, error) {
	if len(data) == 0 {
		return nil, fmt.Errorf("plan: the run has none, so it was not measured by a sweep and can't be resumed")
	}
	if err := results.CheckPlan(data); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	p := &Plan{}
	err := json.Unmarshal(data, p)
	if err == nil && p.Notes == nil {
		p.Notes, err = notesOfOldPlans(data)
	}
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return p, p.Validate()
}
