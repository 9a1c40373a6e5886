package parquetfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/results"
)

// parquetLine is a line as it is read. Texts are numbers in the reader's list of them.
type parquetLine struct {
	parquetCase
	phase, throttle, parts, card, model, ceilings int32
	round, seq, started, padTo, packs             int64
	us, clock, power, temp                        float64
}

// texts are the distinct texts of a file; 0 is the empty one.
type texts struct {
	numbers map[string]int32
	list    []string
}

// number returns the number of a text of at most most bytes.
func (t *texts) number(text []byte, most int) (int32, error) {
	n, ok := t.numbers[string(text)]
	if !ok || len(text) > most {
		s := string(text)
		if err := results.CheckText(s, most); err != nil {
			return 0, err
		}
		n = int32(len(t.list))
		t.numbers[s] = n
		t.list = append(t.list, s)
	}
	return n, nil
}

// TwiceNamed is the error of a repeated column name, at indexes from 0.
func TwiceNamed(name string, first, second int) error {
	return fmt.Errorf("column %q stands twice in the header, at %d and %d", name, first+1, second+1)
}

// columnPlaces returns column names in lower case without surrounding spaces, and their indexes. Repeated
// names are errors.
func columnPlaces(header []string) (names []string, at map[string]int, err error) {
	names, at = make([]string, len(header)), map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if first, twice := at[name]; twice && name != "" {
			return nil, nil, TwiceNamed(name, first, i)
		}
		names[i], at[name] = name, i
	}
	return names, at, nil
}

// columns lists the known columns of the file, which decode into the reader's lines.
func (r *parquetReader) columns(f *File) (out []Column, err error) {
	names := slices.Clone(f.Names())
	for i, name := range names {
		if name == oldStarted {
			names[i] = "started"
		}
	}
	_, places, err := columnPlaces(names)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"device", "kernel", "dtype", "m", "us"} {
		if _, ok := places[name]; !ok {
			return nil, fmt.Errorf("the Parquet file has no column %s: it is no export of samples", name)
		}
	}
	add := func(name string, take func(l *parquetLine, v parquet.Value) error) {
		if at, ok := places[name]; ok {
			out = append(out, Column{Name: name, At: at, Take: func(i int, v parquet.Value) error { return take(&r.lines[i], v) }})
		}
	}
	text := func(name string, most int, of func(l *parquetLine) *int32) {
		last := int32(0) // of the previous line
		add(name, func(l *parquetLine, v parquet.Value) (err error) {
			switch kind := v.Kind(); {
			case v.IsNull():
				*of(l) = 0
				return nil
			case kind != parquet.ByteArray && kind != parquet.FixedLenByteArray:
				return fmt.Errorf("holds %v, expected text", kind)
			}
			if b := v.ByteArray(); string(b) != r.texts.list[last] {
				last, err = r.texts.number(b, most)
			}
			*of(l) = last
			return err
		})
	}
	word := func(name string, of func(l *parquetLine) *int32) { text(name, results.MaxText, of) }
	count := func(name string, of func(l *parquetLine) *int64) {
		add(name, func(l *parquetLine, v parquet.Value) (err error) {
			*of(l), err = wholeNumber(v)
			return err
		})
	}
	number := func(name string, of func(l *parquetLine) *float64) {
		add(name, func(l *parquetLine, v parquet.Value) (err error) {
			*of(l), err = figure(v)
			return err
		})
	}
	word("device", func(l *parquetLine) *int32 { return &l.device })
	word("kernel", func(l *parquetLine) *int32 { return &l.kernel })
	word("dtype", func(l *parquetLine) *int32 { return &l.dtype })
	word("phase", func(l *parquetLine) *int32 { return &l.phase })
	word("throttle", func(l *parquetLine) *int32 { return &l.throttle })
	word("regime", func(l *parquetLine) *int32 { return &l.regime })
	word("parts", func(l *parquetLine) *int32 { return &l.parts })
	word("operation", func(l *parquetLine) *int32 { return &l.operation })
	word("layout", func(l *parquetLine) *int32 { return &l.layout })
	word("dims", func(l *parquetLine) *int32 { return &l.dims })
	word("operands", func(l *parquetLine) *int32 { return &l.operands })
	word("run", func(l *parquetLine) *int32 { return &l.run })
	word("host", func(l *parquetLine) *int32 { return &l.host })
	word("card", func(l *parquetLine) *int32 { return &l.card })
	text("labels", mostWordBytes, func(l *parquetLine) *int32 { return &l.labels })
	word("device_name", func(l *parquetLine) *int32 { return &l.model })
	text("ceilings", mostWordBytes, func(l *parquetLine) *int32 { return &l.ceilings })
	count("m", func(l *parquetLine) *int64 { return &l.m })
	count("n", func(l *parquetLine) *int64 { return &l.n })
	count("k", func(l *parquetLine) *int64 { return &l.k })
	count("round", func(l *parquetLine) *int64 { return &l.round })
	count("seq", func(l *parquetLine) *int64 { return &l.seq })
	count("started", func(l *parquetLine) *int64 { return &l.started })
	count("threads", func(l *parquetLine) *int64 { return &l.threads })
	count("pad_to", func(l *parquetLine) *int64 { return &l.padTo })
	count("pack_inside", func(l *parquetLine) *int64 { return &l.packs })
	number("us", func(l *parquetLine) *float64 { return &l.us })
	number("clock_mhz", func(l *parquetLine) *float64 { return &l.clock })
	number("power_w", func(l *parquetLine) *float64 { return &l.power })
	number("temp_c", func(l *parquetLine) *float64 { return &l.temp })
	return out, nil
}

func wholeNumber(v parquet.Value) (int64, error) {
	switch {
	case v.IsNull() || v.Kind() == parquet.Boolean && !v.Boolean():
		return 0, nil
	case v.Kind() == parquet.Boolean:
		return 1, nil
	case v.Kind() == parquet.Int64:
		return v.Int64(), nil
	case v.Kind() == parquet.Int32:
		return int64(v.Int32()), nil
	}
	return 0, fmt.Errorf("holds %v, expected a whole number", v.Kind())
}

func figure(v parquet.Value) (float64, error) {
	switch {
	case v.IsNull():
		return 0, nil
	case v.Kind() == parquet.Double:
		return v.Double(), nil
	case v.Kind() == parquet.Float:
		return float64(v.Float()), nil
	}
	return 0, fmt.Errorf("holds %v, expected a number", v.Kind())
}
