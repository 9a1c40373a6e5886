// Package metrics writes a command's findings on a machine for the textfile collector of Prometheus'
// node_exporter.
//
// Every series belongs to one command and one card, identified by the labels command, device and uuid, so
// files of several commands and cards of a host do not collide. Names and units follow Prometheus'
// conventions: base units, and ratios from 0 to 1. Unknown values have no series.
package metrics

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Result is how a command ended.
type Result string

// The results, by the exit codes of the program.
const (
	Clean        Result = "clean"        // 0
	Failed       Result = "failed"       // 1: a gate failed, a node is not fit
	Broken       Result = "broken"       // 3: a device, a file or the disk failed
	Inconclusive Result = "inconclusive" // 4
	Interrupted  Result = "interrupted"  // 130
)

// Results lists all results.
func Results() []Result { return []Result{Clean, Failed, Broken, Inconclusive, Interrupted} }

// Outcome is the data of one command.
type Outcome struct {
	Command string
	Result  Result
	// Finished is when the command ended, Duration how long it took.
	Finished time.Time
	Duration time.Duration
	// Version is the program's version.
	Version string
	// Meta describes the judged run, zero without a run; Run is the run's ID.
	Meta results.Meta
	Run  string
	// Audit is the run's verdict; may be nil.
	Audit *rules.Audit
	// Checks holds the results of a node check by device ID; nil for other commands.
	Checks map[string]Check
}

// Check compares one device with its baseline.
type Check struct {
	Verdict fleet.Verdict
	// Cases is the number of compared cases.
	Cases int
	// Common is the device's time ÷ the baseline's at the common clock, Sustained the same for observed
	// times, with bounds of 95 % confidence. Zero means unknown.
	Common, Sustained stats.Interval
}

// Write prints an outcome in Prometheus' text format.
func Write(w io.Writer, o Outcome) error {
	for _, f := range families(o) {
		if len(f.Metric) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(w, f); err != nil {
			return err
		}
	}
	return nil
}

// family is one metric under construction.
type family struct{ *dto.MetricFamily }

// gauge begins a metric.
func gauge(name, help string) family {
	kind := dto.MetricType_GAUGE
	return family{&dto.MetricFamily{Name: &name, Help: &help, Type: &kind}}
}

// add adds a series with pairs of labels; labels without a value are omitted.
func (f family) add(value float64, pairs ...string) {
	m := &dto.Metric{Gauge: &dto.Gauge{Value: &value}}
	for i := 0; i+1 < len(pairs); i += 2 {
		if text := strings.ToValidUTF8(pairs[i+1], "\ufffd"); text != "" {
			m.Label = append(m.Label, &dto.LabelPair{Name: &pairs[i], Value: &text})
		}
	}
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	f.Metric = append(f.Metric, m)
}

// flag is 1 for true.
func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func families(o Outcome) []*dto.MetricFamily {
	devices := o.Meta.Fingerprint.Devices
	if len(devices) == 0 {
		devices = []kernels.Spec{{}}
	}
	var all []*dto.MetricFamily
	begin := func(name, help string) family {
		f := gauge(name, help)
		all = append(all, f.MetricFamily)
		return f
	}
	of := func(d kernels.Spec, more ...string) []string {
		return append([]string{"command", o.Command, "device", d.ID, "uuid", d.UUID}, more...)
	}
	result := begin("gemmaudit_last_result", "1 for how the command ended last, 0 for the other results.")
	finished := begin("gemmaudit_last_finished_timestamp_seconds", "When the command ended last.")
	duration := begin("gemmaudit_last_duration_seconds", "How long the command took.")
	measured := begin("gemmaudit_run_created_timestamp_seconds", "When the run that was judged was begun.")
	for _, d := range devices {
		for _, r := range Results() {
			result.add(flag(r == o.Result), of(d, "result", string(r))...)
		}
		finished.add(seconds(o.Finished), of(d)...)
		duration.add(o.Duration.Seconds(), of(d)...)
		if !o.Meta.Created.IsZero() {
			measured.add(seconds(o.Meta.Created), of(d)...)
		}
	}
	info(begin, of, o)
	if o.Audit != nil {
		audited(begin, of, o)
	}
	if o.Checks != nil {
		checked(begin, of, o)
	}
	return all
}

// info adds the metrics with value 1 whose labels describe the card, its host and the run.
func info(begin func(name, help string) family, of func(kernels.Spec, ...string) []string, o Outcome) {
	card := begin("gemmaudit_card_info", "1, with the card, its driver, its host and the labels of the run.")
	for _, d := range o.Meta.Fingerprint.Devices {
		pairs := of(d, "name", d.Name, "driver", d.Versions["driver"], "host", o.Meta.Fingerprint.Hostname, "run", o.Run, "version",
			o.Version)
		card.add(1, append(pairs, userLabels(o.Meta.Labels)...)...)
	}
}

// userLabels maps labels to valid Prometheus names: rack is label_rack. If names collide, later ones in key
// order get a number.
func userLabels(labels results.Labels) []string {
	var out []string
	seen := map[string]int{}
	for _, key := range labels.Keys() {
		name := "label_" + strings.Map(func(r rune) rune {
			if strings.ContainsRune("-./", r) {
				return '_'
			}
			return r
		}, key)
		if seen[name]++; seen[name] > 1 {
			// Keys have no capital letters, so no other label has this name.
			name = fmt.Sprintf("%s_N%d", name, seen[name])
		}
		out = append(out, name, labels[key])
	}
	return out
}

// audited adds the metrics of a run's verdict.
func audited(begin func(name, help string) family, of func(kernels.Spec, ...string) []string, o Outcome) {
	a := o.Audit.Whole()
	findings := begin("gemmaudit_findings", "Findings by rule and status.")
	loss := begin("gemmaudit_worst_loss_ratio", "Largest share of its time that a row of a rule's findings loses, waived ones left out.")
	stake := begin("gemmaudit_time_at_stake_seconds", "Time that a rule's findings lose, summed over rows, waived ones left out.")
	rows := begin("gemmaudit_rows", "Rows by verdict.")
	drift := begin("gemmaudit_drift_ratio", "Span of the sentinels' times over the run.")
	clock := begin("gemmaudit_reference_clock_hertz", "Clock for comparing times.")
	for _, d := range o.Meta.Fingerprint.Devices {
		mine := func(k results.SeriesKey) bool { return k.Device == d.ID }
		counts := map[rules.Rule]map[rules.Status]int{}
		worst, lost := map[rules.Rule]float64{}, map[rules.Rule]float64{}
		for _, f := range a.Findings {
			if !mine(f.Series) {
				continue
			}
			if counts[f.Rule] == nil {
				counts[f.Rule] = map[rules.Status]int{}
			}
			counts[f.Rule][f.Status]++
			if f.Status != rules.Waived {
				worst[f.Rule] = max(worst[f.Rule], f.Loss.Mid)
				lost[f.Rule] += f.StakeUS * 1e-6
			}
		}
		for _, r := range rules.AllRules() {
			for _, s := range []rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Waived} {
				findings.add(float64(counts[r][s]), of(d, "rule", string(r), "status", string(s))...)
			}
			loss.add(worst[r], of(d, "rule", string(r))...)
			stake.add(lost[r], of(d, "rule", string(r))...)
		}
		judged := map[rules.Verdict]int{}
		for _, s := range a.Series {
			if mine(s.Key) {
				for _, r := range s.Rows {
					judged[r.Verdict]++
				}
			}
		}
		for _, v := range []rules.Verdict{rules.Anomalous, rules.Clean, rules.Marginal, rules.Undecided} {
			rows.add(float64(judged[v]), of(d, "verdict", string(v))...)
		}
		if a.Drift > 0 {
			drift.add(a.Drift, of(d)...)
		}
		if mhz := a.Clocks[d.ID]; mhz > 0 {
			clock.add(mhz*1e6, of(d)...)
		}
	}
}

// checked adds the metrics of a check against a baseline.
func checked(begin func(name, help string) family, of func(kernels.Spec, ...string) []string, o Outcome) {
	verdict := begin("gemmaudit_check_verdict", "1 for the verdict on the card, 0 for the others.")
	slowdown := begin("gemmaudit_check_slowdown_ratio",
		"Time over the baseline's, 1 for as fast: at the common clock and in sustained time.")
	surely := begin("gemmaudit_check_slowdown_lower_bound_ratio", "Lower bound of the slowdown, at 95 % confidence.")
	cases := begin("gemmaudit_check_cases", "Cases that were compared with the baseline.")
	for _, d := range o.Meta.Fingerprint.Devices {
		c, ok := o.Checks[d.ID]
		if !ok {
			continue
		}
		for _, v := range []fleet.Verdict{fleet.Drain, fleet.Watch, fleet.Fine, fleet.Undecided, fleet.Unjudged} {
			verdict.add(flag(v == c.Verdict), of(d, "verdict", string(v))...)
		}
		for _, x := range []struct {
			time  string
			ratio stats.Interval
		}{{"common_clock", c.Common}, {"sustained", c.Sustained}} {
			if x.ratio.Mid > 0 {
				slowdown.add(x.ratio.Mid, of(d, "time", x.time)...)
				surely.add(x.ratio.Lo, of(d, "time", x.time)...)
			}
		}
		cases.add(float64(c.Cases), of(d)...)
	}
}

// seconds is a time in seconds since 1970, to the millisecond.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
