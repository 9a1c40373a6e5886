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

// The fields of each object in the types' order, and the minimum bytes of list elements.
var (
	tableFields = []field{{"schema", 0, true}, {"created", 0, true}, {"validators", 0, true}, {"series", 0, true}, {"advice", 4, false}}
	// The first version had the program's version next to the validators.
	tableFieldsV1    = append(slices.Clone(tableFields), field{"gemmaudit", 0, false})
	validatorsFields = []field{{"device", 0, false}, {"driver", 0, false}, {"libraries", 0, false}, {"kernel", 0, false},
		{"regime", 0, false}, {"clock_policy", 0, false},
		{"arch", 0, false}, {"cpu_model", 0, false}, {"features", 2, false}, {"gemmaudit", 2, false}, {"cores", 0, false},
		{"threads", 0, false}}
	seriesFields = []field{{"kernel", 0, true}, {"dtype", 0, true}, {"weights", 3, false}, {"layout", 3, true}, {"n", 0, true},
		{"k", 0, true},
		{"from_m", 4, false}, {"to_m", 4, false}, {"served", 4, false}, {"default", 0, false}, {"intervals", 0, true}}
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
)

const (
	shortestSeries   = len(`{"kernel":"a","dtype":"b","n":1,"k":1,"intervals":[]}`)
	shortestInterval = len(`{"from":1,"to":1,"action":{}}`)
	shortestProof    = len(`{"m":1,"direct_us":1,"remedy_us":1,"gain_lo":1,"gain_mid":1,"gain_hi":1}`)
	shortestSize     = len(`1,`)
)

func (r *reader) table() *Table {
	fields := tableFields
	if r.version == 1 {
		fields = tableFieldsV1
	}
	t, program := &Table{Schema: Schema}, ""
	r.object("a table", fields, func(i int) {
		switch fields[i].name {
		case "schema":
			r.text("schema")
		case "created":
			t.Created = r.text("created")
		case "validators":
			r.validators(&t.Validators)
		case "series":
			if r.null() {
				return
			}
			t.Series = make([]Series, 0, r.room(maxSeries, shortestSeries))
			r.list("series", maxSeries, func() { t.Series = append(t.Series, r.series()) })
		case "advice":
			t.Advice = make([]Advice, 0, r.room(maxSeries, shortestAdvice))
			r.list("advice", maxSeries, func() { t.Advice = append(t.Advice, r.advice()) })
		case "gemmaudit":
			program = r.text("gemmaudit")
		}
	})
	if r.version == 1 {
		t.Validators.Gemmaudit = program
	}
	return t
}

func (r *reader) validators(v *Validators) {
	words := []*string{&v.Device, &v.Driver, nil, &v.Kernel, &v.Regime, &v.ClockPolicy, &v.Arch, &v.CPUModel, nil, &v.Gemmaudit}
	r.object("validators", validatorsFields, func(i int) {
		switch name := validatorsFields[i].name; name {
		case "libraries":
			r.libraries(v)
		case "features":
			r.list("features", maxFeatures, func() { v.Features = append(v.Features, r.text("a feature")) })
		case "cores":
			v.Cores = r.whole(name)
		case "threads":
			v.Threads = r.whole(name)
		default:
			*words[i] = r.text(name)
		}
	})
}

func (r *reader) libraries(v *Validators) {
	v.Libraries = map[string]string{}
	r.members("libraries", func(text []byte) {
		name := string(text)
		if _, twice := v.Libraries[name]; twice {
			r.fail("library %.80q stands twice", name)
			return
		}
		if len(v.Libraries) == maxFeatures {
			r.fail("more than %d libraries", maxFeatures)
			return
		}
		v.Libraries[name] = r.text("a library's version")
	})
}

func (r *reader) series() Series {
	s := Series{Default: Action{Kind: Direct}}
	if r.version < 3 {
		s.Layout = KN
	}
	r.object("a series", seriesFields, func(i int) {
		switch name := seriesFields[i].name; name {
		case "from_m":
			s.FromM = r.whole(name)
		case "to_m":
			s.ToM = r.whole(name)
		case "served":
			s.Served = r.whole(name)
		case "default":
			s.Default = r.action()
		case "intervals":
			if r.null() {
				return
			}
			s.Intervals = make([]Interval, 0, r.room(maxIntervals, shortestInterval))
			r.list("intervals", maxIntervals, func() { s.Intervals = append(s.Intervals, r.interval()) })
		default:
			r.product(name, &s.Product)
		}
	})
	return s
}

// product reads the field of a product by its name.
func (r *reader) product(name string, p *Product) {
	switch name {
	case "kernel":
		p.Kernel = r.text(name)
	case "dtype":
		p.DType = r.text(name)
	case "weights":
		p.Weights = r.text(name)
	case "layout":
		p.Layout = r.text(name)
	case "n":
		p.N = r.whole(name)
	case "k":
		p.K = r.whole(name)
	}
}

func (r *reader) interval() Interval {
	var iv Interval
	r.object("an interval", intervalFields, func(i int) {
		switch name := intervalFields[i].name; name {
		case "from":
			iv.From = r.whole(name)
		case "to":
			iv.To = r.whole(name)
		case "step":
			iv.Step = r.whole(name)
		case "filled":
			iv.Filled = r.flag(name)
		case "action":
			iv.Action = r.action()
		case "proofs":
			iv.Proofs = make([]Proof, 0, r.room(maxProofs, shortestProof))
			r.list(name, maxProofs, func() { iv.Proofs = append(iv.Proofs, r.proof()) })
		}
	})
	return iv
}

// action reads an action. Its fields depend on its kind.
func (r *reader) action() Action {
	a := Action{Kind: Direct}
	got := r.object("an action", actionFields, func(i int) {
		switch name := actionFields[i].name; name {
		case "kind":
			a.Kind = Kind(r.text(name))
		case "first":
			a.First = r.sizes("leading parts", maxParts-1)
		case "pad_to":
			a.PadTo = r.whole(name)
		case "pad":
			a.Pad = PadKind(r.text(name))
		case "kernel":
			a.Kernel = r.text(name)
		case "algorithm":
			a.Algorithm = r.attributes()
		}
	})
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
	return a
}

func (r *reader) attributes() Attributes {
	var a Attributes
	to := []*int{&a.ID, &a.Tile, &a.Stages, &a.SplitK, &a.Reduction, &a.Swizzle, &a.Custom, &a.Inner, &a.Cluster}
	r.object("an algorithm", attributesFields, func(i int) { *to[i] = r.whole(attributesFields[i].name) })
	return a
}

func (r *reader) sizes(what string, most int) []int {
	out := make([]int, 0, r.room(most, shortestSize))
	r.list(what, most, func() { out = append(out, r.whole("one of "+what)) })
	return out
}

func (r *reader) proof() Proof {
	var p Proof
	to := []*float64{nil, &p.DirectUS, &p.RemedyUS, &p.GainLo, &p.GainMid, &p.GainHi}
	r.object("a proof", proofFields, func(i int) {
		switch name := proofFields[i].name; name {
		case "m":
			p.M = r.whole(name)
		case "numerics":
			p.Numerics = r.numerics()
		default:
			*to[i] = r.float(name)
		}
	})
	return p
}

func (r *reader) numerics() *Numerics {
	n := &Numerics{}
	r.object("numerics", numericsFields, func(i int) {
		switch name := numericsFields[i].name; name {
		case "direct_error":
			n.DirectError = r.float(name)
		case "remedy_error":
			n.RemedyError = r.float(name)
		case "same_bits":
			n.SameBits = r.flag(name)
		case "batch_invariant":
			n.BatchInvariant = r.flag(name)
		case "direct_batch_invariant":
			n.DirectBatchInvariant = r.flag(name)
		case "other_ms":
			n.OtherMs = r.sizes("other Ms", maxParts)
		case "rows":
			n.Rows = r.whole(name)
		case "columns":
			n.Columns = r.whole(name)
		}
	})
	return n
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
