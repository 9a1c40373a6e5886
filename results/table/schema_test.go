package table

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Each object of docs/table.schema.json must have its type's fields, of the same kinds.
func TestSchemaDescribesTheFields(t *testing.T) {
	text, err := os.ReadFile("../../docs/table.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		ID         string `json:"$id"`
		Ref        string `json:"$ref"`
		Type       any
		Const      string
		Enum       []string
		Required   []string
		Properties map[string]json.RawMessage
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	var top node
	if err := json.Unmarshal(text, &top); err != nil {
		t.Fatal(err)
	}
	if top.ID != Schema {
		t.Errorf("the page describes %q, expected %q", top.ID, Schema)
	}
	read := func(raw json.RawMessage) (n node) {
		if err := json.Unmarshal(raw, &n); err != nil {
			t.Fatal(err)
		}
		if name, ok := strings.CutPrefix(n.Ref, "#/$defs/"); ok {
			if err := json.Unmarshal(top.Defs[name], &n); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		return n
	}
	types := []reflect.Type{reflect.TypeFor[Table](), reflect.TypeFor[Validators](), reflect.TypeFor[Series](), reflect.TypeFor[Interval](),
		reflect.TypeFor[Action](), reflect.TypeFor[Attributes](), reflect.TypeFor[Proof](), reflect.TypeFor[Advice](),
		reflect.TypeFor[Numerics]()}
	for _, typ := range types {
		object := read(top.Defs[typ.Name()])
		fields := map[string]reflect.Type{}
		for _, f := range reflect.VisibleFields(typ) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); !f.Anonymous {
				fields[name] = f.Type
			}
		}
		if got, want := slices.Sorted(maps.Keys(object.Properties)), slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, expected %v", typ.Name(), got, want)
			continue
		}
		for name, field := range fields {
			if field.Kind() == reflect.Pointer {
				field = field.Elem()
			}
			want := map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer",
				reflect.Float64: "number", reflect.Bool: "boolean",
				reflect.Slice: "array", reflect.Map: "object", reflect.Struct: "object"}[field.Kind()]
			p := read(object.Properties[name])
			got, _ := p.Type.(string)
			if several, ok := p.Type.([]any); ok {
				got, _ = several[0].(string)
			}
			if len(p.Enum) > 0 || p.Const != "" {
				got = "string"
			}
			if got != want {
				t.Errorf("%s: %s is %q, expected %q", typ.Name(), name, got, want)
			}
		}
		for _, name := range object.Required {
			if fields[name] == nil {
				t.Errorf("%s: %s is required and no field", typ.Name(), name)
			}
		}
	}
	action := read(top.Defs["Action"])
	for name, want := range map[string][]string{
		"kind": {string(Direct), string(Split), string(Pad), string(Kernel), string(Algorithm)},
		"pad":  {string(InPlace), string(Copied)},
	} {
		if got := read(action.Properties[name]).Enum; !slices.Equal(got, want) {
			t.Errorf("%s: %v, expected %v", name, got, want)
		}
	}
}
