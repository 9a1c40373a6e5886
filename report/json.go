package report

import (
	"bytes"
	"encoding"
	"encoding/json"
	"io"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// writeJSON writes a value as indented JSON, to the byte as encoding/json does. The lists of
// a document are encoded a piece at a time, on all processors: the verdicts of a large run
// are hundreds of megabytes of text, which must not stand in memory as a whole.
func writeJSON(w io.Writer, v any) error {
	j := &jsonWriter{w: w}
	j.value(reflect.ValueOf(v), "")
	j.text("\n")
	return j.err
}

// jsonIndent is the indent of one level.
const jsonIndent = "  "

// jsonPiece is how many elements of a list are encoded at a time.
const jsonPiece = 256

// jsonWriter writes nested values. After an error it writes nothing more.
type jsonWriter struct {
	w   io.Writer
	err error
}

func (j *jsonWriter) text(s string) {
	if j.err == nil {
		_, j.err = io.WriteString(j.w, s)
	}
}

func (j *jsonWriter) bytes(b []byte) {
	if j.err == nil {
		_, j.err = j.w.Write(b)
	}
}

// value writes v, whose lines after the first begin with prefix.
func (j *jsonWriter) value(v reflect.Value, prefix string) {
	for v.IsValid() && v.Kind() == reflect.Pointer && !v.IsNil() && !ownText(v.Type()) {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		j.text("null")
	case holdsLists(v.Type()) && v.Kind() == reflect.Struct:
		j.object(v, prefix)
	case v.Kind() == reflect.Slice && v.Len() > 0 && isRecord(v.Type().Elem()):
		j.list(v, prefix)
	default:
		text, err := newJSONEncoder(prefix).encode(v.Interface())
		if j.err == nil {
			j.err = err
		}
		j.bytes(text)
	}
}

// object writes a struct field by field.
func (j *jsonWriter) object(v reflect.Value, prefix string) {
	within := prefix + jsonIndent
	between := "{\n"
	for i := range v.NumField() {
		name, ok := jsonField(v.Type().Field(i), v.Field(i))
		if !ok {
			continue
		}
		j.text(between + within + strconv.Quote(name) + ": ")
		j.value(v.Field(i), within)
		between = ",\n"
	}
	if between == "{\n" {
		j.text("{}")
		return
	}
	j.text("\n" + prefix + "}")
}

// list writes the elements of a slice of structs.
func (j *jsonWriter) list(v reflect.Value, prefix string) {
	within := prefix + jsonIndent
	j.text("[\n")
	if holdsLists(v.Type().Elem()) {
		for i := range v.Len() {
			if i > 0 {
				j.text(",\n")
			}
			j.text(within)
			j.value(v.Index(i), within)
		}
	} else {
		j.pieces(v, prefix)
	}
	j.text("\n" + prefix + "]")
}

// pieces writes the elements of a slice, some of them at a time.
func (j *jsonWriter) pieces(v reflect.Value, prefix string) {
	n := (v.Len() + jsonPiece - 1) / jsonPiece
	atOnce := min(runtime.GOMAXPROCS(0), n)
	encoders := make([]*jsonEncoder, atOnce)
	for k := range encoders {
		encoders[k] = newJSONEncoder(prefix)
	}
	texts, errs := make([][]byte, atOnce), make([]error, atOnce)
	for first := 0; first < n && j.err == nil; first += atOnce {
		var wait sync.WaitGroup
		some := min(atOnce, n-first)
		for k := range some {
			wait.Go(func() {
				from := (first + k) * jsonPiece
				to := min(from+jsonPiece, v.Len())
				text, err := encoders[k].encode(v.Slice(from, to).Interface())
				// What stands around the elements is that of the whole list.
				text = bytes.TrimPrefix(text, []byte("[\n"))
				texts[k], errs[k] = bytes.TrimSuffix(text, []byte("\n"+prefix+"]")), err
			})
		}
		wait.Wait()
		for k := range some {
			if j.err == nil {
				j.err = errs[k]
			}
			if first+k > 0 {
				j.text(",\n")
			}
			j.bytes(texts[k])
		}
	}
}

// jsonEncoder is encoding/json with lists that are used again for the next value.
type jsonEncoder struct {
	text    bytes.Buffer
	encoder *json.Encoder
}

func newJSONEncoder(prefix string) *jsonEncoder {
	e := &jsonEncoder{}
	e.encoder = json.NewEncoder(&e.text)
	e.encoder.SetIndent(prefix, jsonIndent)
	e.encoder.SetEscapeHTML(false)
	return e
}

// encode is a value as encoding/json writes it, without the line's end, valid until the next.
func (e *jsonEncoder) encode(v any) ([]byte, error) {
	e.text.Reset()
	err := e.encoder.Encode(v)
	return bytes.TrimSuffix(e.text.Bytes(), []byte("\n")), err
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// ownText says whether values of a type write themselves.
func ownText(t reflect.Type) bool {
	for _, m := range []reflect.Type{jsonMarshaler, textMarshaler} {
		if t.Implements(m) || reflect.PointerTo(t).Implements(m) {
			return true
		}
	}
	return false
}

// isRecord says whether a list of such elements may be written piece by piece.
func isRecord(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// holdsLists says whether a type is a struct that is best written field by field: one of
// the fields is a list of records, or holds one, and all of them are plain.
func holdsLists(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || ownText(t) {
		return false
	}
	lists := false
	for i := range t.NumField() {
		f := t.Field(i)
		if _, options, _ := strings.Cut(f.Tag.Get("json"), ","); f.Anonymous || strings.Contains(options, "string") {
			return false
		}
		if f.IsExported() && f.Type.Kind() == reflect.Slice && isRecord(f.Type.Elem()) && !ownText(f.Type) {
			lists = true
		}
	}
	return lists
}

// jsonField is the name under which a field is written; ok is false for one that is not.
func jsonField(f reflect.StructField, v reflect.Value) (name string, ok bool) {
	tag := f.Tag.Get("json")
	if !f.IsExported() || tag == "-" {
		return "", false
	}
	name, options, _ := strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			if emptyJSON(v) {
				return "", false
			}
		case "omitzero":
			if zero, own := v.Interface().(interface{ IsZero() bool }); own && zero.IsZero() || !own && v.IsZero() {
				return "", false
			}
		}
	}
	return name, true
}

// emptyJSON is what omitempty leaves out.
func emptyJSON(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
