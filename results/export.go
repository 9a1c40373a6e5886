package results

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Format is a form in which samples leave a run.
type Format string

// The formats. All have the columns of a samples CSV under the same names, one
// line a sample.
const (
	FormatCSV     Format = "csv"     // what [Import] reads back
	FormatJSONL   Format = "jsonl"   // one JSON object a line
	FormatParquet Format = "parquet" // Zstandard-compressed
	// FormatSpreadsheet is FormatCSV with its words guarded by [SpreadsheetCell]; it has no name
	// that [ParseFormat] reads, and [Import] does not take the guard away.
	FormatSpreadsheet Format = "csv for a spreadsheet"
)

// ParseFormat reads a format by its name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(strings.ToLower(strings.TrimSpace(s))); f {
	case FormatCSV, FormatJSONL, FormatParquet:
		return f, nil
	}
	return "", fmt.Errorf("unknown format %q: expected one of csv, jsonl, parquet", s)
}

// Word is text that is null in JSON and Parquet where it is empty, which stands for unknown.
type Word string

// MarshalJSON writes null for an empty word.
func (w Word) MarshalJSON() ([]byte, error) {
	if w == "" {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(string(w))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Instant is a time in microseconds since 1970, 0 where it is not known. It is an RFC 3339 time in JSON and
// CSV, and a timestamp in Parquet.
type Instant int64

// instantLayout is RFC 3339 with microseconds.
const instantLayout = "2006-01-02T15:04:05.000000Z07:00"

// String is the time in UTC, empty where it is not known.
func (t Instant) String() string {
	if t == 0 {
		return ""
	}
	return time.UnixMicro(int64(t)).UTC().Format(instantLayout)
}

// MarshalJSON writes the time, null where it is not known.
func (t Instant) MarshalJSON() ([]byte, error) { return Word(t.String()).MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Instant) UnmarshalJSON(b []byte) (err error) {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t, err = parseInstant(s)
	return err
}

// parseInstant reads an RFC 3339 time from 1970 on; empty is unknown.
func parseInstant(s string) (Instant, error) {
	if s == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || at.UnixMicro() < 0 {
		return 0, errors.New("is no time since 1970, as in 2006-01-02T15:04:05Z")
	}
	return Instant(at.UnixMicro()), nil
}

// Exported is one sample with its case and the run's conditions: one line of an
// export. Units are in the names; clock, power and temperature are nil where
// the device did not tell, as is Utils where none was published: null in JSON and Parquet, empty in CSV.
type Exported struct {
	Device       string               `json:"device" parquet:"device,dict"`
	Kernel       string               `json:"kernel" parquet:"kernel,dict"`
	DType        kernels.DType        `json:"dtype" parquet:"dtype,dict"`
	M            int                  `json:"m" parquet:"m"`
	N            int                  `json:"n" parquet:"n"`
	K            int                  `json:"k" parquet:"k"`
	Round        int                  `json:"round" parquet:"round"`
	US           float64              `json:"us" parquet:"us"`
	ClockMHz     *float64             `json:"clock_mhz" parquet:"clock_mhz,optional"`
	PowerW       *float64             `json:"power_w" parquet:"power_w,optional"`
	TempC        *float64             `json:"temp_c" parquet:"temp_c,optional"`
	Phase        Phase                `json:"phase" parquet:"phase,dict"`
	Seq          int64                `json:"seq" parquet:"seq"`
	Started      Instant              `json:"started" parquet:"started,optional,timestamp(microsecond)"`
	Launches     int                  `json:"launches" parquet:"launches"`
	Throttle     kernels.Throttle     `json:"throttle" parquet:"throttle,dict"`
	Disturbance  string               `json:"disturbance" parquet:"disturbance,dict"`
	Regime       Regime               `json:"regime" parquet:"regime,dict"`
	Threads      int                  `json:"threads" parquet:"threads"`
	PackInside   bool                 `json:"pack_inside" parquet:"pack_inside"`
	Parts        string               `json:"parts" parquet:"parts,dict"` // "192+1988", "copied", empty for a single launch
	PadTo        int                  `json:"pad_to" parquet:"pad_to"`
	Label        Word                 `json:"label" parquet:"label,dict,optional"`
	Distribution kernels.Distribution `json:"distribution" parquet:"distribution,dict"`
	// Seed is text: it uses all 64 bits, more than many readers of JSON keep.
	Seed string `json:"seed" parquet:"seed,dict"`
	// Of what follows, nil and empty stand for what is not known.
	Allocation  int      `json:"allocation" parquet:"allocation"`
	EnergyMJ    *float64 `json:"energy_mj" parquet:"energy_mj,optional"` // of one launch
	Utils       *float64 `json:"utils" parquet:"utils,optional"`         // MFU as it was published
	TileM       *int     `json:"tile_m" parquet:"tile_m,optional"`
	TileN       *int     `json:"tile_n" parquet:"tile_n,optional"`
	TileK       *int     `json:"tile_k" parquet:"tile_k,optional"`
	Waves       *float64 `json:"waves" parquet:"waves,optional"`
	Split       *int     `json:"split" parquet:"split,optional"`
	Orientation Word     `json:"orientation" parquet:"orientation,dict,optional"`
	Run         Word     `json:"run" parquet:"run,dict,optional"` // the id of the run that measured
	Host        Word     `json:"host" parquet:"host,dict,optional"`
	Card        Word     `json:"card" parquet:"card,dict,optional"`     // UUID or serial number
	Labels      Word     `json:"labels" parquet:"labels,dict,optional"` // a JSON object, of text in JSON
	// Operation is "gemm"; Layout is that of its weights, empty where there are none.
	Operation string `json:"operation" parquet:"operation,dict"`
	Layout    string `json:"layout" parquet:"layout,dict"`
	// Dims is a JSON object of the dimensions beside M, empty where N and K are all.
	// Operands is one of the operands' types, empty where they follow from DType.
	Dims     string `json:"dims" parquet:"dims,dict"`
	Operands string `json:"operands" parquet:"operands,dict"`
	// Ceilings is a JSON object of the device's [kernels.Ceilings], to which MFU is relative, on the
	// device's first line; empty on its others, and where none are known.
	Ceilings string `json:"ceilings" parquet:"ceilings,dict"`
	// DeviceName is the device's model, "NVIDIA H200".
	DeviceName Word `json:"device_name" parquet:"device_name,dict,optional"`
	// MFU is relative to the device's peak; nil where none is known.
	MFU *float64 `json:"mfu" parquet:"mfu,optional"`
	// USAtClock is the time in microseconds at the clock ReferenceMHz, by which rows are judged; nil where
	// clocks are not known.
	USAtClock    *float64 `json:"us_at_clock" parquet:"us_at_clock,optional"`
	ReferenceMHz *float64 `json:"reference_clock_mhz" parquet:"reference_clock_mhz,optional"`
}

// cells lists the values of the columns of a CSV. What is unknown is empty.
func (e *Exported) cells(to []string) []string {
	to = to[:0]
	for i := range exportColumns {
		to = append(to, cellText(exportColumns[i].Value(e)))
	}
	return to
}

// cellText is a value as a CSV has it.
func cellText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case float64:
		return number(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// told is a figure that is known, nil for 0, which stands for none.
func told[T int | float64](x T) *T {
	if x == 0 {
		return nil
	}
	return &x
}

// number prints a float with as many digits as it takes to read it back exactly.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Samples says which samples are exported. The zero value is all of them, in order of seq.
type Samples struct {
	// Phases are those whose samples are exported, all where none is given.
	Phases []Phase
	// Select, unless nil, says whether a sample is exported.
	Select func(*Exported) (bool, error)
	// Arrange, unless nil, gets all that were selected, and returns what is written in its order.
	Arrange func([]*Exported) ([]*Exported, error)
	// AtClock, unless nil, is the time of a sample in microseconds at the clock at which its case is judged, and that
	// clock in MHz; 0 and 0 where they are not known.
	AtClock func(c Case, s Sample) (us, mhz float64)
}

// Export is [ExportSome] of all samples of the given phases, of all phases when none is given.
func Export(r *Run, w io.Writer, format Format, phases ...Phase) error {
	return ExportSome(r, w, format, Samples{Phases: phases})
}

// ExportSome writes samples to w, one after the other, in order of seq unless they are arranged. Failures
// have no time and are not exported. A run without a sample in the phases is an error; one of which
// nothing is selected is none.
func ExportSome(r *Run, w io.Writer, format Format, some Samples) error {
	cases, err := r.Cases()
	if err != nil {
		return err
	}
	byID := make(map[int64]Case, len(cases))
	identities := map[kernels.Subject]identity{}
	for _, c := range cases {
		byID[c.ID] = c
		if _, known := identities[c.Subject]; !known {
			if identities[c.Subject], err = exportedIdentity(c.SeriesKey); err != nil {
				return fmt.Errorf("export %s: %w", r.path, err)
			}
		}
	}
	origins, err := r.exportedOrigins()
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(w, 1<<16)
	meta := r.Meta()
	sink, err := newSink(format, buffered, r)
	if err != nil {
		return err
	}
	seed := strconv.FormatUint(meta.Seed, 10)
	ceilings, err := exportedCeilings(meta)
	if err != nil {
		return fmt.Errorf("export %s: %w", r.path, err)
	}
	models := map[string]string{}
	for _, d := range meta.Fingerprint.Devices {
		models[d.ID] = d.Name
	}
	roofs := exportRoofs{meta.Ceilings, map[SeriesKey]float64{}}
	n := 0
	var failed, unselected error // of the sink and of the selection, which are not the run's fault
	write := func(e *Exported) {
		e.Ceilings = ceilings[e.Device]
		delete(ceilings, e.Device)
		failed = sink.write(e)
	}
	var all []*Exported // where they are arranged
	err = r.eachSample("", func(s Sample, origin int64) error {
		if len(some.Phases) > 0 && !slices.Contains(some.Phases, s.Phase) {
			return nil
		}
		c, ok := byID[s.CaseID]
		if !ok {
			return fmt.Errorf("%v: there is no such case", s)
		}
		from, ok := origins.of(c.Device, origin)
		if !ok {
			return fmt.Errorf("%v: there is no origin %d", s, origin)
		}
		o, id := origins.exported[from], identities[c.Subject]
		n++
		e := &Exported{
			Device: c.Device, Kernel: c.Kernel, DType: c.DType, M: c.M, N: c.N, K: c.K, Round: s.Round, US: s.US,
			ClockMHz: told(s.ClockMHz), PowerW: told(s.PowerW), TempC: told(s.TempC), Phase: s.Phase, Seq: s.Seq, Started: Instant(s.StartedUnixMicro),
			Launches: s.Launches, Throttle: s.Throttle, Disturbance: s.Disturbance, Regime: c.Regime, Threads: c.Threads,
			PackInside: c.PackInside, Parts: c.storedParts(), PadTo: c.PadTo, Label: Word(c.Label),
			Distribution: meta.Distribution, Seed: seed,
			Allocation: s.Allocation, EnergyMJ: told(s.EnergyMJ), Utils: told(s.Utils),
			TileM: told(c.Launch.Tile[0]), TileN: told(c.Launch.Tile[1]), TileK: told(c.Launch.Tile[2]),
			Waves: told(c.Launch.Waves), Split: told(c.Launch.Split), Orientation: Word(c.Launch.Orientation),
			Run: Word(o.run), Host: Word(o.host), Card: Word(o.card), Labels: Word(o.labels), DeviceName: Word(models[c.Device]),
			Operation: id.operation, Layout: id.layout, Dims: id.dims, Operands: id.operands,
		}
		if peak := roofs.of(c); peak > 0 {
			e.MFU = told(c.FLOPs() / (s.US * 1e-6) / peak)
		}
		if some.AtClock != nil {
			us, mhz := some.AtClock(c, s)
			e.USAtClock, e.ReferenceMHz = told(us), told(mhz)
		}
		if some.Select != nil {
			yes, err := some.Select(e)
			if err != nil {
				unselected = err
				return errStop
			}
			if !yes {
				return nil
			}
		}
		if some.Arrange != nil {
			all = append(all, e)
			return nil
		}
		if write(e); failed != nil {
			return errStop
		}
		return nil
	})
	if unselected != nil {
		return unselected
	}
	if failed == nil && err == nil && some.Arrange != nil {
		if all, err = some.Arrange(all); err == nil {
			for i := 0; i < len(all) && failed == nil; i++ {
				write(all[i])
			}
		}
	}
	if failed == nil && err != nil {
		return err
	}
	if failed == nil && n == 0 {
		return fmt.Errorf("export %s: the run has no samples%s", r.path, ofPhases(some.Phases))
	}
	if failed == nil {
		failed = sink.close()
	}
	if failed == nil {
		failed = buffered.Flush()
	}
	if failed != nil {
		return fmt.Errorf("export %s as %s: %w", r.path, format, failed)
	}
	return nil
}

// exportRoofs are what MFU is relative to, in FLOP/s, each looked up once.
type exportRoofs struct {
	ceilings map[string]kernels.Ceilings
	found    map[SeriesKey]float64
}

// of is the roof of a case; 0 stands for none.
func (x exportRoofs) of(c Case) float64 {
	roof, ok := x.found[c.SeriesKey]
	if !ok {
		if peak, known := x.ceilings[c.Device].Roof(c.Subject); known {
			roof = peak.FLOPS
		}
		x.found[c.SeriesKey] = roof
	}
	return roof
}

// exportedCeilings are the ceilings of devices as lines have them.
func exportedCeilings(meta Meta) (map[string]string, error) {
	out := map[string]string{}
	for device, c := range meta.Ceilings {
		text, err := json.Marshal(c)
		if err != nil {
			return nil, fmt.Errorf("the ceilings of device %.40q: %w", device, err)
		}
		out[device] = string(text)
	}
	return out, nil
}

// exportOrigins are the origins of a run as its lines have them.
type exportOrigins struct {
	originIndex
	exported map[int64]originWords
}

func (r *Run) exportedOrigins() (exportOrigins, error) {
	origins, err := r.Origins()
	x := exportOrigins{indexOrigins(r.schema, origins), map[int64]originWords{}}
	for _, o := range origins {
		words := originWords{run: o.Run, host: o.Host, card: o.Card}
		if len(o.Labels) > 0 {
			words.labels = encodeLabels(o.Labels)
		}
		x.exported[o.ID] = words
	}
	return x, err
}

// exportedIdentity is the identity of a series as its lines have it: what follows from
// the other columns is empty.
func exportedIdentity(k SeriesKey) (identity, error) {
	id, err := identityOf(k)
	if k.Dims == (kernels.Dims{N: k.N, K: k.K}) {
		id.dims = ""
	}
	if id.operands == canonical(operandsOf(kernels.Subject{DType: k.DType})) {
		id.operands = ""
	}
	return id, err
}

// errStop ends a walk over samples whose receiver has failed.
var errStop = errors.New("stop")

func ofPhases(phases []Phase) string {
	if len(phases) == 0 {
		return ""
	}
	words := make([]string, len(phases))
	for i, p := range phases {
		words[i] = string(p)
	}
	return " of phase " + strings.Join(words, " or ")
}

// sink takes the lines of one format.
type sink interface {
	write(e *Exported) error
	close() error
}

func newSink(format Format, w io.Writer, r *Run) (sink, error) {
	switch format {
	case FormatCSV, FormatSpreadsheet:
		s := &csvSink{w: csv.NewWriter(w), spreadsheet: format == FormatSpreadsheet}
		return s, s.w.Write(samplesColumns)
	case FormatJSONL:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return jsonSink{e}, nil
	case FormatParquet:
		options, err := parquetMeta(r)
		if err != nil {
			return nil, err
		}
		return &parquetSink{w: parquet.NewGenericWriter[Exported](w, append(options, parquet.Compression(&parquet.Zstd))...)}, nil
	}
	_, err := ParseFormat(string(format))
	return nil, err
}

// SpreadsheetCell is a cell of a CSV with an apostrophe before it where a spreadsheet would run
// it as a formula. Numbers are left as they are.
func SpreadsheetCell(s string) string {
	start := strings.TrimLeftFunc(s, unicode.IsSpace)
	first, _ := utf8.DecodeRuneInString(start)
	if start == "" || !strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// withoutControls is a cell without what a terminal would obey and an import refuses.
func withoutControls(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return -1
				}
				return r
			}, s)
		}
	}
	return s
}

type csvSink struct {
	w           *csv.Writer
	cells       []string
	spreadsheet bool
}

func (s *csvSink) write(e *Exported) error {
	s.cells = e.cells(s.cells)
	for i, cell := range s.cells {
		cell = withoutControls(cell)
		if s.spreadsheet {
			cell = SpreadsheetCell(cell)
		}
		s.cells[i] = cell
	}
	return s.w.Write(s.cells)
}

func (s *csvSink) close() error {
	s.w.Flush()
	return s.w.Error()
}

type jsonSink struct{ e *json.Encoder }

func (s jsonSink) write(e *Exported) error { return s.e.Encode(e) }
func (s jsonSink) close() error            { return nil }

// parquetBatch is how many lines go to the encoder at once.
const parquetBatch = 1024

type parquetSink struct {
	w     *parquet.GenericWriter[Exported]
	batch []Exported
}

func (s *parquetSink) write(e *Exported) error {
	if s.batch = append(s.batch, *e); len(s.batch) < parquetBatch {
		return nil
	}
	return s.flush()
}

func (s *parquetSink) flush() error {
	_, err := s.w.Write(s.batch)
	s.batch = s.batch[:0]
	return err
}

func (s *parquetSink) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.w.Close()
}
