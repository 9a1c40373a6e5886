package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// ModelValidation compares a model with float64, kernel by kernel.
type ModelValidation struct {
	ValidatedModel
	Kernels  []KernelCheck `json:"families"`
	Passes   []PassProfile `json:"passes"`
	Prefills []TableGain   `json:"prefills,omitempty"` // with and without the table
}

// ValidatedModel describes the validated model and its device.
type ValidatedModel struct {
	Model  string        `json:"model"`
	Device string        `json:"device"`
	Name   string        `json:"name"`
	DType  kernels.DType `json:"dtype"`
	// Weights is the weight format of the products, "int4:128"; empty for unquantized weights.
	Weights string `json:"weights,omitempty"`
	// Threads is the number of CPU threads.
	Threads int `json:"threads,omitempty"`
	// Tokens is the length of the prompt.
	Tokens int `json:"tokens"`
	// Reference is the prompt's perplexity in float64, 0 if not computed.
	Reference float64 `json:"reference_perplexity,omitempty"`
	// FullPrecision is the perplexity with the stored weights, if loading quantized them to integers; else 0.
	FullPrecision float64 `json:"full_precision_perplexity,omitempty"`
	Bound         float64 `json:"bound"` // of KernelCheck.Error
}

// KernelCheck is the accuracy of one matrix-product kernel on the prompt.
type KernelCheck struct {
	Kernel string `json:"kernel"`
	// Error is the largest logit error relative to the range of the reference's logits; RMS is the root mean
	// square.
	Error float64 `json:"error"`
	RMS   float64 `json:"rms"`
	// Agreement is the share of tokens whose most likely successor matches the reference.
	Agreement  float64 `json:"agreement"`
	Perplexity float64 `json:"perplexity"`
	Passed     bool    `json:"passed"`
	// NotFinite counts the NaN or infinite logits, which the other figures exclude.
	NotFinite int `json:"not_finite,omitempty"`
	// Choices are the expert choices of all tokens and layers; the prompt goes through those of float64. Rounded of them differ
	// within the bound, Wrong beyond. All are 0 without experts.
	Choices int `json:"expert_choices,omitempty"`
	Rounded int `json:"rounded_choices,omitempty"`
	Wrong   int `json:"wrong_choices,omitempty"`
	// Skipped is the reason for not running the kernel, Untimed for not timing it.
	Skipped string `json:"skipped,omitempty"`
	Untimed string `json:"untimed,omitempty"`
}

// PassProfile divides the time of a prompt or a token among its parts.
type PassProfile struct {
	Kernel string `json:"kernel"`
	// Rows is 1 for a token, which follows Context others.
	Rows    int       `json:"rows"`
	Context int       `json:"context"`
	US      float64   `json:"us"` // time of the whole pass
	Parts   []PartRow `json:"parts"`
	Gemm    *PartRow  `json:"gemm,omitempty"` // all products together
	Peak    PeakInUse `json:"peak"`
	Read    float64   `json:"read_bandwidth"`
}

// PeakInUse is the peak behind MFU.
type PeakInUse struct {
	FLOPS  float64            `json:"flops"`
	Origin kernels.PeakOrigin `json:"origin"`
}

// PartRow is one part of a pass, over all layers.
type PartRow struct {
	Part     string  `json:"part"`
	Launches int     `json:"launches"`
	US       float64 `json:"us"`
	Share    float64 `json:"share"` // of the time of all parts
	MFU      float64 `json:"mfu,omitempty"`
	// Bandwidth is the weights' bytes over the time, 0 for parts without weights.
	Bandwidth float64 `json:"bandwidth,omitempty"`
}

// TableGain compares a prompt with and without a lookup table.
type TableGain struct {
	Kernel   string `json:"kernel"`
	Rows     int    `json:"rows"`
	Applied  int    `json:"applied"` // products with an entry in the table
	Products int    `json:"products"`
	// PlainUS and TableUS are medians of the whole prompt.
	PlainUS float64        `json:"plain_us"`
	TableUS float64        `json:"table_us"`
	Gain    stats.Interval `json:"gain"`
}

// WriteModelValidation prints a validation. In JSONL and CSV, a record's first field is its kind: the model,
// a kernel family, a pass (in CSV each part of one), or a prompt with and without the table.
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
	doc.Head = []Note{Notef(Neutral, "%s in %s%s on %s (%s)%s, a prompt of %d tokens", v.Model, v.DType, withWeights(v.Weights), v.Device,
		v.Name, onThreads(v.Threads), v.Tokens)}
	if len(v.Passes) > 0 && v.Passes[0].Peak.FLOPS > 0 {
		doc.Head = append(doc.Head,
			Notef(Neutral, "MFU is relative to %s (%s)", formatOps(v.Passes[0].Peak.FLOPS, v.DType), v.Passes[0].Peak.Origin))
	}
	if v.Reference > 0 {
		full := ""
		if v.FullPrecision > 0 {
			full = fmt.Sprintf(", with the weights as they are stored %s", Significant(v.FullPrecision, 7))
		}
		doc.Notes = []Note{Notef(Neutral, "perplexity in float64: %s%s; allowed is an error of %s of the logits' range",
			Significant(v.Reference, 7), full, formatRaw(v.Bound))}
	}
	return doc.Render(w, f)
}

const (
	recordModel  = "model"
	recordFamily = "family"
	recordPass   = "pass"
	recordPart   = "part"
	recordPrompt = "prompt"
)

func (v *ModelValidation) modelSheet() Sheet {
	s := Sheet{Record: recordModel}
	for _, key := range []string{"model", "device", "name", "dtype", "weights", "threads", "tokens", "reference_perplexity",
		"full_precision_perplexity", "bound"} {
		s.Columns = append(s.Columns, Column{Key: key, Data: true})
	}
	var reference, full any
	if v.Reference > 0 {
		reference = sevenFigures(v.Reference)
	}
	if v.FullPrecision > 0 {
		full = sevenFigures(v.FullPrecision)
	}
	s.Rows = [][]any{{v.Model, v.Device, v.Name, v.DType, heldAs(v.Weights), unlessZero(v.Threads), v.Tokens, reference, full, v.Bound}}
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
		row := []any{c.Kernel, state, scientific(c.Error), scientific(c.RMS), Share(c.Agreement), sevenFigures(c.Perplexity), c.why()}
		switch {
		case c.NotFinite > 0:
			row = []any{c.Kernel, word{"FAILED", Bad}, nil, nil, nil, nil,
				fmt.Sprintf("%s not finite", Plural(c.NotFinite, "logit is", "logits are"))}
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

func (c KernelCheck) why() string {
	var words []string
	if c.Wrong > 0 {
		words = append(words, fmt.Sprintf("%d of %d expert choices are wrong", c.Wrong, c.Choices))
	}
	if c.Rounded > 0 {
		words = append(words, fmt.Sprintf("%d of %d expert choices differ by rounding", c.Rounded, c.Choices))
	}
	if c.Untimed != "" {
		words = append(words, c.Untimed)
	}
	return strings.Join(words, "; ")
}

// PassTimes holds the samples of a pass and of its parts.
type PassTimes struct {
	Kernel string
	// Rows and Context are as in [PassProfile].
	Rows, Context int
	Seconds       []float64 // times of the whole pass
	Parts         []PartTimes
}

// PartTimes holds the samples of one part of a pass, summed over layers.
type PartTimes struct {
	Part     string
	Launches int // in a pass
	Seconds  []float64
	// FLOPs counts the operations of the part's products, Bytes the weights that they read; both are 0 for
	// parts without products.
	FLOPs, Bytes float64
}

// NewPassProfile summarizes samples by medians. peak is the reference of MFU, read the memory bandwidth in
// bytes per second.
func NewPassProfile(p PassTimes, peak kernels.Peak, read float64) PassProfile {
	out := PassProfile{Kernel: p.Kernel, Rows: p.Rows, Context: p.Context, US: 1e6 * stats.CentreInterval(p.Seconds).Mid,
		Peak: PeakInUse{peak.FLOPS, peak.Origin}, Read: read}
	total, gemm := 0., PartRow{Part: "all products"}
	var flops, bytes float64
	for _, part := range p.Parts {
		r := PartRow{Part: part.Part, Launches: part.Launches, US: 1e6 * stats.CentreInterval(part.Seconds).Mid}
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
			mfu, peak, origin = Share(r.MFU), rate{p.Peak.FLOPS, ""}, string(p.Peak.Origin)
		}
		if r.Bandwidth > 0 {
			bandwidth = gbytes(r.Bandwidth)
		}
		s.Rows = append(s.Rows, []any{p.Kernel, p.Rows, p.Context, Micros(p.US), r.Part, r.Launches, Micros(r.US), Share(r.Share),
			mfu, bandwidth, peak, origin})
	}
	return s
}

func prefillSheet(gains []TableGain) Sheet {
	s := Sheet{Title: "Prompts with the table and without", Record: recordPrompt, Columns: []Column{
		{Name: "kernel", Key: "kernel", Hoist: true}, {Name: "tokens", Key: "rows", Align: Right},
		{Name: "products changed", Key: "applied", Align: Right}, {Key: "products", Data: true},
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
		applied := shown{text: fmt.Sprintf("%d of %d", g.Applied, g.Products), raw: g.Applied}
		s.Rows = append(s.Rows, []any{g.Kernel, g.Rows, applied, g.Products, Micros(g.PlainUS), Micros(g.TableUS), bounds{g.Gain, Factor},
			verdict})
	}
	return s
}

// Evidence is the input of the exit code.
func (v *ModelValidation) Evidence() outcome.Evidence {
	failed, ran := 0, 0
	for _, f := range v.Kernels {
		if f.Skipped == "" {
			ran++
			if !f.Passed {
				failed++
			}
		}
	}
	var e outcome.Evidence
	if failed > 0 {
		e.Proven = append(e.Proven, Plural(failed, "kernel computes", "kernels compute")+" wrong logits")
	}
	if ran == 0 {
		e.Open = append(e.Open, outcome.Ground{Text: fmt.Sprintf("no kernel ran the model in %s", v.DType)})
	}
	return e
}
