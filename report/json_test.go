package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type jsonRecord struct {
	Name string   `json:"name"`
	V    float64  `json:"v,omitempty"`
	Few  []int    `json:"few"`
	Any  any      `json:"any,omitempty"`
	Sub  *jsonSub `json:"sub,omitempty"`
}

type jsonSub struct {
	Lists  []jsonRecord `json:"lists,omitempty"`
	Zero   jsonRecord   `json:"zero,omitzero"`
	When   time.Time    `json:"when,omitzero"`
	hidden int
	Left   string `json:"-"`
	Plain  []stats.Interval
}

type jsonNested struct {
	Subs  []jsonSub          `json:"subs"`
	Map   map[string]float64 `json:"map,omitempty"`
	Ptr   *jsonSub           `json:"ptr"`
	Text  string             `json:"text"`
	Times []time.Time        `json:"times"`
}

type jsonEmbedded struct {
	jsonRecord
	List []jsonRecord `json:"list"`
}

// Output must equal encoding/json's.
func TestWriteJSON(t *testing.T) {
	many := make([]jsonRecord, 3*256+1)
	for i := range many {
		many[i] = jsonRecord{Name: fmt.Sprint("<", i, ">\u2028"), V: float64(i) / 3, Sub: &jsonSub{hidden: i}}
	}
	values := map[string]any{
		"nil":         nil,
		"number":      7,
		"nil pointer": (*jsonSub)(nil),
		"empty":       &jsonSub{},
		"nothing": struct {
			Lists []jsonRecord `json:"lists,omitempty"`
		}{},
		"list":        many,
		"no elements": []jsonRecord{},
		"times":       []time.Time{time.Unix(1, 0).UTC()},
		"embedded":    jsonEmbedded{jsonRecord{Name: "a"}, many[:2]},
		"nested": jsonNested{
			Subs: []jsonSub{{Lists: many[:256], Left: "x"}, {}, {When: time.Unix(5, 0).UTC(), Plain: []stats.Interval{{Lo: 1}}}},
			Map:  map[string]float64{"b": 1, "a": 2}, Ptr: &jsonSub{Lists: many}, Text: "a\"b", Times: []time.Time{time.Unix(2, 0).UTC()},
		},
		"audit": &rules.Audit{Series: []rules.SeriesAudit{{Key: results.SeriesKey{Device: "cpu"},
			Rows: make([]rules.RowVerdict, 256+5)}}, Findings: []rules.Finding{}},
	}
	for name, v := range values {
		t.Run(name, func(t *testing.T) { sameJSON(t, v) })
	}
}

func sameJSON(t interface{ Fatalf(string, ...any) }, v any) {
	var want, got bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	wanted, gave := enc.Encode(v), writeJSON(&got, v)
	if wanted != nil || gave != nil {
		t.Fatalf("errors %v and %v", wanted, gave)
	}
	if !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Fatalf("got:\n%s\nwant:\n%s", got.Bytes(), want.Bytes())
	}
}

func TestWriteJSONProperty(t *testing.T) {
	record := rapid.Custom(func(t *rapid.T) jsonRecord {
		return jsonRecord{Name: rapid.String().Draw(t, "name"), V: rapid.Float64Range(-1e9, 1e9).Draw(t, "v"),
			Few: rapid.SliceOfN(rapid.Int(), 0, 3).Draw(t, "few")}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := func(label string) []jsonRecord { return rapid.SliceOfN(record, 0, 3).Draw(t, label) }
		sameJSON(t,
			jsonNested{Subs: []jsonSub{{Lists: list("a")}, {Lists: list("b"), Zero: jsonRecord{Name: rapid.String().Draw(t, "zero")}}},
				Ptr: &jsonSub{Lists: list("c")}})
	})
}

// Values that cannot be encoded must return an error at any depth.
func TestWriteJSONErrors(t *testing.T) {
	many := make([]jsonRecord, 2*256)
	many[len(many)-1].V = math.NaN()
	if err := writeJSON(io.Discard, jsonSub{Lists: many}); err == nil {
		t.Error("NaN was written")
	}
	full := fmt.Errorf("full")
	if err := writeJSON(failing{full}, jsonSub{Lists: many[:5]}); err != full {
		t.Errorf("got %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
