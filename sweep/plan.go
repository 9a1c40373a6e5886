package sweep

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// PlanSchema names the form in which plans are stored in run files.
const PlanSchema = "gemmaudit/plan/1"

// Plan is everything that decides what a sweep measures and in which order. It is
// stored in the run file, so that a sweep can be resumed and shards be merged.
type Plan struct {
	Schema string          `json:"schema"`
	Preset string          `json:"preset,omitempty"`
	Series []PlannedSeries `json:"series"`
	// Screening rounds cover every case, of inferred series those that a [Designer] chooses.
	// Further rounds, up to Rounds for a case, cover the cases that a [Chooser] still finds
	// open, or all when there is none.
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
	// ReferenceClock is the clock in MHz at which times are judged; 0 takes that of the
	// sentinels, of each device. It changes nothing about what is measured.
	ReferenceClock float64 `json:"reference_clock_mhz,omitempty"`
	// Deadline bounds the wall time of one start of the sweep; 0 is no bound.
	Deadline time.Duration `json:"deadline_ns,omitempty"`
	// Step is how much time the screening of the seeds of inferred series may take at once;
	// where all need more, those that tell most come first. 0 is no bound.
	Step time.Duration `json:"step_ns,omitempty"`
	// Traffic says where time goes first: with a Step, the rows of all series are taken in step
	// by step, those of most traffic first. Empty is nothing known.
	Traffic results.Traffic `json:"traffic,omitempty"`
	// Notes say what was left out of the plan and why.
	Notes []Note `json:"noted,omitempty"`
}

// PlannedSeries is a curve over M that a plan measures. Of an inferred one a [Designer] chooses
// the Ms that are measured.
type PlannedSeries = results.PlannedSeries

// task is what a case computes in one launch: padded when the case is. Cases in parts
// have one task for each part; see [results.Case].
func task(c results.Case, m int) kernels.Task {
	return kernels.Task{Subject: c.Subject, M: m, Threads: c.Threads, PackInside: c.PackInside}
}

// SentinelConfig says how the cases that recur through a sweep are used.
type SentinelConfig struct {
	// Every is the wall time between two visits, Blocks the number of blocks
	// after which one is due in any case.
	Every  time.Duration `json:"every_ns"`
	Blocks int           `json:"blocks"`
	// DriftBound is the drift of the sentinels, as a share of the time, past which
	// the run is invalid; 0 is no bound. See [Runner.DriftTest].
	DriftBound float64 `json:"drift_bound"`
	// Warm-up runs the sentinel in windows of SettleWindow. It ends when the medians
	// of the last SettleWindows windows lie within SettleSpread of each other,
	// or after SettleCap. Single blocks would not do: a clock that rises for a
	// second hardly moves from one to the next.
	SettleWindow  time.Duration `json:"settle_window_ns"`
	SettleWindows int           `json:"settle_windows"`
	SettleSpread  float64       `json:"settle_spread"`
	SettleCap     time.Duration `json:"settle_cap_ns"`
}

// DefaultSentinel is used where a plan says nothing else. A visit costs a few
// milliseconds a second, and half a minute gives enough of them that their
// medians tell a drift from other load. It has no bound of drift: that belongs to the
// rules by which a run is judged.
func DefaultSentinel() SentinelConfig {
	return SentinelConfig{
		Every: time.Second, Blocks: 1000,
		SettleWindow: 80 * time.Millisecond, SettleWindows: 5, SettleSpread: 0.03, SettleCap: 3 * time.Second,
	}
}

// validate returns an error that names the time or the share that no sweep could use: a warm-up
// must end.
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

// Validate returns an error that names the field that can't be used.
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
	if p.Step < 0 {
		return fmt.Errorf("plan: a step of %v, expected at least 0", p.Step)
	}
	if err := p.Traffic.Validate(); err != nil {
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
		return fmt.Errorf("plan: there is nothing to measure%s", notesHint(p.Notes))
	}
	return nil
}

// checkSeries refuses a series of which a case can't be executed. What a case must be like holds
// between two Ms when it holds for them.
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

// notesHint is the last note: the first ones say which kernels are left out by
// default, those after them why the others can't run what was asked for.
func notesHint(notes []Note) string {
	if len(notes) == 0 {
		return ""
	}
	return ": " + notes[len(notes)-1].String()
}

// ParseRegime reads a regime by name.
func ParseRegime(s string) (results.Regime, error) {
	switch r := results.Regime(s); r {
	case results.Engine, results.Cold, results.Hot:
		return r, nil
	case "":
		return results.Engine, nil
	}
	return "", fmt.Errorf("unknown regime %q: expected engine, cold or hot", s)
}

// Own lists the series with what the plan's shard has of each: of a series that is inferred
// all or nothing, since its rows tell of each other. Series of which it has nothing are left
// out.
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

// Cases lists what the plan's shard measures of series that are not inferred, series by
// series, M ascending.
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

// Rows is how many Ms the series of the plan's shard have in all, inferred ones included.
func (p *Plan) Rows() int {
	n := 0
	for _, s := range p.Own() {
		n += len(s.Ms)
	}
	return n
}

// Infers says whether a series of the plan's shard is inferred.
func (p *Plan) Infers() bool {
	return slices.ContainsFunc(p.Own(), func(s PlannedSeries) bool { return s.Infer })
}

// of is the plan of what the shard measures on one device.
func (p *Plan) of(device string) *Plan {
	mine := *p
	mine.Series = slices.DeleteFunc(p.Own(), func(s PlannedSeries) bool { return s.Device != device })
	mine.Shard = Shard{}
	return &mine
}

// Devices lists the ids of the devices that the plan needs, in order of appearance.
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

// Encode returns the plan as it is stored in [results.Meta].
func (p *Plan) Encode() (json.RawMessage, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	return data, nil
}

// DecodePlan reads a plan from a run file's [results.Meta].
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
