package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Format is an export format for samples.
type Format string

// The formats. All have the columns of a samples CSV, one line per sample.
const (
	FormatCSV     Format = "csv"     // readable by package importing
	FormatJSONL   Format = "jsonl"   // one JSON object per line
	FormatParquet Format = "parquet" // Zstandard-compressed
	// FormatSpreadsheet is FormatCSV with texts escaped by [SpreadsheetCell]. [ParseFormat] has no name for
	// it, and importing does not unescape.
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

// Word is a text that is null in JSON and Parquet if empty, meaning unknown.
type Word string

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

// Instant is a time in microseconds since 1970, 0 if unknown: RFC 3339 in JSON and CSV, a timestamp in
// Parquet.
type Instant int64

// instantLayout is RFC 3339 with microseconds.
const instantLayout = "2006-01-02T15:04:05.000000Z07:00"

// String returns the time in UTC, empty if unknown.
func (t Instant) String() string {
	if t == 0 {
		return ""
	}
	return time.UnixMicro(int64(t)).UTC().Format(instantLayout)
}

// MarshalJSON writes the time, null if unknown.
func (t Instant) MarshalJSON() ([]byte, error) { return Word(t.String()).MarshalJSON() }

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Instant) UnmarshalJSON(b []byte) (err error) {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t, err = ParseInstant(s)
	return err
}

// ParseInstant reads RFC 3339; an empty text is an unknown time.
func ParseInstant(s string) (Instant, error) {
	if s == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || at.UnixMicro() < 0 {
		return 0, errors.New("is no time since 1970, as in 2006-01-02T15:04:05Z")
	}
	return Instant(at.UnixMicro()), nil
}

// Line is one sample with its case and the run's conditions: one line of an export. Names include units.
// Unknown clock, power, temperature and Utils are nil: null in JSON and Parquet, empty in CSV.
type Line struct {
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
	Phase        results.Phase        `json:"phase" parquet:"phase,dict"`
	Seq          int64                `json:"seq" parquet:"seq"`
	Started      Instant              `json:"started" parquet:"started,optional,timestamp(microsecond)"`
	Launches     int                  `json:"launches" parquet:"launches"`
	Throttle     kernels.Throttle     `json:"throttle" parquet:"throttle,dict"`
	Disturbance  string               `json:"disturbance" parquet:"disturbance,dict"`
	Regime       results.Regime       `json:"regime" parquet:"regime,dict"`
	Threads      int                  `json:"threads" parquet:"threads"`
	PackInside   bool                 `json:"pack_inside" parquet:"pack_inside"`
	Parts        string               `json:"parts" parquet:"parts,dict"` // "192+1988", "copied", empty for a single launch
	PadTo        int                  `json:"pad_to" parquet:"pad_to"`
	Label        Word                 `json:"label" parquet:"label,dict,optional"`
	Distribution kernels.Distribution `json:"distribution" parquet:"distribution,dict"`
	// Seed is text: many JSON readers can't hold 64 bits.
	Seed string `json:"seed" parquet:"seed,dict"`
	// Below, nil and empty mean unknown.
	Allocation  int      `json:"allocation" parquet:"allocation"`
	EnergyMJ    *float64 `json:"energy_mj" parquet:"energy_mj,optional"` // of one launch
	HostUS      *float64 `json:"host_us" parquet:"host_us,optional"`     // of the host, to start one launch
	Utils       *float64 `json:"utils" parquet:"utils,optional"`         // the published MFU
	TileM       *int     `json:"tile_m" parquet:"tile_m,optional"`
	TileN       *int     `json:"tile_n" parquet:"tile_n,optional"`
	TileK       *int     `json:"tile_k" parquet:"tile_k,optional"`
	Waves       *float64 `json:"waves" parquet:"waves,optional"`
	Split       *int     `json:"split" parquet:"split,optional"`
	Orientation Word     `json:"orientation" parquet:"orientation,dict,optional"`
	Run         Word     `json:"run" parquet:"run,dict,optional"` // id of the measuring run
	Host        Word     `json:"host" parquet:"host,dict,optional"`
	Card        Word     `json:"card" parquet:"card,dict,optional"`     // UUID or serial number
	Labels      Word     `json:"labels" parquet:"labels,dict,optional"` // a JSON object, as text in JSON
	// Operation is "gemm"; Layout is its weights' layout, empty without weights.
	Operation string `json:"operation" parquet:"operation,dict"`
	Layout    string `json:"layout" parquet:"layout,dict"`
	// Dims is a JSON object of the dimensions other than M, empty if only N and K. Operands is a JSON object
	// of the operand types, empty if DType determines them.
	Dims     string `json:"dims" parquet:"dims,dict"`
	Operands string `json:"operands" parquet:"operands,dict"`
	// Ceilings is a JSON object of the device's [kernels.Ceilings], the reference of MFU, on the device's
	// first line; otherwise, or if unknown, empty.
	Ceilings string `json:"ceilings" parquet:"ceilings,dict"`
	// DeviceName is the device's model, "NVIDIA H200".
	DeviceName Word `json:"device_name" parquet:"device_name,dict,optional"`
	// MFU is relative to the device's peak; nil if that is unknown.
	MFU *float64 `json:"mfu" parquet:"mfu,optional"`
	// USAtClock is the time in microseconds at the clock ReferenceMHz, as used for verdicts; nil if clocks
	// are unknown.
	USAtClock    *float64 `json:"us_at_clock" parquet:"us_at_clock,optional"`
	ReferenceMHz *float64 `json:"reference_clock_mhz" parquet:"reference_clock_mhz,optional"`
}

// cells lists the values of CSV columns; unknown ones are empty.
func (e *Line) cells(to []string) []string {
	to = to[:0]
	for i := range exportColumns {
		to = append(to, cellText(exportColumns[i].Value(e)))
	}
	return to
}

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

// told returns a known figure, or nil for 0.
func told[T int | float64](x T) *T {
	if x == 0 {
		return nil
	}
	return &x
}

// number prints a float with enough digits to read it back exactly.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Samples selects the exported samples. The zero value selects all, in order of seq.
type Samples struct {
	// Phases are the exported phases; empty for all.
	Phases []results.Phase
	// Select, if not nil, reports whether to export a sample.
	Select func(*Line) (bool, error)
	// Arrange, if not nil, receives all selected samples and returns those to write, in order.
	Arrange func([]*Line) ([]*Line, error)
	// AtClock, if not nil, returns a sample's time in microseconds at the clock of its case's verdict, and
	// that clock in MHz; zeros if unknown.
	AtClock func(c results.Case, s results.Sample) (us, mhz float64)
}

// Write writes samples to w in order of seq unless arranged. Failures have no time and are not exported.
// A run without samples in the phases is an error; an empty selection is not.
func Write(r *results.Run, w io.Writer, format Format, some Samples) error {
	cases, err := r.Cases()
	if err != nil {
		return err
	}
	byID := make(map[int64]results.Case, len(cases))
	identities := map[kernels.Subject]results.Identity{}
	for _, c := range cases {
		byID[c.ID] = c
		if _, known := identities[c.Subject]; !known {
			if identities[c.Subject], err = results.ExportedIdentity(c.SeriesKey); err != nil {
				return fmt.Errorf("export %s: %w", r.Path(), err)
			}
		}
	}
	origins, err := exportedOrigins(r)
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
		return fmt.Errorf("export %s: %w", r.Path(), err)
	}
	models := map[string]string{}
	for _, d := range meta.Fingerprint.Devices {
		models[d.ID] = d.Name
	}
	roofs := exportRoofs{meta.Ceilings, map[results.SeriesKey]float64{}}
	n := 0
	var failed, unselected error // of the sink and the selection, not of the run
	write := func(e *Line) {
		e.Ceilings = ceilings[e.Device]
		delete(ceilings, e.Device)
		failed = sink.write(e)
	}
	var all []*Line // used only with Arrange
	err = r.EachWithOrigin(func(s results.Sample, origin int64) error {
		if len(some.Phases) > 0 && !slices.Contains(some.Phases, s.Phase) {
			return nil
		}
		c, ok := byID[s.CaseID]
		if !ok {
			return fmt.Errorf("%v: there is no such case", s)
		}
		o, id := origins[origin], identities[c.Subject]
		n++
		e := &Line{
			Device: c.Device, Kernel: c.Kernel, DType: c.DType, M: c.M, N: c.N, K: c.K, Round: s.Round, US: s.US,
			ClockMHz: told(s.ClockMHz), PowerW: told(s.PowerW), TempC: told(s.TempC), Phase: s.Phase, Seq: s.Seq,
			Started:  Instant(s.StartedUnixMicro),
			Launches: s.Launches, Throttle: s.Throttle, Disturbance: s.Disturbance, Regime: c.Regime, Threads: c.Threads,
			PackInside: c.PackInside, Parts: c.StoredParts(), PadTo: c.PadTo, Label: Word(c.Label),
			Distribution: meta.Distribution, Seed: seed,
			Allocation: s.Allocation, EnergyMJ: told(s.EnergyMJ), HostUS: told(s.HostUS), Utils: told(s.Utils),
			TileM: told(c.Launch.Tile[0]), TileN: told(c.Launch.Tile[1]), TileK: told(c.Launch.Tile[2]),
			Waves: told(c.Launch.Waves), Split: told(c.Launch.Split), Orientation: Word(c.Launch.Orientation),
			Run: Word(o.run), Host: Word(o.host), Card: Word(o.card), Labels: Word(o.labels), DeviceName: Word(models[c.Device]),
			Operation: id.Operation, Layout: id.Layout, Dims: id.Dims, Operands: id.Operands,
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
		return fmt.Errorf("export %s: the run has no samples%s", r.Path(), ofPhases(some.Phases))
	}
	if failed == nil {
		failed = sink.close()
	}
	if failed == nil {
		failed = buffered.Flush()
	}
	if failed != nil {
		return fmt.Errorf("export %s as %s: %w", r.Path(), format, failed)
	}
	return nil
}

// exportRoofs caches the reference rates of MFU in FLOP/s.
type exportRoofs struct {
	ceilings map[string]kernels.Ceilings
	found    map[results.SeriesKey]float64
}

// of returns the roof of a case; 0 if unknown.
func (x exportRoofs) of(c results.Case) float64 {
	roof, ok := x.found[c.SeriesKey]
	if !ok {
		if peak, known := x.ceilings[c.Device].Roof(c.Subject); known {
			roof = peak.FLOPS
		}
		x.found[c.SeriesKey] = roof
	}
	return roof
}

func exportedCeilings(meta results.Meta) (map[string]string, error) {
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

// exportedOrigin is the origin of a sample as exported.
type exportedOrigin struct{ run, host, card, labels string }

func exportedOrigins(r *results.Run) (map[int64]exportedOrigin, error) {
	origins, err := r.Origins()
	out := map[int64]exportedOrigin{}
	for _, o := range origins {
		of := exportedOrigin{run: o.Run, host: o.Host, card: o.Card}
		if len(o.Labels) > 0 {
			of.labels = results.EncodeLabels(o.Labels)
		}
		out[o.ID] = of
	}
	return out, err
}

var errStop = errors.New("stop")

func ofPhases(phases []results.Phase) string {
	if len(phases) == 0 {
		return ""
	}
	words := make([]string, len(phases))
	for i, p := range phases {
		words[i] = string(p)
	}
	return " of phase " + strings.Join(words, " or ")
}
