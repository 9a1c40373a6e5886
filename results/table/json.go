package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// MaxBytes is the largest readable table in bytes of JSON.
const MaxBytes = 256 << 20

// The versions of the format, from 1 on.
var schemas = []string{schemaV1, schemaV2, schemaV3, Schema}

func schemaOf(version int) string { return schemas[version-1] }

// Parse reads a table's JSON of this or an earlier [Schema]. Unknown schemas, unknown or repeated fields,
// nulls other than lists, trailing data and every error of [Table.Validate] are errors. Memory use is little
// more than the returned table.
func Parse(data []byte) (*Table, error) {
	r, err := newReader(data)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	// The schema comes first, so that a newer table is refused for its version instead of its first new
	// field.
	schema := r.schema()
	if r.err != nil {
		return nil, fmt.Errorf("table: %w", r.err)
	}
	if r.version = 1 + slices.Index(schemas, schema); r.version == 0 {
		return nil, fmt.Errorf("table: schema is %.80q, this program reads %q, %q, %q and %q", schema, Schema, schemaV3, schemaV2, schemaV1)
	}
	r.at = 0
	t := r.table()
	r.end()
	if r.err == nil {
		r.err = t.Validate()
	}
	if r.err != nil {
		return nil, fmt.Errorf("table: %w", r.err)
	}
	return t, nil
}

// The fields of each object in the types' order.
var (
	tableFields = []field{{"schema", 0, true}, {"created", 0, true}, {"validators", 0, true}, {"series", 0, true}, {"advice", 4, false}}
	// The first version had the program's version next to the validators.
	tableFieldsV1    = append(slices.Clone(tableFields), field{"gemmaudit", 0, false})
	validatorsFields = []field{{"device", 0, false}, {"driver", 0, false}, {"libraries", 0, false}, {"kernel", 0, false},
		{"regime", 0, false}, {"clock_policy", 0, false}, {"arch", 0, false}, {"cpu_model", 0, false}, {"features", 2, false},
		{"gemmaudit", 2, false}, {"cores", 0, false}, {"threads", 0, false}}
	productFields = []field{{"kernel", 0, true}, {"dtype", 0, true}, {"weights", 3, false}, {"layout", 3, true}, {"n", 0, true},
		{"k", 0, true}, {"epilogue", 4, false}}
	seriesFields = append(slices.Clone(productFields),
		field{"from_m", 4, false}, field{"to_m", 4, false}, field{"served", 4, false}, field{"default", 0, false},
		field{"intervals", 0, true})
	intervalFields = []field{{"from", 0, true}, {"to", 0, true}, {"step", 0, false}, {"filled", 4, false}, {"action", 0, true},
		{"proofs", 0, false}}
	actionFields = []field{{"kind", 0, false}, {"first", 0, false}, {"pad_to", 0, false}, {"pad", 4, false}, {"kernel", 0, false},
		{"algorithm", 4, false}}
	proofFields = []field{{"m", 0, true}, {"direct_us", 0, true}, {"remedy_us", 0, true}, {"gain_lo", 0, true}, {"gain_mid", 0, true},
		{"gain_hi", 0, true}, {"numerics", 4, false}}
	numericsFields = []field{{"direct_error", 0, true}, {"remedy_error", 0, true}, {"same_bits", 0, true}, {"batch_invariant", 0, true},
		{"direct_batch_invariant", 0, true}, {"other_ms", 0, false}, {"rows", 0, true}, {"columns", 0, true}}
	attributesFields = []field{{"id", 0, false}, {"tile", 0, false}, {"stages", 0, false}, {"split_k", 0, false}, {"reduction", 0, false},
		{"swizzle", 0, false}, {"custom", 0, false}, {"inner", 0, false}, {"cluster", 0, false}}
	adviceFields = append(slices.Clone(productFields),
		field{"kind", 4, true}, field{"pad_to", 4, true}, field{"pad", 4, true}, field{"extra_bytes", 4, false}, field{"proof", 4, true})
)

func (r *reader) table() *Table {
	t, program := &Table{}, ""
	v := &t.Validators
	parts := []any{&t.Schema, &t.Created, v, &t.Series, &t.Advice}
	if r.version == 1 {
		r.object("a table", tableFieldsV1, append(parts, &program)...)
		v.Gemmaudit = program
	} else {
		r.object("a table", tableFields, parts...)
	}
	t.Schema = Schema
	return t
}

// value reads a value of the format.
func (r *reader) value(name string, to any) {
	switch to := to.(type) {
	case *string:
		*to = r.text(name)
	case *Kind:
		*to = Kind(r.text(name))
	case *PadKind:
		*to = PadKind(r.text(name))
	case *int:
		*to = r.whole(name)
	case *float64:
		*to = r.float(name)
	case *int64:
		*to = r.wholeUpTo(name, maxBytes)
	case *bool:
		*to = r.flag(name)
	case *map[string]string:
		*to = map[string]string{}
		r.libraries(*to)
	case *Validators:
		r.object("validators", validatorsFields, &to.Device, &to.Driver, &to.Libraries, &to.Kernel, &to.Regime, &to.ClockPolicy, &to.Arch,
			&to.CPUModel, &to.Features, &to.Gemmaudit, &to.Cores, &to.Threads)
	case *Series:
		if to.Default.Kind = Direct; r.version < 3 {
			to.Layout = KN
		}
		r.object("a series", seriesFields, &to.Kernel, &to.DType, &to.Weights, &to.Layout, &to.N, &to.K, &to.Epilogue, &to.FromM,
			&to.ToM, &to.Served, &to.Default, &to.Intervals)
	case *Interval:
		r.object("an interval", intervalFields, &to.From, &to.To, &to.Step, &to.Filled, &to.Action, &to.Proofs)
	case *Action:
		to.Kind = Direct
		r.action(to, r.object("an action", actionFields, &to.Kind, &to.First, &to.PadTo, &to.Pad, &to.Kernel, &to.Algorithm))
	case *Attributes:
		r.object("an algorithm", attributesFields, &to.ID, &to.Tile, &to.Stages, &to.SplitK, &to.Reduction, &to.Swizzle, &to.Custom,
			&to.Inner, &to.Cluster)
	case *Proof:
		r.object("a proof", proofFields, &to.M, &to.DirectUS, &to.RemedyUS, &to.GainLo, &to.GainMid, &to.GainHi, &to.Numerics)
	case **Numerics:
		n := &Numerics{}
		r.object("numerics", numericsFields, &n.DirectError, &n.RemedyError, &n.SameBits, &n.BatchInvariant, &n.DirectBatchInvariant,
			&n.OtherMs, &n.Rows, &n.Columns)
		*to = n
	case *Advice:
		r.object("an advice", adviceFields, &to.Kernel, &to.DType, &to.Weights, &to.Layout, &to.N, &to.K, &to.Epilogue, &to.Kind,
			&to.PadTo, &to.Pad, &to.ExtraBytes, &to.Proof)
	case *[]Series:
		if !r.null() {
			elements(r, name, maxSeries, len(`{"kernel":"a","dtype":"b","n":1,"k":1,"intervals":[]}`), to)
		}
	case *[]Advice:
		elements(r, name, maxSeries, shortestAdvice, to)
	case *[]Interval:
		if !r.null() {
			elements(r, name, maxIntervals, len(`{"from":1,"to":1,"action":{}}`), to)
		}
	case *[]Proof:
		elements(r, name, maxProofs, len(`{"m":1,"direct_us":1,"remedy_us":1,"gain_lo":1,"gain_mid":1,"gain_hi":1}`), to)
	case *[]string:
		elements(r, name, maxFeatures, len(`"",`), to)
	case *[]int:
		most := maxParts
		if name == "first" {
			name, most = "leading parts", maxParts-1
		}
		elements(r, name, most, len(`1,`), to)
	}
}

// elements reads a list of at most most elements, each of at least shortest bytes.
func elements[T any](r *reader, what string, most, shortest int, to *[]T) {
	*to = make([]T, 0, r.room(most, shortest))
	one := "one of " + what
	r.list(what, most, func() {
		var zero T
		*to = append(*to, zero)
		r.value(one, &(*to)[len(*to)-1])
	})
}

func (r *reader) libraries(to map[string]string) {
	r.members("libraries", func(text []byte) {
		name := string(text)
		if _, twice := to[name]; twice {
			r.fail("library %.80q stands twice", name)
			return
		}
		if len(to) == maxFeatures {
			r.fail("more than %d libraries", maxFeatures)
			return
		}
		to[name] = r.text("a library's version")
	})
}

// action checks an action's fields, which depend on its kind.
func (r *reader) action(a *Action, got presence) {
	var takes []string
	switch a.Kind {
	case Direct:
	case Split:
		takes = []string{"first"}
	case Pad:
		if takes = []string{"pad_to", "pad"}; r.version < 4 {
			a.Pad = InPlace // the only kind of earlier versions
			takes = takes[:1]
		}
	case Kernel:
		takes = []string{"kernel"}
	case Algorithm:
		takes = []string{"kernel", "algorithm"}
	}
	known := a.Kind == Direct || len(takes) > 0
	if !known || a.Kind == Algorithm && r.version < 4 {
		r.fail("unknown action %.80q of schema %q: expected direct, split, pad, kernel or (from %q on) algorithm", a.Kind,
			schemaOf(r.version), Schema)
	}
	for i, f := range actionFields[1:] {
		if has, takes := got.has(i+1), slices.Contains(takes, f.name); has && !takes {
			r.fail("an action is %s with %s", a.Kind, f.name)
		} else if takes && !has {
			r.fail("an action is %s without %s", a.Kind, f.name)
		}
	}
}

// Marshal returns a valid table's JSON, indented, with a final newline: every action with its kind, every
// list present. Equal tables give equal bytes.
func (t *Table) Marshal() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(t.explicit()); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return b.Bytes(), nil
}

// explicit returns a copy of the table with all defaults filled in.
func (t *Table) explicit() *Table {
	c := *t
	c.Series = append([]Series{}, t.Series...)
	for i := range c.Series {
		s := &c.Series[i]
		s.Default.Kind = s.Default.kind()
		s.Intervals = append([]Interval{}, s.Intervals...)
		for j := range s.Intervals {
			s.Intervals[j].Action.Kind = s.Intervals[j].Action.kind()
		}
	}
	return &c
}
