package report

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// columns holds the numbers of a page's rows and samples, one typed array each. They are little-endian, like
// every machine that runs a browser. A row has the same index in all row arrays. Its samples follow the
// samples of the row before.
type columns struct {
	m, reference             []uint32
	us, lo, hi, seen         []float32 // microseconds
	mfu, expected, loss      []float32 // NaN where unknown
	clock, samples, kept     []uint16  // MHz; samples measured; samples in the page
	label                    []uint16
	verdict                  []uint8
	ratio, ratioLo, ratioHi  []float32 // comparison of two runs: time of B ÷ time of A
	change                   []uint8
	quantiles                []float32 // five for each row with kept < samples
	sampleUS, sampleTime     []float32 // microseconds; seconds since the first sample
	sampleClock, samplePower []uint16  // MHz; tenths of a watt
	sampleState              []uint8   // index in the list of conditions
	first                    int64     // start of the first sample, microseconds since 1970
	labels, conditions       map[string]int
}

// The codes of verdicts in the page. inferredRow is added to the code of an inferred row.
const (
	codeNone = iota
	codeClean
	codeMarginal
	codeUndecided
	codeAnomalous
	codeFailed
	inferredRow = 8
)

func verdictCode(v rules.Verdict) uint8 {
	switch v {
	case rules.Clean:
		return codeClean
	case rules.Marginal:
		return codeMarginal
	case rules.Undecided:
		return codeUndecided
	case rules.Anomalous:
		return codeAnomalous
	}
	return codeNone
}

func changeCode(c change.Kind) uint8 {
	return uint8(1 + slices.Index([]change.Kind{change.Same, change.Open, change.Faster, change.Slower, change.AtThreshold,
		change.SuspectedSlower, change.SuspectedFaster}, c))
}

func (c *columns) start(series []results.Series) {
	c.labels, c.conditions = map[string]int{"": 0}, map[string]int{"": 0}
	rows, samples := 0, 0
	for _, s := range series {
		rows += len(s.Rows)
		for _, r := range s.Rows {
			samples += len(r.Samples)
		}
	}
	c.first = firstSample(series)
	c.m = slices.Grow(c.m, rows)
	samples = min(samples, mostSamples)
	c.sampleUS, c.sampleTime = slices.Grow(c.sampleUS, samples), slices.Grow(c.sampleTime, samples)
}

// firstSample is the start of the earliest sample in microseconds since 1970, 0 if unknown.
func firstSample(series []results.Series) int64 {
	first := int64(0)
	for _, s := range series {
		for _, r := range s.Rows {
			for i := range r.Samples {
				if t := r.Samples[i].StartedUnixMicro; t > 0 && (first == 0 || t < first) {
					first = t
				}
			}
		}
	}
	return first
}

// place returns the index of a text in a list and adds it if it is new. After most texts,
// all new ones share the entry "others".
func place(list *[]string, places map[string]int, text string, most int) int {
	text = Clean(text)
	if at, ok := places[text]; ok {
		return at
	}
	if len(*list) == most {
		text = "others"
	}
	if at, ok := places[text]; ok {
		return at
	}
	places[text] = len(*list)
	*list = append(*list, text)
	return len(*list) - 1
}

const (
	mostLabels     = math.MaxUint16
	mostConditions = math.MaxUint8
)

// add appends a row with its samples, or with their quantiles if keep is not set.
func (d *interactive) add(r joinedRow, keep bool, threshold float64) {
	c, v := &d.columns, r.verdict
	code := verdictCode(v.Verdict)
	if r.failed {
		code = codeFailed
	}
	if v.Inferred {
		code += inferredRow
	}
	c.m, c.reference = append(c.m, word32(v.M)), append(c.reference, word32(v.Reference))
	c.us, c.lo, c.hi = append(c.us, positive(v.US.Mid)), append(c.lo, positive(v.US.Lo)), append(c.hi, positive(v.US.Hi))
	c.seen, c.mfu, c.expected = append(c.seen, positive(r.seen.Mid)), append(c.mfu, positive(v.MFU.Mid)),
		append(c.expected, positive(v.Expected))
	loss := float32(math.NaN())
	if v.Expected > 0 && threshold > 0 && v.MFU.Mid > 0 {
		loss = float32(1 - v.MFU.Mid*threshold/v.Expected)
	}
	c.loss = append(c.loss, loss)
	clock := v.ClockMHz
	if clock == 0 {
		var clocks []float64
		for i := range r.samples {
			if r.samples[i].ClockMHz > 0 {
				clocks = append(clocks, r.samples[i].ClockMHz)
			}
		}
		clock = stats.Median(clocks)
	}
	c.clock, c.verdict = append(c.clock, word16(clock)), append(c.verdict, code)
	c.label = append(c.label, uint16(place(&d.Labels, c.labels, v.Label, mostLabels)))
	c.samples = append(c.samples, word16(float64(len(r.samples))))
	if !keep {
		c.kept = append(c.kept, 0)
		c.quantiles = append(c.quantiles, quantilesOf(r.samples)...)
		return
	}
	n := min(len(r.samples), math.MaxUint16)
	c.kept = append(c.kept, uint16(n))
	for i := range r.samples[:n] {
		s := &r.samples[i]
		c.sampleUS = append(c.sampleUS, positive(s.US))
		at := 0.0
		if s.StartedUnixMicro > 0 {
			at = float64(s.StartedUnixMicro-c.first) * 1e-6
		}
		c.sampleTime = append(c.sampleTime, float32(at))
		c.sampleClock, c.samplePower = append(c.sampleClock, word16(s.ClockMHz)), append(c.samplePower, word16(10*s.PowerW))
		state := string(s.Throttle)
		if s.Disturbance != "" {
			if state != "" {
				state += ", "
			}
			state += s.Disturbance
		}
		c.sampleState = append(c.sampleState, uint8(place(&d.Conditions, c.conditions, state, mostConditions)))
	}
}

// quantilesOf returns minimum, quartiles and maximum of the sample times, NaN without samples.
func quantilesOf(samples []results.Sample) []float32 {
	var us []float64
	for i := range samples {
		if s := samples[i].US; IsFinite(s) && s > 0 {
			us = append(us, s)
		}
	}
	slices.Sort(us)
	out := make([]float32, 5)
	for i := range out {
		out[i] = float32(math.NaN())
		if len(us) > 0 {
			out[i] = float32(stats.Quantile(us, float64(i)/4))
		}
	}
	return out
}

func positive(v float64) float32 {
	if !IsFinite(v) || v <= 0 {
		return float32(math.NaN())
	}
	return float32(v)
}

func word32(v int) uint32 { return uint32(max(0, min(v, math.MaxUint32))) }

func word16(v float64) uint16 {
	if !(v > 0) {
		return 0
	}
	return uint16(math.Round(min(v, math.MaxUint16)))
}

// write writes each non-empty array as an element with its name, in base64.
func (c *columns) write(w *bufio.Writer) error {
	for _, a := range []struct {
		name, kind string
		values     any
	}{
		{"m", "Uint32", c.m}, {"reference", "Uint32", c.reference}, {"us", "Float32", c.us}, {"lo", "Float32", c.lo},
		{"hi", "Float32", c.hi},
		{"seen", "Float32", c.seen}, {"mfu", "Float32", c.mfu}, {"expected", "Float32", c.expected}, {"loss", "Float32", c.loss},
		{"clock", "Uint16", c.clock}, {"samples", "Uint16", c.samples}, {"kept", "Uint16", c.kept}, {"label", "Uint16", c.label},
		{"verdict", "Uint8", c.verdict},
		{"ratio", "Float32", c.ratio}, {"ratioLo", "Float32", c.ratioLo}, {"ratioHi", "Float32", c.ratioHi}, {"change", "Uint8", c.change},
		{"quantiles", "Float32", c.quantiles}, {"sampleUS", "Float32", c.sampleUS}, {"sampleTime", "Float32", c.sampleTime},
		{"sampleClock", "Uint16", c.sampleClock}, {"samplePower", "Uint16", c.samplePower}, {"sampleState", "Uint8", c.sampleState},
	} {
		if binary.Size(a.values) == 0 {
			continue
		}
		if err := writeColumn(w, a.name, a.kind, a.values); err != nil {
			return err
		}
	}
	return nil
}

// writeColumn writes numbers as an element that no browser executes. kind names the JavaScript typed array.
func writeColumn(w io.Writer, name, kind string, values any) error {
	fmt.Fprintf(w, "<script type=\"text/plain\" id=\"column-%s\" data-kind=\"%s\">", name, kind)
	encoder := base64.NewEncoder(base64.StdEncoding, w)
	if err := binary.Write(encoder, binary.LittleEndian, values); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, "</script>\n")
	return err
}
