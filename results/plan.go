package results

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxM bounds an M that is planned.
	MaxM = 1 << 22
	// MaxMs bounds the Ms of one series of a plan.
	MaxMs = 1 << 17
)

// Ms are the Ms of a series, ascending, each once. In JSON they are written as [Ms.String]
// does, which for regular ones is a few characters.
type Ms []int

// PlannedSeries is a curve over M of the plan that a run holds: see [Meta].Plan.
type PlannedSeries struct {
	SeriesKey
	// Name says which weight matrix it is, "llama3-8b:o_proj"; empty for a bare shape.
	Name string `json:"name,omitempty"`
	// Model is the model that it is of; empty for a bare shape.
	Model string `json:"model,omitempty"`
	// Ms may be shared with other series, and are not changed.
	Ms Ms `json:"ms"`
	// Infer says that not every M has to be measured: some are chosen, and the others follow
	// from them.
	Infer bool `json:"infer,omitempty"`
}

// UnmarshalJSON reads a series, also of a plan that was written when the model was no field.
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

// modelOfOldPlan is the model in a name such as "llama3-8b:o_proj".
func modelOfOldPlan(name string) string {
	model, _, ok := strings.Cut(name, ":")
	if !ok {
		return ""
	}
	return model
}

// Case is the series' product with m rows.
func (s PlannedSeries) Case(m int) Case { return Case{SeriesKey: s.SeriesKey, M: m} }

// Inferred lists the Ms of those of the series of which not every M has to be measured; nil
// where there are none.
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

// Planned is what a plan says to those who read a run and do not go on with it.
type Planned struct {
	Series []PlannedSeries `json:"series"`
	// Screening rounds cover every case, Rounds is the most that a case gets.
	Screening int `json:"screening"`
	Rounds    int `json:"rounds"`
	// Traffic is what was known of how often each M is computed.
	Traffic Traffic `json:"traffic,omitempty"`
}

// Planned reads the run's plan; the zero value where the run has none.
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

// Has says whether m is one of them.
func (ms Ms) Has(m int) bool {
	_, ok := slices.BinarySearch(ms, m)
	return ok
}

// String writes the Ms in their shortest regular form: runs of three and more at equal
// distance as ranges from:to and from:to:step, the others as they are, with commas between.
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

// MarshalJSON writes the Ms as one string.
func (ms Ms) MarshalJSON() ([]byte, error) { return json.Marshal(ms.String()) }

// UnmarshalJSON reads what [Ms.MarshalJSON] writes. The string may be empty, because a shard of
// a plan may leave nothing of a series.
func (ms *Ms) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("ms: %w", err)
	}
	got, err := parseMs(s)
	*ms = got
	return err
}

// parseMs reads what [Ms.String] writes.
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

// eachRange gives the ranges of s, as [Ms.String] writes them, to each.
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
