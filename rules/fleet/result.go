package fleet

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Schema is the value of Result.Schema.
const Schema = "gemmaudit.fleet/1"

// Settings are what a card has to be to be named.
type Settings struct {
	// Level is the share of named cards that may be like the others, 0 to 1.
	Level float64 `json:"level"`
	// Watch is the least loss for which a card is named, Drain the loss that a card surely has that is to be taken out, as shares of the time.
	Watch float64 `json:"watch"`
	Drain float64 `json:"drain"`
	// ClockMHz is the common clock, 0 for the median of each model.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
}

// Default are the settings of the command. The level is below the 5 % that are promised, since the promise is for all named cards of
// many fleets together, and a fleet without a slow card that names one counts fully.
func Default() Settings { return Settings{Level: 0.03, Watch: 0.005, Drain: 0.01} }

// Verdict is what to do with a card.
type Verdict string

// The verdicts.
const (
	Drain    Verdict = "drain"    // surely slower than its peers by [Settings.Drain]: take it out
	Watch    Verdict = "watch"    // stands out, by less, or for a reason that is not surely its own
	Fine     Verdict = "fine"     // like its peers, as far as can be told
	Unjudged Verdict = "unjudged" // there is nothing to compare it with
)

// Kind is in what way a card is slow.
type Kind string

// The kinds.
const (
	AllCases Kind = "all cases" // in all cases alike, at the same clock
	Clock    Kind = "clock"     // its clock is lower, and nothing says why
	Thermal  Kind = "thermal"   // its clock is lower since it is hotter
	Power    Kind = "power"     // its clock is lower since it gets less power
	Memory   Kind = "memory"    // where memory binds
	Kernel   Kind = "kernel"    // in one kernel, or one family of its cases
	Link     Kind = "link"      // in copies from and to its host
	Mode     Kind = "mode"      // it belongs to the slower of two groups of cards
)

// Result is a fleet with a verdict for each card.
type Result struct {
	Schema   string   `json:"schema"`
	Settings Settings `json:"settings"`
	// Runs counts the runs that were read, Processes a card in a run.
	Runs      int `json:"runs"`
	Processes int `json:"processes"`
	// From and To are when the first and the last sample was taken.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Groups are cards of one model with the same software and limits, Confounds how they differ.
	Groups    []Group    `json:"groups"`
	Confounds []Confound `json:"confounds"`
	// Cards are ordered by verdict, then by how slow they are.
	Cards    []Card          `json:"cards"`
	Warnings []rules.Warning `json:"warnings"`
	// Unread are the files of which nothing could be used.
	Unread []Unread `json:"unread"`
	// Remedies are what pays on some cards, where the runs were asked for their tables.
	Remedies []table.SharedEntry `json:"remedies,omitempty"`

	// Heat has each card's cases. It is left out of JSON: a fleet has millions.
	Heat []Heat `json:"-"`

	all []*answers // that the baseline is made from
}

// Unread is a file of which nothing could be used.
type Unread struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Group is cards of one model with the same software and limits.
type Group struct {
	Model string `json:"model"`
	// Factors are its software and limits, as far as runs tell them.
	Factors []results.Factor `json:"factors"`
	// Peers is the index of the group with whose cards these are compared: its own, or another one where it has too few.
	Peers     int `json:"peers"`
	Cards     int `json:"cards"`
	Hosts     int `json:"hosts"`
	Processes int `json:"processes"`
	Cases     int `json:"cases"`
	// ClockMHz is the common clock of the model, 0 where clocks are not known.
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	// SustainedOf says what stands for sustained time: the phase "sustained", or "sweep" for times as the sweep observed them.
	SustainedOf results.Phase `json:"sustained_of"`
	// Common and Sustained are the sources of variance over all groups of the model.
	Common    Components `json:"common"`
	Sustained Components `json:"sustained"`
	// Drift is what the whole model did over time, empty where it did nothing; SustainedDrift the same in sustained time.
	Drift          []DriftPoint `json:"drift,omitempty"`
	SustainedDrift []DriftPoint `json:"sustained_drift,omitempty"`
	// Modes are set where the cards fall into two groups.
	Modes *Modes `json:"modes,omitempty"`
}

// DriftPoint is a corner of the line that a fleet's drift is.
type DriftPoint struct {
	Hours float64 `json:"hours"` // since the first sample of the fleet
	Ratio float64 `json:"ratio"` // time over that in the middle
}

// Modes are two groups into which cards fall.
type Modes struct {
	// Of is what shows them: "common" or "sustained" time.
	Of     string  `json:"of"`
	Faster int     `json:"faster"` // cards
	Slower int     `json:"slower"`
	Ratio  float64 `json:"ratio"` // the slower group's time over the faster one's
	// With is a label or a factor of the host that goes with the modes, empty for none.
	With string `json:"with,omitempty"`
}

// Confound is a difference in software or limits between groups, and what goes with it.
type Confound struct {
	// Group and Against are indices of groups; Factors is what differs, A being Against's.
	Group   int                  `json:"group"`
	Against int                  `json:"against"`
	Factors []results.FactorDiff `json:"factors"`
	// Ratio is the time of Group over that of Against at the common clock, with bounds of 95 % confidence that count
	// how cards differ; Sustained is the same of sustained time.
	Ratio     rules.Interval `json:"ratio"`
	Sustained rules.Interval `json:"sustained"`
	P         float64        `json:"p"`
}

// Conditions is the state that a card was in while it was measured: medians over the samples. 0 is not known.
type Conditions struct {
	ClockMHz float64 `json:"clock_mhz,omitempty"`
	PowerW   float64 `json:"power_w,omitempty"`
	TempC    float64 `json:"temp_c,omitempty"`
	// Throttled is the share of samples with a reason for a reduced clock, Reasons the share of each.
	Throttled float64                            `json:"throttled,omitempty"`
	Reasons   map[kernels.ThrottleReason]float64 `json:"reasons,omitempty"`
	// ReadBandwidth is that of memory and LinkBandwidth that of copies from the host, in bytes a second.
	ReadBandwidth float64 `json:"read_bandwidth,omitempty"`
	LinkBandwidth float64 `json:"link_bandwidth,omitempty"`
}

// Card is one card beside its peers.
type Card struct {
	// Card is its UUID or serial number, "HOST/DEVICE" where there is none.
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
	// Loss is the time over that of its peers on which the verdict rests, with bounds of 95 % confidence; above 1 is slower. Of
	// says of which cases and which time it is.
	Loss rules.Interval `json:"loss"`
	Of   string         `json:"of"`
	// Common and Sustained are the time of all cases over that of its peers.
	Common    rules.Interval `json:"common"`
	Sustained rules.Interval `json:"sustained"`
	// P is the p-value that its peers are like it, weighed over all questions, AdjustedP the one that is held against the level.
	P         float64 `json:"p"`
	AdjustedP float64 `json:"p_adjusted"`
	// Since is the last change of the card's own level, nil where there is none.
	Since *Change `json:"since,omitempty"`
	// Confounds is what differs in software and limits from the cards that it is compared with.
	Confounds []results.FactorDiff `json:"confounds,omitempty"`
	// SharedByHost is true where all cards of its host are slow.
	SharedByHost bool `json:"shared_by_host,omitempty"`
	// Strays counts processes that lie apart from the card's others.
	Strays int `json:"strays,omitempty"`
	// Conditions is the card's state, PeerConditions the median of its peers'.
	Conditions     Conditions `json:"conditions"`
	PeerConditions Conditions `json:"peer_conditions"`
	// SlowCases counts the cases that are surely slower than with its peers; Worst lists the worst of them.
	SlowCases int         `json:"slow_cases"`
	Worst     []CaseRatio `json:"worst,omitempty"`
	// Earlier is its time over that of the same card in the baseline, nil without one.
	Earlier *rules.Interval `json:"earlier,omitempty"`
}

// Change is a change of a card's own level over its runs.
type Change struct {
	Run   string         `json:"run"` // the first of the new level
	Time  time.Time      `json:"time"`
	Runs  int            `json:"runs"`  // of the new level
	Ratio rules.Interval `json:"ratio"` // new level over old
	// Sustained says that sustained time shows it, else the time at the common clock.
	Sustained bool `json:"sustained,omitempty"`
}

// CaseRatio is one case of a card over its peers.
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
	// Common has, by card and case, the log of the time over that of peers at the common clock, and Sustained the same
	// of sustained time; NaN where there is none.
	Common, Sustained [][]float32
}

// HeatCase is a column of [Heat].
type HeatCase struct {
	Series results.SeriesKey
	M      int
	// US is what the peers take, in microseconds at the common clock.
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
