package results

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A small text must not decode to much memory.
func TestTextOutOfProportion(t *testing.T) {
	const length = 3 << 20
	many := func(s string) string { return "[" + strings.Repeat(s+",", length/(len(s)+1)) + s + "]" }
	for name, plan := range map[string]string{
		"empty series":           `{"series":` + many("{}") + `}`,
		"no series":              `{"series":` + many("null") + `}`,
		"empty among words":      `{"notes":["{}\"{}"],"series":` + many(" { } ") + `}`,
		"long ranges":            `{"series":` + many(`{"device":"cpu","kernel":"tiled","ms":"1:131072"}`) + `}`,
		"series that come twice": `{"series":` + many(`{"device":"cpu","kernel":"tiled","ms":"1:131072"}`) + `,"series":[]}`,
		"Ms that come twice":     `{"series":[{` + strings.Repeat(`"ms":"1:131072",`, length/16) + `"ms":"1"}]}`,
		"long ranges in parts":   `{"series":` + many(`{"device":"cpu","kernel":"tiled","ms":"1:65536,65537:131072"}`) + `}`,
	} {
		var err error
		if got := allocated(func() { _, err = Meta{Plan: json.RawMessage(plan)}.Planned() }); err == nil || got > 12*length {
			t.Errorf("%s: %d bytes allocated for %d, error %v; expected a refusal", name, got, len(plan), err)
		}
	}
	var m Meta
	for _, f := range metaFields {
		if f.key != "fingerprint" && f.key != "ceilings" {
			continue
		}
		text := `{"devices":` + many("{}") + `,"cpu":{"peaks":` + many("{}") + `}}`
		var err error
		if got := allocated(func() { err = f.read(&m, text) }); err == nil || got > 4*length {
			t.Errorf("%s: %d bytes allocated for %d, error %v; expected a refusal", f.key, got, len(text), err)
		}
	}
}

// Real runs must be far below the limit.
func TestTextInProportion(t *testing.T) {
	for _, text := range []string{`{}`, `[{},{},null]`, "", `{"a":null,"b":[null]}`, `not JSON {`,
		"[" + strings.Repeat(`{"m":1,"weight":1},`, 1<<16) + `{"m":1,"weight":1}]`,
		`"` + strings.Repeat("{", 1<<16) + `"`} {
		if err := CheckJSON(text); err != nil {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

// A plan with ranges must take little memory, whatever the ranges.
func TestPlanOfManyRanges(t *testing.T) {
	series := strings.Repeat(`{"device":"cpu","kernel":"blas","dtype":"fp32","ms":"1:131072"},`, 255)
	m := Meta{Plan: []byte(`{"series":[` + strings.TrimSuffix(series, ",") + `]}`)}
	var err error
	if got := allocated(func() { _, err = m.Planned() }); err == nil || got > 16<<20 {
		t.Errorf("%d bytes allocated for a plan of %d, error %v; expected a refusal", got, len(m.Plan), err)
	}
}
