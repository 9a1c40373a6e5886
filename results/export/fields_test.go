package export

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results/field"
)

// CSV, JSON and Parquet must have the same columns.
func TestExportFields(t *testing.T) {
	one, n := 1.0, 1
	full := &Line{ClockMHz: &one, PowerW: &one, TempC: &one, EnergyMJ: &one, HostUS: &one, Utils: &one, TileM: &n, TileN: &n, TileK: &n,
		Waves: &one, Split: &n, MFU: &one, USAtClock: &one, ReferenceMHz: &one}
	kinds := map[string]field.Kind{"string": field.Text, "int": field.Count, "float64": field.Number, "bool": field.Flag}
	names, filters := map[string]bool{}, map[string]bool{}
	for _, f := range Fields {
		if names[f.Name] || f.Where != "" && filters[f.Where] || f.Words == "" {
			t.Errorf("%s, %s in --where, is there twice or not explained: %q", f.Name, f.Where, f.Words)
		}
		names[f.Name], filters[f.Where] = true, true
		if v := f.Value(full); v == nil || kinds[reflect.TypeOf(v).String()] != f.Type() {
			t.Errorf("%s is declared %s, its value is %T", f.Name, f.Type(), v)
		}
	}
	record := reflect.TypeFor[Line]()
	for i := range record.NumField() {
		tag := record.Field(i).Tag
		parquet, _, _ := strings.Cut(tag.Get("parquet"), ",")
		if name := tag.Get("json"); name != parquet || !slices.Contains(SamplesColumns, name) {
			t.Errorf("%s is %s in JSON, %s in Parquet, and in CSV %v", record.Field(i).Name, name, parquet,
				slices.Contains(SamplesColumns, name))
		}
	}
	if len(SamplesColumns) != record.NumField() {
		t.Errorf("CSV has %d columns, a sample %d fields", len(SamplesColumns), record.NumField())
	}
}

// A published MFU takes precedence over the derived one.
func TestPublishedMFU(t *testing.T) {
	at := slices.IndexFunc(Fields, func(f field.Field[*Line]) bool { return f.Name == "mfu_as_published" })
	of, published := 0.5, 0.25
	for _, c := range []struct {
		e    Line
		want any
	}{{Line{MFU: &of, Utils: &published}, published}, {Line{MFU: &of}, of}} {
		if got := Fields[at].Value(&c.e); got != c.want {
			t.Errorf("%v, expected %v", got, c.want)
		}
	}
}
