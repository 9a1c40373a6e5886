package table_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/gemmaudit/gemmaudit/results/table"
)

// hostile is a text with the expected results of readers and docs/table.schema.json. The Python reader is
// tested with the same list.
type hostile struct {
	Name string
	// Base is the file to edit, by default table.json; Text replaces it.
	Base string
	Text *string
	// Edits are texts, their replacement for the first occurrence, and its repetitions (default: once).
	Edits [][]any
	// Readers accept it or refuse it.
	Readers string
	// Schema accepts it, refuses it, or does not take it for JSON; empty for earlier versions, which it does
	// not describe.
	Schema string
}

func (h hostile) text(t *testing.T) string {
	t.Helper()
	text := ""
	switch {
	case h.Text != nil:
		text = *h.Text
	default:
		if h.Base == "" {
			h.Base = "table.json"
		}
		data, err := os.ReadFile(filepath.Join("testdata", h.Base))
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
	}
	for _, e := range h.Edits {
		old, by, times := e[0].(string), e[1].(string), 1
		if len(e) > 2 {
			times = int(e[2].(float64))
		}
		if !strings.Contains(text, old) {
			t.Fatalf("%s: there is no %q to replace", h.Name, old)
		}
		text = strings.Replace(text, old, strings.Repeat(by, times), 1)
	}
	return text
}

func hostiles(t *testing.T) []hostile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "hostile.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []hostile
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestHostile(t *testing.T) {
	for _, h := range hostiles(t) {
		_, err := table.Parse([]byte(h.text(t)))
		got := map[bool]string{true: "accept", false: "refuse"}[err == nil]
		if got != h.Readers {
			t.Errorf("%s: %s, expected %s: %.200v", h.Name, got, h.Readers, err)
		}
		if err != nil && len(err.Error()) > 10000 {
			t.Errorf("%s: an error of %d bytes", h.Name, len(err.Error()))
		}
	}
}

// The schema must accept everything that readers accept.
func TestSchemaOfHostile(t *testing.T) {
	data, err := os.ReadFile("../../docs/table.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	s.ID = "" // names the format and is not an address
	schema, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hostiles(t) {
		if h.Base != "" {
			continue
		}
		var value any
		got := "accept"
		if err = json.Unmarshal([]byte(h.text(t)), &value); err != nil {
			got = "not JSON"
		} else if err = schema.Validate(value); err != nil {
			got = "refuse"
		}
		if got != h.Schema {
			t.Errorf("%s: %s, expected %s: %.200v", h.Name, got, h.Schema, err)
		}
		if h.Readers == "accept" && h.Schema != "accept" {
			t.Errorf("%s: readers are to accept what the schema is to %s", h.Name, h.Schema)
		}
	}
}

func TestTooManyBytes(t *testing.T) {
	if _, err := table.Parse(make([]byte, table.MaxBytes+1)); err == nil || !strings.Contains(err.Error(), "expected at most 268435456") {
		t.Error(err)
	}
}
