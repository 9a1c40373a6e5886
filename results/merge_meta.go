package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// MergeError names the first thing in which two runs differ though it must
// agree before they can be merged.
type MergeError struct {
	A, B string // the runs
	// Field is what differs: "seed", "plan.batches", "fingerprint.microcode".
	Field          string
	ValueA, ValueB string
	// Machine is set when the field belongs to the fingerprint, so that
	// [MergeOptions].DifferentMachines would allow it.
	Machine bool
}

func (e *MergeError) Error() string {
	return fmt.Sprintf("merge %s with %s: %s differs: %s and %s", e.A, e.B, e.Field, e.ValueA, e.ValueB)
}

// join checks that a further run may be merged with the first one, and adds
// what it knows.
func (m *merger) join(other Meta, path string, opt MergeOptions) error {
	conflict := &MergeError{A: m.inputs[0], B: path}
	for _, f := range []struct{ name, a, b string }{
		{"regime", string(m.meta.Regime), string(other.Regime)},
		{"distribution", string(m.meta.Distribution), string(other.Distribution)},
		{"seed", strconv.FormatUint(m.meta.Seed, 10), strconv.FormatUint(other.Seed, 10)},
	} {
		if f.a != f.b {
			conflict.Field, conflict.ValueA, conflict.ValueB = f.name, strconv.Quote(f.a), strconv.Quote(f.b)
			return conflict
		}
	}
	planA, err := decodePlan(m.meta.Plan)
	if err != nil {
		return badValue(m.inputs[0], "the plan", err)
	}
	planB, err := decodePlan(other.Plan)
	if err != nil {
		return badValue(path, "the plan", err)
	}
	if conflict.Field, conflict.ValueA, conflict.ValueB = differ("plan", planA, planB); conflict.Field != "" {
		return conflict
	}
	if !opt.DifferentMachines {
		a, err := decodeFingerprint(m.meta.Fingerprint)
		if err != nil {
			return fmt.Errorf("merge %s: %w", m.inputs[0], err)
		}
		b, err := decodeFingerprint(other.Fingerprint)
		if err != nil {
			return fmt.Errorf("merge %s: %w", path, err)
		}
		if conflict.Field, conflict.ValueA, conflict.ValueB = differ("fingerprint", a, b); conflict.Field != "" {
			conflict.Machine = true
			return conflict
		}
	}
	if other.Created.Before(m.meta.Created) {
		m.meta.Created = other.Created
	}
	if differing := m.meta.Labels.Differing(other.Labels); len(differing) > 0 {
		m.differing = append(m.differing, differing...)
	}
	m.meta.Labels = m.meta.Labels.common(other.Labels)
	m.meta.ReferenceClock = agreed(m.meta.ReferenceClock, other.ReferenceClock)
	m.meta.Ceilings = highest(m.meta.Ceilings, other.Ceilings)
	if planA != nil {
		if m.meta.Plan, err = json.Marshal(planA); err != nil {
			return fmt.Errorf("merge %s: %w", path, err)
		}
	}
	return nil
}

// decodePlan reads a plan with its numbers as they stand, without the shard.
func decodePlan(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var plan any
	if err := d.Decode(&plan); err != nil {
		return nil, err
	}
	if object, ok := plan.(map[string]any); ok {
		delete(object, "shard")
	}
	return plan, nil
}

func decodeFingerprint(f Fingerprint) (any, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return decodePlan(b)
}

// differ finds the first difference between two JSON values, in order of the
// names, and words both sides; the field is empty when there is none.
func differ(field string, a, b any) (where, valueA, valueB string) {
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				if where, valueA, valueB = differ(field+"."+name, a[name], b[name]); where != "" {
					return where, valueA, valueB
				}
			}
			return "", "", ""
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				if where, valueA, valueB = differ(fmt.Sprintf("%s[%d]", field, i), a[i], b[i]); where != "" {
					return where, valueA, valueB
				}
			}
			return "", "", ""
		}
	default:
		// Whatever is left is a word, a number or nothing, which compare as they are.
		switch b.(type) {
		case map[string]any, []any:
		default:
			if a == b {
				return "", "", ""
			}
		}
	}
	return field, briefly(a), briefly(b)
}

// briefly words a JSON value for an error.
func briefly(v any) string {
	if v == nil {
		return "nothing"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	const enough = 80
	if len(b) > enough {
		return string(bytes.ToValidUTF8(b[:enough], nil)) + "…"
	}
	return string(b)
}

// agreed joins reference clocks. A device of which the runs disagree has none: who
// judges the merged run chooses one for all of it.
func agreed(a, b map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, clocks := range []map[string]float64{a, b} {
		for device, mhz := range clocks {
			if x, ok := a[device]; ok && x != mhz {
				continue
			}
			if x, ok := b[device]; ok && x != mhz {
				continue
			}
			out[device] = mhz
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// highest joins ceilings: a ceiling is the most that a device was seen to do.
func highest(a, b map[string]kernels.Ceilings) map[string]kernels.Ceilings {
	out := maps.Clone(a)
	if out == nil && len(b) > 0 {
		out = map[string]kernels.Ceilings{}
	}
	for device, more := range b {
		c := out[device]
		c.Peaks = slices.Clone(c.Peaks)
		has, brings := c.ReadBandwidth > 0 || c.CopyBandwidth > 0, more.ReadBandwidth > 0 || more.CopyBandwidth > 0
		switch {
		// A measurement comes before a data sheet.
		case brings && (!has || c.BandwidthOrigin != "" && more.BandwidthOrigin == ""):
			c.ReadBandwidth, c.CopyBandwidth, c.BandwidthOrigin = more.ReadBandwidth, more.CopyBandwidth, more.BandwidthOrigin
		case c.BandwidthOrigin == more.BandwidthOrigin:
			c.ReadBandwidth = max(c.ReadBandwidth, more.ReadBandwidth)
			c.CopyBandwidth = max(c.CopyBandwidth, more.CopyBandwidth)
		}
		c.LinkBandwidth = max(c.LinkBandwidth, more.LinkBandwidth)
		for _, p := range more.Peaks {
			i := slices.IndexFunc(c.Peaks, func(q kernels.Peak) bool { return q.DType == p.DType && q.Origin == p.Origin })
			switch {
			case i < 0:
				c.Peaks = append(c.Peaks, p)
			case p.FLOPS > c.Peaks[i].FLOPS:
				c.Peaks[i] = p
			}
		}
		out[device] = c
	}
	return out
}

// mergeStates keeps the state on which all runs agree. The rest tells of one sweep
// alone: how it drifted, how busy it was, what was confirmed on its samples.
func mergeStates(states []map[string]string) map[string]string {
	out := map[string]string{}
	for _, state := range states {
		for key, value := range state {
			agree := !slices.ContainsFunc(states, func(other map[string]string) bool {
				v, ok := other[key]
				return !ok || v != value
			})
			switch {
			case key == "faults": // by the ids that cases have in one run
			case agree:
				out[key] = value
			case key == "status":
				out[key] = "interrupted"
			}
		}
	}
	return out
}
