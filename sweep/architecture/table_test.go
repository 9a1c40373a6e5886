package architecture

import (
	"slices"
	"testing"
)

// Formulas are valid, groups exist, and each separate matrix of the checkpoint is a part.
func TestTable(t *testing.T) {
	table, err := known()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range table.Kinds {
		for name := range k.Types {
			m := build(table, k, name, true, map[string]any{})
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

func TestHarmlessIsNotRead(t *testing.T) {
	table, err := known()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range table.Kinds {
		read := build(table, k, "", true, map[string]any{}).read()
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
