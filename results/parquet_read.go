package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// ExportedRun is one run of one machine as an export in Parquet holds it.
type ExportedRun struct {
	// Run is the run's id, Host the machine, Labels what its user calls it by. Cards are the UUIDs or serial numbers of its
	// cards by the ids of devices.
	Run, Host string
	Labels    Labels
	Cards     map[string]string
	// Meta is what the file tells of the run: see [ReadParquet].
	Meta Meta
	// Series, Sentinels and Sustained are what [Run.Load] returns of a run file, the last by case.
	Series    []Series
	Sentinels []Sample
	Sustained []Row
}

const (
	// mostParquetRows bounds the samples of one file: more do not fit in memory at once.
	mostParquetRows = 32 << 20
	// parquetRows is how many lines are read at once.
	parquetRows = 4096
	// mostWordBytes bounds one word: the ceilings of a device are the longest.
	mostWordBytes = 1 << 16
	// oldStarted is what early exports call the time at which a block started.
	oldStarted = "started_us"
)

// ReadParquet reads the samples of an export. Columns are found by their names, in any order; those that it does not know are
// passed over, and of the others only device, kernel, dtype, m and us must be there. Lines of several runs, hosts or cards
// are told apart. Splits and padded products are left out. What the file does not tell of a run is empty in its Meta; each device that has
// samples is in its fingerprint.
//
// A file that is not Parquet, or damaged, is a [*FormatError].
func ReadParquet(path string) (found []ExportedRun, err error) {
	damaged := func(reason any) error {
		return &FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file is damaged: %v", reason), Hint: damagedHint}
	}
	defer func() {
		// The decoder indexes by what a file says.
		if reason := recover(); reason != nil {
			found, err = nil, damaged(reason)
		}
	}()
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", path, err)
	}
	if err := checkFooter(f, info.Size()); err != nil {
		return nil, damaged(err)
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, damaged(err)
	}
	if file.NumRows() > mostParquetRows {
		return nil, &FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file has %d lines, expected at most %d", file.NumRows(), mostParquetRows)}
	}
	for _, group := range file.Metadata().RowGroups {
		for _, c := range group.Columns {
			if most := mostInflated*info.Size() + 1<<20; c.MetaData.TotalUncompressedSize > most {
				return nil, damaged(fmt.Sprintf("a column of %d bytes in a file of %d", c.MetaData.TotalUncompressedSize, info.Size()))
			}
			first := c.MetaData.DataPageOffset
			if d := c.MetaData.DictionaryPageOffset; d > 0 {
				first = min(first, d)
			}
			if err := checkPages(f, first, c.MetaData.TotalCompressedSize); err != nil {
				return nil, damaged(err)
			}
		}
	}
	r := &parquetReader{runs: map[parquetRun]*exportedRun{}, cases: map[parquetCase]*exportedCase{}}
	if _, ok := file.Lookup(keyExport); ok {
		if r.meta, _, err = ExportedMeta(file.Lookup); err != nil {
			return nil, damaged(err)
		}
	}
	if err := r.columns(file); err != nil {
		return nil, &FormatError{Path: path, Reason: err.Error(), Hint: "give what `gemmaudit export --format parquet` writes"}
	}
	for _, group := range file.RowGroups() {
		if err := r.group(group); err != nil {
			return nil, damaged(err)
		}
	}
	return r.result(), nil
}

// mostInflated is how many times as large as the file one of its columns may be: a word that repeats in every line takes next to nothing.
const mostInflated = 4096

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
}

// number is that of a word; 0 is the empty one.
func (w *words) number(text []byte) (int32, error) {
	if w.last < int32(len(w.text)) && w.text[w.last] == string(text) {
		return w.last, nil
	}
	n, ok := w.numbers[string(text)]
	if !ok {
		if len(text) > mostWordBytes || len(w.text) >= mostParquetRows {
			return 0, fmt.Errorf("a word of %d bytes", len(text))
		}
		n = int32(len(w.text))
		s := string(text)
		w.numbers[s] = n
		w.text = append(w.text, s)
	}
	w.last = n
	return n, nil
}

// parquetRun is what tells runs of a file apart, by the numbers of words.
type parquetRun struct{ run, host, labels int32 }

// parquetCase is what tells cases of a file apart.
type parquetCase struct {
	parquetRun
	device, kernel, dtype, regime, operation, layout, dims, operands int32
	m, n, k, threads                                                 int64
	inside                                                           bool
}

type exportedRun struct {
	ExportedRun
	keys map[SeriesKey]int // places in Series
}

type exportedCase struct {
	run       *exportedRun
	c         Case
	samples   []Sample
	sustained []Sample
}

type parquetReader struct {
	meta   Meta
	at     map[string]int // places of columns by name
	words  [wordsRead]words
	runs   map[parquetRun]*exportedRun
	order  []*exportedRun
	cases  map[parquetCase]*exportedCase
	caseOf []*exportedCase

	word   [wordsRead][]int32
	count  [countsRead][]int64
	figure [figuresRead][]float64
}

// columns finds the columns.
func (r *parquetReader) columns(file *parquet.File) error {
	r.at = map[string]int{}
	for _, c := range file.Root().Columns() {
		if !c.Leaf() || c.MaxRepetitionLevel() > 0 {
			continue
		}
		name := c.Name()
		if name == oldStarted {
			name = countColumns[countStarted]
		}
		r.at[name] = c.Index()
	}
	for _, name := range []string{"device", "kernel", "dtype", "m", "us"} {
		if _, ok := r.at[name]; !ok {
			return fmt.Errorf("the Parquet file has no column %s: it is no export of samples", name)
		}
	}
	for i := range r.words {
		r.words[i] = words{numbers: map[string]int32{"": 0}, text: []string{""}}
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

// group reads a group of lines.
func (r *parquetReader) group(group parquet.RowGroup) (err error) {
	chunks := group.ColumnChunks()
	var open []*columnReader
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.close())
		}
	}()
	column := func(name string) *columnReader {
		at, ok := r.at[name]
		if !ok || at >= len(chunks) {
			return nil
		}
		c := &columnReader{pages: chunks[at].Pages(), room: make([]parquet.Value, parquetRows), name: name}
		open = append(open, c)
		return c
	}
	var words [wordsRead]*columnReader
	var counts [countsRead]*columnReader
	var figures [figuresRead]*columnReader
	for i, name := range wordColumns {
		words[i] = column(name)
	}
	for i, name := range countColumns {
		counts[i] = column(name)
	}
	for i, name := range figureNames {
		figures[i] = column(name)
	}
	for left := group.NumRows(); left > 0; left -= parquetRows {
		n := int(min(left, parquetRows))
		for i, c := range words {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) (err error) {
				switch {
				case v.IsNull():
					r.word[i][k] = 0
				case v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray:
					r.word[i][k], err = r.words[i].number(v.ByteArray())
				default:
					err = fmt.Errorf("holds %v, expected text", v.Kind())
				}
				return err
			}); err != nil {
				return err
			}
		}
		for i, c := range counts {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) error {
				switch {
				case v.IsNull():
					r.count[i][k] = 0
				case v.Kind() == parquet.Int64:
					r.count[i][k] = v.Int64()
				case v.Kind() == parquet.Int32:
					r.count[i][k] = int64(v.Int32())
				case v.Kind() == parquet.Boolean:
					r.count[i][k] = 0
					if v.Boolean() {
						r.count[i][k] = 1
					}
				default:
					return fmt.Errorf("holds %v, expected a whole number", v.Kind())
				}
				return nil
			}); err != nil {
				return err
			}
		}
		for i, c := range figures {
			if c == nil {
				continue
			}
			if err := c.read(n, func(k int, v parquet.Value) error {
				switch {
				case v.IsNull():
					r.figure[i][k] = 0
				case v.Kind() == parquet.Double:
					r.figure[i][k] = v.Double()
				case v.Kind() == parquet.Float:
					r.figure[i][k] = float64(v.Float())
				default:
					return fmt.Errorf("holds %v, expected a number", v.Kind())
				}
				return nil
			}); err != nil {
				return err
			}
		}
		for k := range n {
			if err := r.line(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// line takes one line of those that were read.
func (r *parquetReader) line(k int) error {
	word := func(i int) string { return r.words[i].text[r.word[i][k]] }
	phase := Phase(word(wordPhase))
	switch phase {
	case "", PhaseSweep:
		phase = PhaseSweep
	case PhaseSentinel, PhaseSustained:
	default:
		return nil
	}
	if word(wordParts) != "" || r.count[countPadTo][k] != 0 {
		return nil
	}
	id := parquetCase{
		parquetRun: parquetRun{r.word[wordRun][k], r.word[wordHost][k], r.word[wordLabels][k]},
		device:     r.word[wordDevice][k], kernel: r.word[wordKernel][k], dtype: r.word[wordDType][k], regime: r.word[wordRegime][k],
		operation: r.word[wordOperation][k], layout: r.word[wordLayout][k], dims: r.word[wordDims][k], operands: r.word[wordOperands][k],
		m: r.count[countM][k], n: r.count[countN][k], k: r.count[countK][k], threads: r.count[countThreads][k], inside: r.count[countInside][k] != 0,
	}
	c := r.cases[id]
	if c == nil {
		var err error
		if c, err = r.newCase(id, word); err != nil {
			return err
		}
	}
	if text := word(wordCeilings); text != "" {
		if _, known := c.run.Meta.Ceilings[c.c.Device]; !known {
			var rates kernels.Ceilings
			if err := json.Unmarshal([]byte(text), &rates); err != nil {
				return fmt.Errorf("ceilings of device %.40q: %w", c.c.Device, err)
			}
			if err := checkRates(rates); err != nil {
				return fmt.Errorf("ceilings of device %.40q: %w", c.c.Device, err)
			}
			c.run.Meta.Ceilings[c.c.Device] = rates
		}
	}
	s := Sample{CaseID: c.c.ID, Phase: phase, Round: int(r.count[countRound][k]), Seq: r.count[countSeq][k], StartedUnixMicro: r.count[countStarted][k], Launches: 1,
		US: r.figure[figureUS][k], ClockMHz: r.figure[figureClock][k], PowerW: r.figure[figurePower][k], TempC: r.figure[figureTemp][k], Throttle: word(wordThrottle)}
	if err := s.check(); err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	switch phase {
	case PhaseSweep:
		c.samples = append(c.samples, s)
	case PhaseSentinel:
		c.run.Sentinels = append(c.run.Sentinels, s)
	default:
		c.sustained = append(c.sustained, s)
	}
	return nil
}

// newCase begins a case, and its run where that is new.
func (r *parquetReader) newCase(id parquetCase, word func(int) string) (*exportedCase, error) {
	run := r.runs[id.parquetRun]
	if run == nil {
		labels, err := decodeLabels(word(wordLabels))
		if err != nil {
			return nil, err
		}
		run = &exportedRun{ExportedRun: ExportedRun{Run: word(wordRun), Host: word(wordHost), Labels: labels, Cards: map[string]string{}, Meta: r.meta}, keys: map[SeriesKey]int{}}
		run.Meta.Ceilings = map[string]kernels.Ceilings{}
		for device, c := range r.meta.Ceilings {
			run.Meta.Ceilings[device] = c
		}
		run.Meta.Fingerprint.Devices = slices.Clone(r.meta.Fingerprint.Devices)
		run.Meta.Fingerprint.Hostname = cmp.Or(run.Host, r.meta.Fingerprint.Hostname)
		run.Host = run.Meta.Fingerprint.Hostname
		r.runs[id.parquetRun] = run
		r.order = append(r.order, run)
	}
	c := Case{ID: int64(len(r.caseOf)) + 1, M: int(id.m), SeriesKey: SeriesKey{Device: word(wordDevice), Kernel: word(wordKernel),
		Regime: Regime(word(wordRegime)), Threads: int(id.threads), PackInside: id.inside}}
	if err := exportedSubject(&c.Subject, id, word); err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if card := word(wordCard); card != "" {
		run.Cards[c.Device] = card
	}
	devices := &run.Meta.Fingerprint.Devices
	if !slices.ContainsFunc(*devices, func(d kernels.Spec) bool { return d.ID == c.Device }) {
		*devices = append(*devices, kernels.Spec{ID: c.Device, Kind: kernels.KindOf(c.Device), Name: cmp.Or(word(wordModel), c.Device), UUID: word(wordCard)})
	}
	out := &exportedCase{run: run, c: c}
	r.cases[id] = out
	r.caseOf = append(r.caseOf, out)
	return out, nil
}

// exportedSubject is the reverse of [exportedIdentity].
func exportedSubject(s *kernels.Subject, id parquetCase, word func(int) string) (err error) {
	if name := word(wordOperation); name != "" {
		if s.Operation, err = kernels.ParseOperation(name); err != nil {
			return err
		}
	}
	if s.DType, err = kernels.ParseDType(word(wordDType)); err != nil {
		return err
	}
	if s.Operation == kernels.GEMM {
		s.N, s.K = int(id.n), int(id.k)
	}
	if text := word(wordDims); text != "" {
		var dims map[string]int
		if err := json.Unmarshal([]byte(text), &dims); err != nil {
			return fmt.Errorf("dims %.80q: expected a JSON object of whole numbers", text)
		}
		for _, d := range s.Operation.Dims() {
			*d.In(&s.Dims) = dims[d.Name]
		}
	}
	if text := word(wordLayout); text != "" {
		if s.Layout, err = kernels.ParseLayout(text); err != nil {
			return err
		}
	}
	if text := word(wordOperands); text != "" {
		var types operands
		if err := json.Unmarshal([]byte(text), &types); err != nil {
			return fmt.Errorf("operands %.80q: expected a JSON object of operands", text)
		}
		types.fill(s)
	}
	return s.Validate()
}

// result arranges what was read as a run file's [Run.Load] does.
func (r *parquetReader) result() []ExportedRun {
	bySeq := func(a, b Sample) int { return cmp.Compare(a.Seq, b.Seq) }
	for _, c := range r.caseOf {
		if !slices.IsSortedFunc(c.samples, bySeq) {
			slices.SortFunc(c.samples, bySeq)
		}
		if len(c.sustained) > 0 {
			slices.SortFunc(c.sustained, bySeq)
			c.run.Sustained = append(c.run.Sustained, Row{Case: c.c, Samples: c.sustained})
		}
		if len(c.samples) == 0 {
			continue
		}
		at, ok := c.run.keys[c.c.SeriesKey]
		if !ok {
			at = len(c.run.Series)
			c.run.keys[c.c.SeriesKey] = at
			c.run.Series = append(c.run.Series, Series{Key: c.c.SeriesKey, Peak: peakOf(c.run.Meta, c.c.SeriesKey),
				Bandwidth: c.run.Meta.Ceilings[c.c.Device].Bandwidth(c.c.Operation)})
		}
		s := &c.run.Series[at]
		s.Rows = append(s.Rows, Row{Case: c.c, Samples: c.samples})
	}
	var out []ExportedRun
	for _, run := range r.order {
		if !slices.IsSortedFunc(run.Sentinels, bySeq) {
			slices.SortFunc(run.Sentinels, bySeq)
		}
		for i := range run.Series {
			rows := run.Series[i].Rows
			slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Case.M, b.Case.M), cmp.Compare(a.Case.ID, b.Case.ID)) })
		}
		slices.SortFunc(run.Series, func(a, b Series) int { return a.Key.compare(b.Key) })
		if run.Meta.Created.IsZero() {
			run.Meta.Created = firstStart(run.Series)
		}
		out = append(out, run.ExportedRun)
	}
	return out
}

// firstStart is when the first sample of curves was taken, zero where they do not tell.
func firstStart(series []Series) time.Time {
	var first int64
	for _, s := range series {
		for _, row := range s.Rows {
			for i := range row.Samples {
				if at := row.Samples[i].StartedUnixMicro; at > 0 && (first == 0 || at < first) {
					first = at
				}
			}
		}
	}
	if first == 0 {
		return time.Time{}
	}
	return time.UnixMicro(first).UTC()
}
