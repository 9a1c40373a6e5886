package merge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/results"
)

// Error names the first difference that prevents a merge.
type Error struct {
	A, B string // the runs
	// Field is what differs: "seed", "plan.batches", "fingerprint.microcode".
	Field          string
	ValueA, ValueB string
	// Machine is set for fingerprint fields, which [Options].DifferentMachines allows to differ.
	Machine bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("merge %s with %s: %s differs: %s and %s", e.A, e.B, e.Field, e.ValueA, e.ValueB)
}

func (m *merger) join(other results.Meta, path string, opt Options) error {
	conflict := &Error{A: m.inputs[0], B: path}
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
		return results.BadValue(m.inputs[0], "the plan", err)
	}
	planB, err := decodePlan(other.Plan)
	if err != nil {
		return results.BadValue(path, "the plan", err)
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
	m.meta.Labels = m.meta.Labels.Common(other.Labels)
	m.meta.ReferenceClock = agreed(m.meta.ReferenceClock, other.ReferenceClock)
	m.meta.Ceilings = results.HighestCeilings(m.meta.Ceilings, other.Ceilings)
	if planA != nil {
		if m.meta.Plan, err = json.Marshal(planA); err != nil {
			return fmt.Errorf("merge %s: %w", path, err)
		}
	}
	return nil
}

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

func decodeFingerprint(f results.Fingerprint) (any, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	return decodePlan(b)
}

// differ returns the first difference of two JSON values in name order, with both sides as text; where is
// empty if they are equal.
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
		// The rest are strings, numbers or null, which compare directly.
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

// agreed joins reference clocks. A device with different clocks gets none; later analysis chooses one for the
// merged run.
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

// mergeStates keeps the state shared by all runs. The rest describes single sweeps: drift, efficiency,
// confirmations.
func mergeStates(states []map[string]string) map[string]string {
	out := map[string]string{}
	for _, state := range states {
		for key, value := range state {
			agree := !slices.ContainsFunc(states, func(other map[string]string) bool {
				v, ok := other[key]
				return !ok || v != value
			})
			switch {
			case key == "faults": // by the case ids of one run
			case agree:
				out[key] = value
			case key == "status":
				out[key] = "interrupted"
			}
		}
	}
	return out
}
