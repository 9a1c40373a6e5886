package results

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// The columns that are read. Words come first, then whole numbers, then figures.
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
	wordColumns = [wordsRead]string{"device", "kernel", "dtype", "phase", "throttle", "regime", "parts", "operation", "layout", "dims", "operands",
		"run", "host", "card", "labels", "device_name", "ceilings"}
	countColumns = [countsRead]string{"m", "n", "k", "round", "seq", "started", "threads", "pad_to", "pack_inside"}
	figureNames  = [figuresRead]string{"us", "clock_mhz", "power_w", "temp_c"}
)

// words are a column's words by number: a line has the number.
type words struct {
	numbers map[string]int32
	text    []string
	last    int32
	most    int // bytes of a word
}

// number is that of a word; 0 is the empty one.
func (w *words) number(text []byte) (int32, error) {
	if w.last < int32(len(w.text)) && w.text[w.last] == string(text) {
		return w.last, nil
	}
	n, ok := w.numbers[string(text)]
	if !ok {
		s := string(text)
		if err := checkText(s, w.most); err != nil {
			return 0, err
		}
		n = int32(len(w.text))
		w.numbers[s] = n
		w.text = append(w.text, s)
	}
	w.last = n
	return n, nil
}

// columns finds the columns that are read.
func (r *parquetReader) columns(file *parquet.File) error {
	var names []string
	var leaves []int
	for _, c := range file.Root().Columns() {
		if !c.Leaf() || c.MaxRepetitionLevel() > 0 {
			continue
		}
		name := c.Name()
		if name == oldStarted {
			name = countColumns[countStarted]
		}
		names, leaves = append(names, name), append(leaves, c.Index())
	}
	_, places, err := columnPlaces(names)
	if err != nil {
		return err
	}
	r.at = map[string]int{}
	for _, known := range [][]string{wordColumns[:], countColumns[:], figureNames[:]} {
		for _, name := range known {
			if at, ok := places[name]; ok {
				r.at[name] = leaves[at]
			}
		}
	}
	for _, name := range []string{"device", "kernel", "dtype", "m", "us"} {
		if _, ok := r.at[name]; !ok {
			return fmt.Errorf("the Parquet file has no column %s: it is no export of samples", name)
		}
	}
	for i := range r.words {
		r.words[i] = words{numbers: map[string]int32{"": 0}, text: []string{""}, most: maxText}
		if i == wordCeilings || i == wordLabels { // JSON
			r.words[i].most = mostWordBytes
		}
		r.word[i] = make([]int32, parquetRows)
	}
	for i := range r.count {
		r.count[i] = make([]int64, parquetRows)
	}
	for i := range r.figure {
		r.figure[i] = make([]float64, parquetRows)
	}
	return nil
}

// columnReader reads the values of one column of a group of lines, page by page.
type columnReader struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	room   []parquet.Value
	name   string
}

func (c *columnReader) close() error {
	if c.page != nil {
		parquet.Release(c.page)
	}
	return c.pages.Close()
}

// read gives the next n values to each, with their places from 0.
func (c *columnReader) read(n int, each func(i int, v parquet.Value) error) error {
	for at := 0; at < n; {
		if c.values == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = fmt.Errorf("column %s ends early", c.name)
				}
				return err
			}
			c.page, c.values = page, page.Values()
		}
		got, err := c.values.ReadValues(c.room[:n-at])
		for i := range got {
			if err := each(at+i, c.room[i]); err != nil {
				return fmt.Errorf("column %s: %w", c.name, err)
			}
		}
		at += got
		if err == io.EOF || err == nil && got == 0 {
			parquet.Release(c.page)
			c.page, c.values = nil, nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
