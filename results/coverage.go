package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage compares what a run was asked to measure with what it holds. All commands use it, so that failed
// or missing cases are reported.
type Coverage struct {
	// Asked counts the requested cases: the plan's, and any others in the run. A run without a plan, such as
	// an import, was asked for what it holds. An inferred series counts its measured cases, or all if there
	// are none.
	Asked int `json:"asked"`
	// Held counts the cases with a sweep sample.
	Held int `json:"held"`
	// Failed counts cases with failures only, Partly those with samples in some rounds and failures in
	// others. The first of each gives a reason.
	Failed      int    `json:"failed,omitempty"`
	FirstFailed string `json:"first_failed,omitempty"`
	Partly      int    `json:"partly_failed,omitempty"`
	FirstPartly string `json:"first_partly_failed,omitempty"`
	// Missing counts planned cases with neither sample nor failure; FirstMissing names one.
	Missing      int    `json:"missing,omitempty"`
	FirstMissing string `json:"first_missing,omitempty"`
	// Cut is what a deadline took from the request, which Asked does not count; nil if nothing.
	Cut *Cut `json:"cut,omitempty"`
	// Mixed lists devices with samples from several machines.
	Mixed []MixedDevice `json:"mixed,omitempty"`
}

// MixedDevice is a device with samples from several machines.
type MixedDevice struct {
	Device string `json:"device"`
	// Parts are the machines, the one with most samples first.
	Parts []MixedPart `json:"parts"`
}

// MixedPart is one machine's share of a device. Name is the card's UUID if known, else the host's name.
type MixedPart struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// String returns "cpu: 36 samples of a, 20 of b".
func (d MixedDevice) String() string {
	words := make([]string, len(d.Parts))
	for i, p := range d.Parts {
		words[i] = fmt.Sprintf("%d of %s", p.Samples, p.Name)
	}
	words[0] = strings.Replace(words[0], " of", " samples of", 1)
	return d.Device + ": " + BriefWords(words)
}

// Coverage counts what the run holds of the requested cases. asked is its plan's series (a shard has part of
// them), or nil without a plan.
func (r *Run) Coverage(asked []PlannedSeries) (Coverage, error) {
	loaded, err := r.Load()
	if err != nil {
		return Coverage{}, err
	}
	r.records.Lock()
	failures, taken := r.counted.failures, maps.Clone(r.counted.taken)
	r.records.Unlock()
	reasons := map[int64]string{}
	for _, f := range failures {
		if reasons[f.CaseID] == "" {
			reasons[f.CaseID] = cmp.Or(f.Reason, "it failed")
		}
	}
	type key struct {
		series SeriesKey
		m      int
	}
	var c Coverage
	held, begun := map[key]bool{}, map[SeriesKey]bool{}
	for _, s := range loaded.Series {
		begun[s.Key] = true
		for i := range s.Rows {
			row := &s.Rows[i]
			held[key{s.Key, row.Case.M}] = true
			c.Asked++
			reason := reasons[row.Case.ID]
			if len(row.Samples) > 0 {
				c.Held++
			}
			switch {
			case reason == "":
			case len(row.Samples) == 0:
				c.Failed++
				c.FirstFailed = cmp.Or(c.FirstFailed, caseReason(row.Case, reason))
			default:
				c.Partly++
				c.FirstPartly = cmp.Or(c.FirstPartly, caseReason(row.Case, reason))
			}
		}
	}
	for _, s := range asked {
		if s.Infer && begun[s.SeriesKey] {
			continue // which of its Ms are measured depends on the others
		}
		for _, m := range s.Ms {
			if !held[key{s.SeriesKey, m}] {
				c.Asked++
				c.Missing++
				c.FirstMissing = cmp.Or(c.FirstMissing, s.Case(m).String())
			}
		}
	}
	c.Mixed, err = r.mixed(taken)
	return c, err
}

func caseReason(c Case, reason string) string {
	name := c.String() + ": "
	return name + strings.TrimPrefix(reason, name)
}

// mixed lists devices with samples from several machines. UUIDs identify cards, since a container's host name
// changes with each start; otherwise hosts identify machines. Unknown equals anything.
func (r *Run) mixed(taken map[source]int) ([]MixedDevice, error) {
	devices := map[string]map[int64]int{}
	several := false
	for from, n := range taken {
		if devices[from.device] == nil {
			devices[from.device] = map[int64]int{}
		}
		devices[from.device][from.origin] += n
		several = several || len(devices[from.device]) > 1
	}
	if !several {
		return nil, nil
	}
	origins, err := r.Origins()
	if err != nil {
		return nil, err
	}
	var out []MixedDevice
	for device, counts := range devices {
		parts := map[string]int{}
		for _, o := range origins {
			if name := cmp.Or(o.Card, o.Host); name != "" && counts[o.ID] > 0 {
				parts[name] += counts[o.ID]
			}
		}
		if len(parts) < 2 {
			continue
		}
		d := MixedDevice{Device: device}
		for name, n := range parts {
			d.Parts = append(d.Parts, MixedPart{name, n})
		}
		slices.SortFunc(d.Parts, func(a, b MixedPart) int {
			return cmp.Or(cmp.Compare(b.Samples, a.Samples), strings.Compare(a.Name, b.Name))
		})
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b MixedDevice) int { return strings.Compare(a.Device, b.Device) })
	return out, nil
}

// mostNamed is the number of values that a warning lists.
const mostNamed = 8

// BriefWords joins words, only the first ones of many.
func BriefWords(words []string) string {
	if more := len(words) - mostNamed; more > 0 {
		return strings.Join(words[:mostNamed], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}
