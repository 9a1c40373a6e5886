package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const (
	// MaxM is the largest M of a plan.
	MaxM = 1 << 22
	// MaxMs is the largest number of Ms in a plan's series.
	MaxMs = 1 << 17
)

// Ms are a series' distinct Ms, ascending. JSON has the form of [Ms.String], which is short for regular Ms.
type Ms []int

// PlannedSeries is a curve over M in a run's plan: see [Meta].Plan.
type PlannedSeries struct {
	SeriesKey
	// Name is the weight matrix, "llama3-8b:o_proj"; empty for a bare shape.
	Name string `json:"name,omitempty"`
	// Model is its model; empty for a bare shape.
	Model string `json:"model,omitempty"`
	// Ms may be shared with other series and must not be changed.
	Ms Ms `json:"ms"`
	// Infer means that only some Ms are measured and the others are interpolated.
	Infer bool `json:"infer,omitempty"`
}

// UnmarshalJSON also reads plans without the field model.
func (s *PlannedSeries) UnmarshalJSON(data []byte) error {
	type plain PlannedSeries
	if err := json.Unmarshal(data, (*plain)(s)); err != nil {
		return err
	}
	if s.Model == "" {
		s.Model = modelOfOldPlan(s.Name)
	}
	return nil
}

// modelOfOldPlan returns the model in a name such as "llama3-8b:o_proj".
func modelOfOldPlan(name string) string {
	model, _, ok := strings.Cut(name, ":")
	if !ok {
		return ""
	}
	return model
}

// Case returns the series' product with m rows.
func (s PlannedSeries) Case(m int) Case { return Case{SeriesKey: s.SeriesKey, M: m} }

// Inferred lists the Ms of the inferred series; nil if there are none.
func Inferred(series []PlannedSeries) map[SeriesKey][]int {
	var out map[SeriesKey][]int
	for _, s := range series {
		if s.Infer {
			if out == nil {
				out = map[SeriesKey][]int{}
			}
			out[s.SeriesKey] = s.Ms
		}
	}
	return out
}

// Planned is the part of a plan for readers that don't continue the run.
type Planned struct {
	Series []PlannedSeries `json:"series"`
	// Screening rounds cover every case; Rounds is the maximum per case.
	Screening int `json:"screening"`
	Rounds    int `json:"rounds"`
	// Traffic is how often each M is computed, if known.
	Traffic Traffic `json:"traffic,omitempty"`
	// Recorded is the plan's recorded workload, if any.
	Recorded Recorded `json:"recorded,omitempty"`
	// Routings are the recorded routings of grouped products; reading the plan registers them.
	Routings []kernels.RecordedRouting `json:"routings,omitempty"`
	// Cut is what a deadline took from the request; nil if nothing.
	Cut *Cut `json:"cut,omitempty"`
}

// registerRoutings makes the plan's recorded routings known, so that dimensions can name them by their hashes.
func (m Meta) registerRoutings() error {
	if !bytes.Contains(m.Plan, []byte(`"routings"`)) { // a plan may be large
		return nil
	}
	var plan struct {
		Routings []kernels.RecordedRouting `json:"routings"`
	}
	if err := json.Unmarshal(m.Plan, &plan); err != nil {
		return nil // whoever reads the plan says so
	}
	for i, r := range plan.Routings {
		if _, err := r.Register(); err != nil {
			return fmt.Errorf("plan: recorded routing %d: %w", i, err)
		}
	}
	return nil
}

// Planned reads the run's plan; the zero value without one.
func (m Meta) Planned() (Planned, error) {
	var p Planned
	if len(m.Plan) == 0 {
		return p, nil
	}
	if err := CheckPlan(m.Plan); err != nil {
		return Planned{}, fmt.Errorf("plan: %w", err)
	}
	if err := json.Unmarshal(m.Plan, &p); err != nil {
		return Planned{}, fmt.Errorf("plan: %w", err)
	}
	return p, nil
}

// Has reports whether m is one of them.
func (ms Ms) Has(m int) bool {
	_, ok := slices.BinarySearch(ms, m)
	return ok
}

// String returns the Ms in their shortest form: three or more at equal distance as ranges from:to and
// from:to:step, comma-separated.
func (ms Ms) String() string {
	var items []string
	for i := 0; i < len(ms); {
		j := i + 1
		for j+1 < len(ms) && ms[j+1]-ms[j] == ms[j]-ms[j-1] {
			j++
		}
		if j < len(ms) && j-i >= 2 {
			item := fmt.Sprintf("%d:%d", ms[i], ms[j])
			if step := ms[i+1] - ms[i]; step != 1 {
				item += ":" + strconv.Itoa(step)
			}
			items = append(items, item)
			i = j + 1
			continue
		}
		items = append(items, strconv.Itoa(ms[i]))
		i++
	}
	return strings.Join(items, ",")
}

// MarshalJSON writes the Ms as a string.
func (ms Ms) MarshalJSON() ([]byte, error) { return json.Marshal(ms.String()) }

// UnmarshalJSON reads [Ms.MarshalJSON]'s output. The string may be empty: a shard may have no Ms of a series.
func (ms *Ms) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("ms: %w", err)
	}
	got, err := parseMs(s)
	*ms = got
	return err
}

// parseMs reads [Ms.String]'s output.
func parseMs(s string) (Ms, error) {
	var out Ms
	err := eachRange(s, func(from, to, step int) error {
		if len(out) > 0 && from <= out[len(out)-1] {
			return fmt.Errorf("ms %.40q: they do not ascend at %d", s, from)
		}
		n := (to-from)/step + 1
		if n > MaxMs-len(out) {
			return fmt.Errorf("ms %.40q: there are more than %d", s, MaxMs)
		}
		out = slices.Grow(out, n)
		for m := from; m <= to; m += step {
			out = append(out, m)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// eachRange passes the ranges in s, in the form of [Ms.String], to each.
func eachRange(s string, each func(from, to, step int) error) error {
	if s == "" {
		return nil
	}
	for item := range strings.SplitSeq(s, ",") {
		bounds := [3]int{0, 0, 1}
		fields := strings.Split(item, ":")
		if len(fields) > len(bounds) {
			return fmt.Errorf("ms %.40q: %.40q is no range", s, item)
		}
		for i, f := range fields {
			n, err := strconv.Atoi(f)
			if err != nil || n < 1 || n > MaxM {
				return fmt.Errorf("ms %.40q: %.40q is not a number from 1 to %d", s, f, MaxM)
			}
			bounds[i] = n
		}
		if len(fields) == 1 {
			bounds[1] = bounds[0]
		}
		if bounds[0] > bounds[1] {
			return fmt.Errorf("ms %.40q: they do not ascend at %.40q", s, item)
		}
		if err := each(bounds[0], bounds[1], bounds[2]); err != nil {
			return err
		}
	}
	return nil
}
