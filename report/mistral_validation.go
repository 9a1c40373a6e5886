package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
)

// ModelValidation is a model held against float64, kernel by kernel.
type ModelValidation struct {
	ValidatedModel
	Kernels  []KernelCheck `json:"families"`
	Passes   []PassProfile `json:"passes"`
	Prefills []TableGain   `json:"prefills,omitempty"` // with the table and without
}

// ValidatedModel is what a validation ran, and on what.
type ValidatedModel struct {
	Model  string        `json:"model"`
	Device string        `json:"device"`
	Name   string        `json:"name"`
	DType  kernels.DType `json:"dtype"`
	// Weights is how those of products are held, "int4:128"; empty for plain ones.
	Weights string `json:"weights,omitempty"`
	// Threads are those of a CPU.
	Threads int `json:"threads,omitempty"`
	// Tokens is the length of the prompt.
	Tokens int `json:"tokens"`
	// Reference is the perplexity of the prompt in float64, 0 when not computed.
	Reference float64 `json:"reference_perplexity,omitempty"`
	// FullPrecision is that of the weights as they are stored, where loading has rounded them
	// to integers; 0 elsewhere.
	FullPrecision float64 `json:"full_precision_perplexity,omitempty"`
	Bound         float64 `json:"bound"` // of KernelCheck.Error
}

// KernelCheck is what one kernel of products makes of the prompt.
type KernelCheck struct {
	Kernel string `json:"kernel"`
	// Error is the largest difference of a logit from the reference, relative to the
	// range of the reference's logits; RMS the root mean square.
	Error float64 `json:"error"`
	RMS   float64 `json:"rms"`
	// Agreement is the share of tokens whose likeliest successor is the reference's.
	Agreement  float64 `json:"agreement"`
	Perplexity float64 `json:"perplexity"`
	Passed     bool    `json:"passed"`
	// NotFinite is how many logits are NaN or infinite; they are left out of the others.
	NotFinite int `json:"not_finite,omitempty"`
	// Skipped is why the kernel was not run, Untimed why it was not timed.
	Skipped string `json:"skipped,omitempty"`
	Untimed string `json:"untimed,omitempty"`
}

// PassProfile is where the time of a prompt or a token goes.
type PassProfile struct {
	Kernel string `json:"kernel"`
	// Rows is 1 for a token, which stands behind Context others.
	Rows    int       `json:"rows"`
	Context int       `json:"context"`
	US      float64   `json:"us"` // of the whole pass
	Parts   []PartRow `json:"parts"`
	Gemm    *PartRow  `json:"gemm,omitempty"` // all products together
	Peak    PeakInUse `json:"peak"`
	Read    float64   `json:"read_bandwidth"`
}

// PeakInUse is what MFU is relative to.
type PeakInUse struct {
	FLOPS  float64            `json:"flops"`
	Origin kernels.PeakOrigin `json:"origin"`
}

// PartRow is one part of a pass, over all layers.
type PartRow struct {
	Part     string  `json:"part"`
	Launches int     `json:"launches"`
	US       float64 `json:"us"`
	Share    float64 `json:"share"` // of all parts' time
	MFU      float64 `json:"mfu,omitempty"`
	// Bandwidth is the weights' bytes over the time, 0 for parts without weights.
	Bandwidth float64 `json:"bandwidth,omitempty"`
}

// TableGain is a prompt with a lookup table and without.
type TableGain struct {
	Kernel   string `json:"kernel"`
	Rows     int    `json:"rows"`
	Applied  int    `json:"applied"` // products for which the table has something
	Products int    `json:"products"`
	// PlainUS and TableUS are medians of the whole prompt.
	PlainUS float64        `json:"plain_us"`
	TableUS float64        `json:"table_us"`
	Gain    rules.Interval `json:"gain"`
}

// WriteModelValidation prints a validation. In JSONL and CSV a record's first field says
// what it is: the model, a kernel family, a pass (in CSV each part of one), or a prompt
// with the table and without.
func WriteModelValidation(w io.Writer, f Format, v *ModelValidation) error {
	type (
		model struct {
			Record string `json:"record"`
			ValidatedModel
		}
		family struct {
			Record string `json:"record"`
			KernelCheck
		}
		pass struct {
			Record string `json:"record"`
			PassProfile
		}
		prompt struct {
			Record string `json:"record"`
			TableGain
		}
	)
	doc := &Document{Subject: "model validation", Value: v,
		Items: []any{model{recordModel, v.ValidatedModel}}}
	for _, c := range v.Kernels {
		doc.Items = append(doc.Items, family{recordFamily, c})
	}
	doc.Sheets = []Sheet{v.modelSheet(), v.familySheet()}
	for _, p := range v.Passes {
		doc.Items = append(doc.Items, pass{recordPass, p})
		doc.Sheets = append(doc.Sheets, p.sheet())
	}
	if len(v.Prefills) > 0 {
		for _, g := range v.Prefills {
			doc.Items = append(doc.Items, prompt{recordPrompt, g})
		}
		doc.Sheets = append(doc.Sheets, prefillSheet(v.Prefills))
	}
	doc.Head = []Note{{fmt.Sprintf("%s in %s%s on %s (%s)%s, a prompt of %d tokens", v.Model, v.DType, withWeights(v.Weights), v.Device, v.Name, onThreads(v.Threads), v.Tokens), Neutral}}
	if len(v.Passes) > 0 && v.Passes[0].Peak.FLOPS > 0 {
		doc.Head = append(doc.Head, Note{fmt.Sprintf("MFU is relative to %s (%s)", formatOps(v.Passes[0].Peak.FLOPS, v.DType), v.Passes[0].Peak.Origin), Neutral})
	}
	if v.Reference > 0 {
		full := ""
		if v.FullPrecision > 0 {
			full = fmt.Sprintf(", with the weights as they are stored %s", significant(v.FullPrecision, 7))
		}
		doc.Notes = []Note{{fmt.Sprintf("perplexity in float64: %s%s; allowed is an error of %s of the logits' range", significant(v.Reference, 7), full, formatRaw(v.Bound)), Neutral}}
	}
	return doc.Render(w, f)
}

// What the records of a validation are called in CSV and JSONL.
const (
	recordModel  = "model"
	recordFamily = "family"
	recordPass   = "pass"
	recordPart   = "part"
	recordPrompt = "prompt"
)

// modelSheet is what was validated, which people read above the tables.
func (v *ModelValidation) modelSheet() Sheet {
	s := Sheet{Record: recordModel}
	for _, key := range []string{"model", "device", "name", "dtype", "weights", "threads", "tokens", "reference_perplexity", "full_precision_perplexity", "bound"} {
		s.Columns = append(s.Columns, Column{Key: key, Data: true})
	}
	var reference, full any
	if v.Reference > 0 {
		reference = sevenFigures(v.Reference)
	}
	if v.FullPrecision > 0 {
		full = sevenFigures(v.FullPrecision)
	}
	s.Rows = [][]any{{v.Model, v.Device, v.Name, v.DType, heldAs(v.Weights), threadCount(v.Threads), v.Tokens, reference, full, v.Bound}}
	return s
}

func (v *ModelValidation) familySheet() Sheet {
	s := Sheet{Title: "Logits against float64", Record: recordFamily, Columns: []Column{
		{Name: "kernel", Key: "kernel"}, {Name: "state", Key: "state"}, {Name: "worst ÷ range", Key: "error", Align: Right},
		{Name: "rms ÷ range", Key: "rms", Align: Right}, {Name: "same token", Key: "agreement", Align: Right},
		{Name: "perplexity", Key: "perplexity", Align: Right}, {Name: "why", Key: "why", Flex: true},
	}}
	for _, c := range v.Kernels {
		state := word{"passed", Good}
		row := []any{c.Kernel, state, scientific(c.Error), scientific(c.RMS), share(c.Agreement), sevenFigures(c.Perplexity), c.Untimed}
		switch {
		case c.NotFinite > 0:
			row = []any{c.Kernel, word{"FAILED", Bad}, nil, nil, nil, nil, fmt.Sprintf("%s not finite", plural(c.NotFinite, "logit is", "logits are"))}
		case c.Skipped != "":
			row = []any{c.Kernel, word{"skipped", Faint}, nil, nil, nil, nil, c.Skipped}
		case v.Reference == 0:
			row = []any{c.Kernel, word{"not compared", Faint}, nil, nil, nil, sevenFigures(c.Perplexity), c.Untimed}
		case !c.Passed:
			row[1] = word{"FAILED", Bad}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// PassTimes are the samples of a pass and of its parts.
type PassTimes struct {
	Kernel string
	// Rows and Context are those of [PassProfile].
	Rows, Context int
	Seconds       []float64 // of the whole pass
	Parts         []PartTimes
}

// PartTimes are the samples of one part of a pass, of all layers together.
type PartTimes struct {
	Part     string
	Launches int // in a pass
	Seconds  []float64
	// FLOPs are those of its products, and Bytes what these read of weights; both are 0
	// for parts without products.
	FLOPs, Bytes float64
}

// NewPassProfile sums samples up by medians. peak is what MFU is relative to, read the
// bandwidth of the device's memory in bytes a second.
func NewPassProfile(p PassTimes, peak kernels.Peak, read float64) PassProfile {
	out := PassProfile{Kernel: p.Kernel, Rows: p.Rows, Context: p.Context, US: 1e6 * rules.Centre(p.Seconds).Mid,
		Peak: PeakInUse{peak.FLOPS, peak.Origin}, Read: read}
	total, gemm := 0., PartRow{Part: "all products"}
	var flops, bytes float64
	for _, part := range p.Parts {
		r := PartRow{Part: part.Part, Launches: part.Launches, US: 1e6 * rules.Centre(part.Seconds).Mid}
		total += r.US
		if part.FLOPs > 0 {
			r.rates(part.FLOPs, part.Bytes, peak.FLOPS)
			gemm.Launches, gemm.US = gemm.Launches+r.Launches, gemm.US+r.US
			flops, bytes = flops+part.FLOPs, bytes+part.Bytes
		}
		out.Parts = append(out.Parts, r)
	}
	gemm.rates(flops, bytes, peak.FLOPS)
	for i := range out.Parts {
		out.Parts[i].Share = out.Parts[i].US / total
	}
	gemm.Share = gemm.US / total
	out.Gemm = &gemm
	return out
}

// rates fills in what follows from the time.
func (r *PartRow) rates(flops, bytes, peak float64) {
	seconds := r.US / 1e6
	if peak > 0 {
		r.MFU = flops / seconds / peak
	}
	r.Bandwidth = bytes / seconds
}

func (p *PassProfile) sheet() Sheet {
	title := fmt.Sprintf("Prompt of %d tokens, kernel %s: %s us", p.Rows, p.Kernel, formatMicros(p.US))
	if p.Rows == 1 {
		title = fmt.Sprintf("One token behind %d, kernel %s: %s us", p.Context, p.Kernel, formatMicros(p.US))
	}
	s := Sheet{Title: title, Record: recordPart, Columns: []Column{
		{Key: "kernel", Data: true}, {Key: "rows", Data: true}, {Key: "context", Data: true}, {Key: "pass_us", Data: true},
		{Name: "part", Key: "part"}, {Name: "launches", Key: "launches", Align: Right}, {Name: "us", Key: "us", Align: Right},
		{Name: "of parts", Key: "share", Align: Right}, {Name: "MFU", Key: "mfu", Align: Right},
		{Name: "weights at", Key: "bandwidth_gbs", Align: Right}, {Key: "peak_gflops", Data: true}, {Key: "peak_origin", Data: true},
	}}
	rows := p.Parts
	if p.Gemm != nil {
		rows = append(rows[:len(rows):len(rows)], *p.Gemm)
	}
	for _, r := range rows {
		var mfu, bandwidth, peak, origin any
		if r.MFU > 0 {
			mfu, peak, origin = share(r.MFU), rate{p.Peak.FLOPS, ""}, string(p.Peak.Origin)
		}
		if r.Bandwidth > 0 {
			bandwidth = gbytes(r.Bandwidth)
		}
		s.Rows = append(s.Rows, []any{p.Kernel, p.Rows, p.Context, micros(p.US), r.Part, r.Launches, micros(r.US), share(r.Share),
			mfu, bandwidth, peak, origin})
	}
	return s
}

// outOf is a number of a whole, whose raw value is that number.
type outOf struct{ part, whole int }

func (o outOf) Text() string { return fmt.Sprintf("%d of %d", o.part, o.whole) }
func (o outOf) Raw() any     { return o.part }

func prefillSheet(gains []TableGain) Sheet {
	s := Sheet{Title: "Prompts with the table and without", Record: recordPrompt, Columns: []Column{
		{Name: "kernel", Key: "kernel", Hoist: true}, {Name: "tokens", Key: "rows", Align: Right}, {Name: "products changed", Key: "applied", Align: Right}, {Key: "products", Data: true},
		{Name: "without us", Key: "plain_us", Align: Right}, {Name: "with us", Key: "table_us", Align: Right},
		{Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "shorter", Key: "shorter"},
	}}
	for _, g := range gains {
		verdict := word{"undecided", Open}
		switch {
		case g.Gain.Lo > 1:
			verdict = word{"yes", Good}
		case g.Gain.Hi < 1:
			verdict = word{"no", Bad}
		}
		s.Rows = append(s.Rows, []any{g.Kernel, g.Rows, outOf{g.Applied, g.Products}, g.Products, micros(g.PlainUS), micros(g.TableUS),
			bounds{g.Gain, factorCell}, verdict})
	}
	return s
}
