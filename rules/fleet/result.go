package fleet

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.fleet/1"

// Settings are the criteria for flagging a card.
type Settings struct {
	// Level is the accepted share of false positives among flagged cards, 0 to 1.
	Level float64 `json:"level"`
	// Watch is the minimum loss of a flagged card, Drain the minimum sure loss of a card to take out, as
	// shares of the time.
	Watch float64 `json:"watch"`
	Drain float64 `json:"drain"`
	// ClockMHz is the common clock, 0 for the median of each model.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
}

// Default returns the settings of the command. The level is below the promised 5 %: the promise covers many
// fleets together, and a fleet without slow cards that flags one counts fully.
func Default() Settings { return Settings{Level: 0.03, Watch: 0.005, Drain: 0.01} }

// Verdict says what to do with a card.
type Verdict string

// The verdicts.
const (
	Drain     Verdict = "drain"     // surely slower than its peers by [Settings.Drain]: take it out
	Watch     Verdict = "watch"     // slower by less, or for a reason that may not be its own
	Fine      Verdict = "fine"      // like its peers, within the measurement's precision
	Undecided Verdict = "undecided" // noise hides whether it is slow; not used for fleets
	Unjudged  Verdict = "unjudged"  // there is no reference to compare it with
)

// Kind is how a card is slow.
type Kind string

// The kinds.
const (
	AllCases Kind = "all cases" // in all cases alike, at the same clock
	Clock    Kind = "clock"     // its clock is lower for an unknown reason
	Thermal  Kind = "thermal"   // its clock is lower because it is hotter
	Power    Kind = "power"     // its clock is lower because it gets less power
	Memory   Kind = "memory"    // where memory binds
	Kernel   Kind = "kernel"    // in one kernel, or one family of its cases
	Link     Kind = "link"      // in copies from and to its host
	Mode     Kind = "mode"      // it belongs to the slower of two groups of cards
)

// Result is a fleet with a verdict for each card.
type Result struct {
	Schema   string   `json:"schema"`
	Settings Settings `json:"settings"`
	// Runs counts the runs that were read. Processes counts pairs of card and run.
	Runs      int `json:"runs"`
	Processes int `json:"processes"`
	// From and To are the times of the first and last sample.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Groups are cards of one model with the same software and limits; Confounds describes their differences.
	Groups    []Group    `json:"groups"`
	Confounds []Confound `json:"confounds"`
	// Cards are ordered by verdict, then slowest first.
	Cards    []Card          `json:"cards"`
	Warnings []rules.Warning `json:"warnings"`
	// Unread lists unusable files.
	Unread []Unread `json:"unread"`
	// Remedies are worthwhile on some cards; they are set if the runs were asked for their tables.
	Remedies []table.SharedEntry `json:"remedies,omitempty"`

	// Heat has each card's cases. JSON omits it: a fleet has millions.
	Heat []Heat `json:"-"`

	all []*answers
}

// Unread is an unusable file.
type Unread struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Group is cards of one model with the same software and limits.
type Group struct {
	Model string `json:"model"`
	// Factors are its software and limits, as far as runs report them.
	Factors []results.Factor `json:"factors"`
	// Peers is the index of the group with whose cards these are compared: its own, or another one if it has
	// too few.
	Peers     int `json:"peers"`
	Cards     int `json:"cards"`
	Hosts     int `json:"hosts"`
	Processes int `json:"processes"`
	Cases     int `json:"cases"`
	// ClockMHz is the common clock of the model, 0 if clocks are unknown.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// SustainedOf is the source of sustained time: the phase "sustained", or "sweep" for times as the sweep
	// observed them.
	SustainedOf results.Phase `json:"sustained_of"`
	// Common and Sustained are the sources of variance over all groups of the model.
	Common    Components `json:"common"`
	Sustained Components `json:"sustained"`
	// Drift is the drift of the whole model over time, empty if there is none; SustainedDrift is the same in
	// sustained time.
	Drift          []DriftPoint `json:"drift,omitempty"`
	SustainedDrift []DriftPoint `json:"sustained_drift,omitempty"`
	// Modes is set if the cards are bimodal.
	Modes *Modes `json:"modes,omitempty"`
}

// DriftPoint is a corner of the fleet's drift line.
type DriftPoint struct {
	Hours float64 `json:"hours"` // since the first sample of the fleet
	Ratio float64 `json:"ratio"` // time relative to the median time
}

// Modes describes two groups into which cards fall.
type Modes struct {
	// Of is the time that shows them: "common" or "sustained".
	Of     string  `json:"of"`
	Faster int     `json:"faster"` // cards
	Slower int     `json:"slower"`
	Ratio  float64 `json:"ratio"` // the slower group's time over the faster one's
	// With is a label or a factor of the host that predicts the mode, or "".
	With string `json:"with,omitempty"`
}

// Confound is a difference in software or limits between groups, with the difference in time.
type Confound struct {
	// Group and Against are indices of groups; Factors lists the differences, A being Against's.
	Group   int                  `json:"group"`
	Against int                  `json:"against"`
	Factors []results.FactorDiff `json:"factors"`
	// Ratio is the time of Group over Against at the common clock, with bounds of 95 % confidence that
	// include the variation of cards; Sustained is for sustained time.
	Ratio     stats.Interval `json:"ratio"`
	Sustained stats.Interval `json:"sustained"`
	P         float64        `json:"p"`
}

// Conditions is the state of a card during measurement: medians over the samples. 0 is unknown.
type Conditions struct {
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	PowerW   float64 `json:"power_w,omitempty"`
	TempC    float64 `json:"temp_c,omitempty"`
	// Throttled is the share of samples with a throttle reason, Reasons the share of each.
	Throttled float64                            `json:"throttled,omitempty"`
	Reasons   map[kernels.ThrottleReason]float64 `json:"reasons,omitempty"`
	// ReadBandwidth is the memory's and LinkBandwidth that of copies from the host, in bytes per second.
	ReadBandwidth float64 `json:"read_bandwidth,omitempty"`
	LinkBandwidth float64 `json:"link_bandwidth,omitempty"`
}

// Card is one card compared with its peers.
type Card struct {
	// Card is its UUID or serial number, or "HOST/DEVICE".
	Card   string            `json:"card"`
	Host   string            `json:"host"`
	Device string            `json:"device"`
	Model  string            `json:"model"`
	Labels map[string]string `json:"labels,omitempty"`
	Group  int               `json:"group"`
	// Runs are the processes that measured it, in order of time.
	Runs  []string `json:"runs"`
	Cases int      `json:"cases"`
	Peers int      `json:"peers"`

	Verdict Verdict `json:"verdict"`
	Kind    Kind    `json:"kind,omitempty"`
	// Reason is the verdict in one sentence.
	Reason string `json:"reason"`
	// Loss is the time relative to its peers, with bounds of 95 % confidence; above 1 is slower. Of names its
	// cases and kind of time.
	Loss stats.Interval `json:"loss"`
	Of   string         `json:"of"`
	// Common and Sustained are the time of all cases relative to its peers.
	Common    stats.Interval `json:"common"`
	Sustained stats.Interval `json:"sustained"`
	// P is the p-value that the card is like its peers, weighted over all questions; AdjustedP is compared
	// with the level.
	P         float64 `json:"p"`
	AdjustedP float64 `json:"p_adjusted"`
	// Since is the last change of the card's own level, or nil.
	Since *Change `json:"since,omitempty"`
	// Confounds lists differences in software and limits from the cards that it is compared with.
	Confounds []results.FactorDiff `json:"confounds,omitempty"`
	// SharedByHost is true if all cards of its host are slow.
	SharedByHost bool `json:"shared_by_host,omitempty"`
	// Strays counts outliers among the card's processes.
	Strays int `json:"strays,omitempty"`
	// Conditions is the card's state, PeerConditions the median of its peers'.
	Conditions     Conditions `json:"conditions"`
	PeerConditions Conditions `json:"peer_conditions"`
	// SlowCases counts the cases that are surely slower than its peers'; Worst lists the worst of them.
	SlowCases int         `json:"slow_cases"`
	Worst     []CaseRatio `json:"worst,omitempty"`
	// Earlier is its time relative to the same card in the baseline, or nil.
	Earlier *stats.Interval `json:"earlier,omitempty"`
}

// Change is a change of a card's own level over its runs.
type Change struct {
	Run   string         `json:"run"` // the first of the new level
	Time  time.Time      `json:"time"`
	Runs  int            `json:"runs"`  // number of runs at the new level
	Ratio stats.Interval `json:"ratio"` // new level over old
	// Sustained is true if sustained time shows it, else the time at the common clock.
	Sustained bool `json:"sustained,omitempty"`
}

// CaseRatio is one case of a card relative to its peers.
type CaseRatio struct {
	Series    results.SeriesKey `json:"series"`
	M         int               `json:"m"`
	Ratio     float64           `json:"ratio"`
	AdjustedP float64           `json:"p_adjusted"`
}

// Heat is the cases of one model by its cards.
type Heat struct {
	Model string
	// Cases are ordered by series and M.
	Cases []HeatCase
	// Cards are indices into Result.Cards.
	Cards []int
	// Common holds, by card and case, the log of the time relative to peers at the common clock, Sustained
	// that of sustained time; NaN if unknown.
	Common, Sustained [][]float32
}

// HeatCase is a column of [Heat].
type HeatCase struct {
	Series results.SeriesKey
	M      int
	// US is the peers' time, in microseconds at the common clock.
	US float64
}

// Count counts the cards with a verdict.
func (r *Result) Count(v Verdict) int {
	n := 0
	for i := range r.Cards {
		if r.Cards[i].Verdict == v {
			n++
		}
	}
	return n
}
