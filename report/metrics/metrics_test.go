package metrics

import (
	"bytes"
	goflag "flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

var update = goflag.Bool("update", false, "rewrite the stored metrics")

func outcome() Outcome {
	key := func(device string) results.SeriesKey {
		return results.SeriesKey{Device: device, Kernel: "cublas", Subject: kernels.Product(kernels.BF16, 4096, 4096)}
	}
	return Outcome{
		Command: "audit", Result: Failed, Finished: time.UnixMilli(1767323045250), Duration: 1500 * time.Millisecond, Version: "v1",
		Run: "aa",
		Meta: results.Meta{
			Created: time.Unix(1767320000, 0),
			Fingerprint: results.Fingerprint{Hostname: "node\"7\\\n", Devices: []kernels.Spec{
				{ID: "cuda:0", Name: "NVIDIA H200", UUID: "GPU-0", Versions: map[string]string{"driver": "580.1"}},
				{ID: "cuda:1", Name: "NVIDIA H200", UUID: "GPU-1"},
			}},
			Labels: results.Labels{"rack": "7", "a.b": "x", "a/b": "y", "a_b": "z"},
		},
		Audit: &rules.Audit{
			Drift: 0.012, Clocks: map[string]float64{"cuda:0": 1500},
			Series: []rules.SeriesAudit{
				{Key: key("cuda:0"), Rows: []rules.RowVerdict{{Verdict: rules.Anomalous}, {Verdict: rules.Clean}, {Verdict: rules.Clean}}},
				{Key: key("cuda:1"), Rows: []rules.RowVerdict{{Verdict: rules.Undecided}}},
			},
			Findings: []rules.Finding{
				{Rule: rules.Monotonic, Series: key("cuda:0"), Status: rules.Confirmed, Loss: stats.Interval{Mid: 0.25}, StakeUS: 1500},
				{Rule: rules.Monotonic, Series: key("cuda:0"), Status: rules.Confirmed, Loss: stats.Interval{Mid: 0.125}, StakeUS: 500},
				{Rule: rules.Monotonic, Series: key("cuda:0"), Status: rules.Waived, Loss: stats.Interval{Mid: 0.5}, StakeUS: 9e6},
			},
		},
		Checks: map[string]Check{
			"cuda:0": {Verdict: fleet.Drain, Cases: 12, Common: stats.Interval{Lo: 1.01, Mid: 1.02, Hi: 1.03},
				Sustained: stats.Interval{Lo: 1.03, Mid: 1.05, Hi: 1.07}},
			"cuda:1": {Verdict: fleet.Fine, Cases: 12, Common: stats.Interval{Lo: 0.99, Mid: 1, Hi: 1.01}},
		},
	}
}

func written(t *testing.T, o Outcome) (map[string]*dto.MetricFamily, string) {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, o); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(b.String()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	return found, b.String()
}

func value(t *testing.T, found map[string]*dto.MetricFamily, name string, pairs ...string) float64 {
	t.Helper()
	var values []float64
	for _, m := range found[name].GetMetric() {
		has := map[string]string{}
		for _, l := range m.Label {
			has[l.GetName()] = l.GetValue()
		}
		all := true
		for i := 0; i < len(pairs); i += 2 {
			all = all && has[pairs[i]] == pairs[i+1]
		}
		if all {
			values = append(values, m.GetGauge().GetValue())
		}
	}
	if len(values) != 1 {
		t.Errorf("%s%q: %d series, expected one", name, pairs, len(values))
		return 0
	}
	return values[0]
}

func TestWrite(t *testing.T) {
	found, text := written(t, outcome())
	for _, c := range []struct {
		want  float64
		name  string
		pairs []string
	}{
		{1, "gemmaudit_last_result", []string{"result", "failed", "uuid", "GPU-0"}},
		{0, "gemmaudit_last_result", []string{"result", "clean", "uuid", "GPU-1"}},
		{1767323045.25, "gemmaudit_last_finished_timestamp_seconds", []string{"device", "cuda:0"}},
		{1.5, "gemmaudit_last_duration_seconds", []string{"device", "cuda:1"}},
		{1767320000, "gemmaudit_run_created_timestamp_seconds", []string{"device", "cuda:1"}},
		{2, "gemmaudit_findings", []string{"device", "cuda:0", "rule", "monotonic", "status", "confirmed"}},
		{1, "gemmaudit_findings", []string{"device", "cuda:0", "rule", "monotonic", "status", "waived"}},
		{0, "gemmaudit_findings", []string{"device", "cuda:1", "rule", "monotonic", "status", "confirmed"}},
		{0, "gemmaudit_findings", []string{"device", "cuda:0", "rule", "roofline", "status", "confirmed"}},
		{0.25, "gemmaudit_worst_loss_ratio", []string{"device", "cuda:0", "rule", "monotonic"}},
		{0.002, "gemmaudit_time_at_stake_seconds", []string{"device", "cuda:0", "rule", "monotonic"}},
		{2, "gemmaudit_rows", []string{"device", "cuda:0", "verdict", "clean"}},
		{1, "gemmaudit_rows", []string{"device", "cuda:1", "verdict", "undecided"}},
		{0.012, "gemmaudit_drift_ratio", []string{"device", "cuda:0"}},
		{1.5e9, "gemmaudit_reference_clock_hertz", nil},
		{1.05, "gemmaudit_check_slowdown_ratio", []string{"device", "cuda:0", "time", "sustained"}},
		{1, "gemmaudit_check_slowdown_ratio", []string{"device", "cuda:1"}},
		{12, "gemmaudit_check_cases", []string{"device", "cuda:1"}},
		{1.03, "gemmaudit_check_slowdown_lower_bound_ratio", []string{"device", "cuda:0", "time", "sustained"}},
		{1, "gemmaudit_check_verdict", []string{"device", "cuda:0", "verdict", "drain"}},
		{0, "gemmaudit_check_verdict", []string{"device", "cuda:0", "verdict", "fine"}},
		{1, "gemmaudit_check_verdict", []string{"device", "cuda:1", "verdict", "fine"}},
		{1, "gemmaudit_card_info",
			[]string{"device", "cuda:0", "name", "NVIDIA H200", "driver", "580.1", "host", "node\"7\\\n", "run", "aa", "version", "v1",
				"label_rack", "7", "label_a_b", "x", "label_a_b_N2", "y", "label_a_b_N3", "z"}},
	} {
		if got := value(t, found, c.name, c.pairs...); got != c.want {
			t.Errorf("%s%q is %v, expected %v", c.name, c.pairs, got, c.want)
		}
	}
	// Files of several commands must not share a series.
	for name, f := range found {
		for _, m := range f.Metric {
			have := map[string]bool{}
			for _, l := range m.Label {
				have[l.GetName()] = true
			}
			for _, need := range []string{"command", "device", "uuid"} {
				if !have[need] {
					t.Errorf("%s has a series without the label %s", name, need)
				}
			}
		}
	}
	// scripts/clustertest checks alerts and dashboard against this file with Prometheus' code.
	const stored = "testdata/outcome.prom"
	if *update {
		if err := os.WriteFile(stored, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", stored, diff)
	}
}

// A command that found no device must still report how it ended.
func TestWriteOfNothing(t *testing.T) {
	found, text := written(t, Outcome{Command: "check", Result: Broken, Finished: time.Unix(1767323045, 0)})
	if got := value(t, found, "gemmaudit_last_result", "result", "broken"); got != 1 {
		t.Errorf("the result is %v:\n%s", got, text)
	}
	want := []string{"gemmaudit_last_duration_seconds", "gemmaudit_last_finished_timestamp_seconds", "gemmaudit_last_result"}
	if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, want) {
		t.Errorf("metrics %q, expected %q", names, want)
	}
	if strings.Contains(text, `=""`) {
		t.Errorf("an empty label in\n%s", text)
	}
}

// The documentation must have one line for each metric, and no other lines.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(gemmaudit_\\w+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	found, _ := written(t, outcome())
	for name := range found {
		if !documented[name] {
			t.Errorf("docs/fleet.md has no line for %s", name)
		}
	}
	for name := range documented {
		if found[name] == nil {
			t.Errorf("docs/fleet.md tells of %s, which is not written", name)
		}
	}
}
