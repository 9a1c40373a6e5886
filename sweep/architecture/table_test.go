package architecture

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTable: formulas are understood, groups are there, and each part that the checkpoint holds apart
// is a part of its own.
func TestTable(t *testing.T) {
	table, err := known()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range table.Kinds {
		for name := range k.Types {
			m, err := build(table, k, name, true, map[string]any{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := m.read(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, p := range m.parts {
				if (p.Of == "") == (len(p.Fuses) == 0) {
					t.Errorf("%s:%s: of %q and fuses %q: expected one of them", name, p.Name, p.Of, p.Fuses)
				}
				for _, f := range p.Fuses {
					if !slices.Contains(m.Parts(), f) {
						t.Errorf("%s:%s fuses %s, which is no part", name, p.Name, f)
					}
				}
			}
		}
		if len(k.Parts) == 0 && len(k.Text) == 0 {
			t.Errorf("%v has neither parts nor a field for the language model", k.Types)
		}
	}
}

// TestHarmlessIsNotRead: a field that is read and listed as harmless is in one list too many.
func TestHarmlessIsNotRead(t *testing.T) {
	table, err := known()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range table.Kinds {
		m, err := build(table, k, "", true, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		read, err := m.read()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range k.Harmless {
			if slices.Contains(table.Harmless, name) {
				t.Errorf("%v: %s is harmless everywhere", k.Types, name)
			}
			if read[name] && len(k.Parts) > 0 {
				t.Errorf("%v: %s is read", k.Types, name)
			}
		}
	}
}

// TestPage: docs/tour.md names every type that is known, and no other.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Models\n")
	section, _, _ = strings.Cut(section, "\n## ")
	known, err := Types()
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, line := range strings.Split(section, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for i, word := range strings.Split(cells[2], "`") {
			if i%2 == 1 && word != "model_type" && word == strings.ToLower(word) {
				named = append(named, word)
			}
		}
	}
	for _, name := range known {
		if !slices.Contains(named, name) {
			t.Errorf("docs/tour.md does not name %s", name)
		}
	}
	for _, name := range named {
		if !slices.Contains(known, name) {
			t.Errorf("docs/tour.md names %s, which is unknown", name)
		}
	}
}
