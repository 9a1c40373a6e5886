package rules

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// inferredMs lists the Ms of the series of a run's plan of which not every M has to be measured.
// A run without a plan has none.
func inferredMs(plan json.RawMessage) (map[results.SeriesKey][]int, error) {
	if len(plan) == 0 {
		return nil, nil
	}
	var p struct {
		Series []struct {
			results.SeriesKey
			Ms    string `json:"ms"`
			Infer bool   `json:"infer"`
		} `json:"series"`
	}
	if err := json.Unmarshal(plan, &p); err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	var out map[results.SeriesKey][]int
	for _, s := range p.Series {
		if !s.Infer {
			continue
		}
		ms, err := readGrid(s.Ms)
		if err != nil {
			return nil, fmt.Errorf("plan: series %v: %w", s.SeriesKey, err)
		}
		if out == nil {
			out = map[results.SeriesKey][]int{}
		}
		out[s.SeriesKey] = ms
	}
	return out, nil
}

// mostAsked bounds the Ms of a series.
const mostAsked = 1 << 22

// readGrid reads the Ms of a series as plans store them: ascending numbers and ranges
// from:to and from:to:step, separated by commas.
func readGrid(s string) ([]int, error) {
	var out []int
	if s == "" {
		return nil, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		bounds := [3]int{0, 0, 1}
		fields := strings.Split(item, ":")
		if len(fields) > len(bounds) {
			return nil, fmt.Errorf("grid %.40q: %q is no range", s, item)
		}
		for i, f := range fields {
			n, err := strconv.Atoi(f)
			if err != nil || n < 1 || n > mostAsked {
				return nil, fmt.Errorf("grid %.40q: %q is not a number from 1 to %d", s, f, mostAsked)
			}
			bounds[i] = n
		}
		if len(fields) == 1 {
			bounds[1] = bounds[0]
		}
		for m := bounds[0]; m <= bounds[1]; m += bounds[2] {
			if len(out) > 0 && m <= out[len(out)-1] {
				return nil, fmt.Errorf("grid %.40q does not ascend at %d", s, m)
			}
			out = append(out, m)
		}
	}
	return out, nil
}
