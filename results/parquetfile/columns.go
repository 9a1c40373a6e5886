package parquetfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/results"
)

// The columns read: texts, then integers, then figures.
const (
	wordDevice = iota
	wordKernel
	wordDType
	wordPhase
	wordThrottle
	wordRegime
	wordParts
	wordOperation
	wordLayout
	wordDims
	wordOperands
	wordRun
	wordHost
	wordCard
	wordLabels
	wordModel
	wordCeilings
	wordsRead
)

const (
	countM = iota
	countN
	countK
	countRound
	countSeq
	countStarted
	countThreads
	countPadTo
	countInside
	countsRead
)

const (
	figureUS = iota
	figureClock
	figurePower
	figureTemp
	figuresRead
)

var (
	wordColumns = [wordsRead]string{"device", "kernel", "dtype", "phase", "throttle", "regime", "parts", "operation", "layout", "dims",
		"operands",
		"run", "host", "card", "labels", "device_name", "ceilings"}
	countColumns = [countsRead]string{"m", "n", "k", "round", "seq", "started", "threads", "pad_to", "pack_inside"}
	figureNames  = [figuresRead]string{"us", "clock_mhz", "power_w", "temp_c"}
)

// words are a column's texts, numbered; lines hold the number.
type words struct {
	numbers map[string]int32
	text    []string
	last    int32
	most    int // bytes per text
}

// number returns a text's number; 0 is the empty text.
func (w *words) number(text []byte) (int32, error) {
	if w.last < int32(len(w.text)) && w.text[w.last] == string(text) {
		return w.last, nil
	}
	n, ok := w.numbers[string(text)]
	if !ok {
		s := string(text)
		if err := results.CheckText(s, w.most); err != nil {
			return 0, err
		}
		n = int32(len(w.text))
		w.numbers[s] = n
		w.text = append(w.text, s)
	}
	w.last = n
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

// columns lists the known columns of the file, which decode into the reader's lists.
func (r *parquetReader) columns(f *File) (out []Column, err error) {
	names := slices.Clone(f.Names())
	for i, name := range names {
		if name == oldStarted {
			names[i] = countColumns[countStarted]
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
	add := func(name string, take func(i int, v parquet.Value) error) {
		if at, ok := places[name]; ok {
			out = append(out, Column{Name: name, At: at, Take: take})
		}
	}
	for i, name := range wordColumns {
		w := &r.words[i]
		*w = words{numbers: map[string]int32{"": 0}, text: []string{""}, most: results.MaxText}
		if i == wordCeilings || i == wordLabels { // JSON
			w.most = mostWordBytes
		}
		r.word[i] = make([]int32, parquetRows)
		add(name, func(k int, v parquet.Value) (err error) {
			r.word[i][k], err = w.value(v)
			return err
		})
	}
	for i, name := range countColumns {
		r.count[i] = make([]int64, parquetRows)
		add(name, func(k int, v parquet.Value) (err error) {
			r.count[i][k], err = wholeNumber(v)
			return err
		})
	}
	for i, name := range figureNames {
		r.figure[i] = make([]float64, parquetRows)
		add(name, func(k int, v parquet.Value) (err error) {
			r.figure[i][k], err = figure(v)
			return err
		})
	}
	return out, nil
}

func (w *words) value(v parquet.Value) (int32, error) {
	switch {
	case v.IsNull():
		return 0, nil
	case v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray:
		return w.number(v.ByteArray())
	}
	return 0, fmt.Errorf("holds %v, expected text", v.Kind())
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
