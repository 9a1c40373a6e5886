package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage is what a run was asked to measure, and what it holds of that. Verdicts of all commands take it into account: nothing
// that failed or is missing passes in silence.
type Coverage struct {
	// Asked counts the cases that the run was asked for: those of its plan, and those that it holds beside. A run without a plan, as
	// of an import, was asked for what it holds. Of an inferred series it counts the cases that were measured, or all where none was.
	Asked int `json:"asked"`
	// Held counts the cases with a sample of the sweep.
	Held int `json:"held"`
	// Failed counts the cases that have a failure and no sample, and Partly those with samples in some rounds and failures in
	// others. The first of each says why.
	Failed      int    `json:"failed,omitempty"`
	FirstFailed string `json:"first_failed,omitempty"`
	Partly      int    `json:"partly_failed,omitempty"`
	FirstPartly string `json:"first_partly_failed,omitempty"`
	// Missing counts the cases that the plan asks for and that have neither; FirstMissing names one.
	Missing      int    `json:"missing,omitempty"`
	FirstMissing string `json:"first_missing,omitempty"`
	// Mixed lists the devices whose samples come from several machines.
	Mixed []MixedDevice `json:"mixed,omitempty"`
}

// MixedDevice is a device of a run whose samples several machines measured.
type MixedDevice struct {
	Device string `json:"device"`
	// Parts are the machines, the one with most samples first.
	Parts []MixedPart `json:"parts"`
}

// MixedPart is what one machine measured of a device. Name is the card's UUID where it is known, else the host's name.
type MixedPart struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// String is "cpu: 36 samples of a, 20 of b".
func (d MixedDevice) String() string {
	words := make([]string, len(d.Parts))
	for i, p := range d.Parts {
		words[i] = fmt.Sprintf("%d of %s", p.Samples, p.Name)
	}
	words[0] = strings.Replace(words[0], " of", " samples of", 1)
	return d.Device + ": " + briefWords(words)
}

// Coverage counts what the run holds of the cases that it was asked for. asked are the series of its plan, of which a shard has a
// part; nil of a run without one.
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
			continue // which of its Ms are measured follows from the others
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

// caseReason is a reason with the case's name ahead.
func caseReason(c Case, reason string) string {
	name := c.String() + ": "
	return name + strings.TrimPrefix(reason, name)
}

// mixed lists the devices with samples of several machines. A card is the same one wherever it is, as a container's host has
// another name at each start; without a card the host tells machines apart. What is not known differs from nothing.
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
