package report

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/rules"
)

// DecodeBench is how fast a model generates on a device.
type DecodeBench struct {
	Version    string        `json:"gemmaudit"`
	Model      string        `json:"model"`
	Parameters int64         `json:"parameters"`
	Bytes      int64         `json:"bytes"` // of all weights
	Device     string        `json:"device"`
	Name       string        `json:"name"` // of the device
	DType      kernels.DType `json:"dtype"`
	Kernel     string        `json:"kernel"`
	// Fused says that a token runs in fused launches.
	Fused bool `json:"fused"`
	// ReadBandwidth and CopyBandwidth are measured, in bytes a second.
	ReadBandwidth float64 `json:"read_bandwidth"`
	CopyBandwidth float64 `json:"copy_bandwidth"`
	// CacheBytes is the last-level cache's size: a token that reads less does not read
	// memory.
	CacheBytes int64        `json:"llc_bytes"`
	Rates      []DecodeRate `json:"rates"`
}

// DecodeRate is the speed at one length of context. Rates are of the host's clock.
type DecodeRate struct {
	Context int `json:"context"` // tokens in the prompt
	Tokens  int `json:"tokens"`  // decoded behind it, a sample
	Samples int `json:"samples"`
	// Prefill and Decode are tokens a second with bounds.
	Prefill rules.Interval `json:"prefill_tokens_per_second"`
	Decode  rules.Interval `json:"decode_tokens_per_second"`
	// TokenBytes is what a token reads: weights and the cache, half way through.
	TokenBytes int64 `json:"token_bytes"`
}

// WriteDecodeBench prints the speed of generation.
func WriteDecodeBench(w io.Writer, f Format, b *DecodeBench) error {
	doc := &Document{Subject: "decode benchmark", Value: b, Items: []any{}}
	sheet := Sheet{Columns: []Column{
		{Name: "context", Key: "context", Align: Right},
		{Name: "prefill tokens/s", Key: "prefill_tokens_per_second", Align: Right, Interval: true},
		{Name: "decode tokens/s", Key: "decode_tokens_per_second", Align: Right, Interval: true},
		{Name: "ms a token", Key: "token_ms", Align: Right},
		{Name: "bytes a token", Key: "token_bytes", Align: Right},
		{Name: "bandwidth", Key: "bandwidth", Align: Right},
		{Name: "of read", Key: "of_read", Align: Right}, {Name: "of copy", Key: "of_copy", Align: Right},
		{Name: "samples", Key: "samples", Align: Right, Wide: true}, {Name: "model", Key: "model", Wide: true},
		{Name: "device", Key: "device", Wide: true}, {Name: "dtype", Key: "dtype", Wide: true}, {Name: "kernel", Key: "kernel", Wide: true},
		{Name: "read", Key: "read_gbs", Align: Right, Wide: true}, {Name: "copy", Key: "copy_gbs", Align: Right, Wide: true},
	}}
	cached := false
	for _, r := range b.Rates {
		line := *b
		line.Rates = []DecodeRate{r}
		doc.Items = append(doc.Items, line)
		rate := float64(r.TokenBytes) * r.Decode.Mid
		read, copied := shareOf(rate, b.ReadBandwidth), shareOf(rate, b.CopyBandwidth)
		if r.TokenBytes < b.CacheBytes {
			read, copied, cached = nil, nil, true
		}
		sheet.Rows = append(sheet.Rows, []any{
			r.Context, bounds{r.Prefill, perSecond}, bounds{r.Decode, perSecond}, fourFigures(1e3 / r.Decode.Mid),
			size(r.TokenBytes), gbytes(rate), read, copied, r.Samples,
			b.Model, b.Device, b.DType, b.Kernel, gbytes(b.ReadBandwidth), gbytes(b.CopyBandwidth),
		})
	}
	doc.Sheets = []Sheet{sheet}
	way := "every operation by itself"
	if b.Fused {
		way = "fused"
	}
	doc.Head = []Note{{fmt.Sprintf("%s (%s parameters) in %s on %s (%s), kernel %s, %s", b.Model, scaled(float64(b.Parameters), ""), b.DType, b.Device, b.Name, b.Kernel, way), Neutral}}
	doc.Notes = []Note{{fmt.Sprintf("measured bandwidth: read %s, copy %s", formatRate(b.ReadBandwidth, "B/s"), formatRate(b.CopyBandwidth, "B/s")), Neutral}}
	if cached {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("a token's bytes fit into the last-level cache of %s: no share of the memory's bandwidth", Bytes(b.CacheBytes)), Neutral})
	}
	return doc.Render(w, f)
}

// fourFigures is a number with four significant figures.
type fourFigures float64

func (v fourFigures) Text() string { return significant(float64(v), 4) }
func (v fourFigures) Raw() any     { return finite(float64(v)) }

// scientific is a small number with three significant figures.
type scientific float64

func (v scientific) Text() string { return strconv.FormatFloat(float64(v), 'g', 3, 64) }
func (v scientific) Raw() any     { return finite(float64(v)) }

// sevenFigures is a number with seven significant figures.
type sevenFigures float64

func (v sevenFigures) Text() string { return significant(float64(v), 7) }
func (v sevenFigures) Raw() any     { return finite(float64(v)) }

// perSecond is a rate of tokens.
func perSecond(v float64) Cell { return fourFigures(v) }

// shareOf is a ÷ b, nothing where b is unknown.
func shareOf(a, b float64) any {
	if b <= 0 {
		return nil
	}
	return share(a / b)
}

// ModelValidation is a model held against float64, family by family.
type ModelValidation struct {
	Model  string        `json:"model"`
	Device string        `json:"device"`
	Name   string        `json:"name"`
	DType  kernels.DType `json:"dtype"`
	// Tokens is the length of the prompt.
	Tokens int `json:"tokens"`
	// Reference is the perplexity of the prompt in float64, 0 when not computed.
	Reference float64       `json:"reference_perplexity,omitempty"`
	Bound     float64       `json:"bound"` // of FamilyCheck.Error
	Families  []FamilyCheck `json:"families"`
	Passes    []PassProfile `json:"passes"`
	Prefills  []TableGain   `json:"prefills,omitempty"` // with the table and without
}

// FamilyCheck is what one family of products makes of the prompt.
type FamilyCheck struct {
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
	// Skipped is why the family was not run, Untimed why it was not timed.
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

// WriteModelValidation prints a validation. JSONL holds a family, a pass or a prompt a
// line, CSV a family.
func WriteModelValidation(w io.Writer, f Format, v *ModelValidation) error {
	doc := &Document{Subject: "model validation", Value: v, Items: []any{}}
	families := Sheet{Title: "Logits against float64", Columns: []Column{
		{Name: "kernel", Key: "kernel"}, {Name: "state", Key: "state"}, {Name: "worst ÷ range", Key: "error", Align: Right},
		{Name: "rms ÷ range", Key: "rms", Align: Right}, {Name: "same token", Key: "agreement", Align: Right},
		{Name: "perplexity", Key: "perplexity", Align: Right}, {Name: "why", Key: "why", Flex: true},
	}}
	for _, c := range v.Families {
		doc.Items = append(doc.Items, c)
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
		families.Rows = append(families.Rows, row)
	}
	doc.Sheets = []Sheet{families}
	for _, p := range v.Passes {
		doc.Items = append(doc.Items, p)
		doc.Sheets = append(doc.Sheets, p.sheet())
	}
	if len(v.Prefills) > 0 {
		for _, g := range v.Prefills {
			doc.Items = append(doc.Items, g)
		}
		doc.Sheets = append(doc.Sheets, prefillSheet(v.Prefills))
	}
	doc.Head = []Note{{fmt.Sprintf("%s in %s on %s (%s), a prompt of %d tokens", v.Model, v.DType, v.Device, v.Name, v.Tokens), Neutral}}
	if len(v.Passes) > 0 && v.Passes[0].Peak.FLOPS > 0 {
		doc.Head = append(doc.Head, Note{fmt.Sprintf("MFU is relative to %s (%s)", formatOps(v.Passes[0].Peak.FLOPS, v.DType), v.Passes[0].Peak.Origin), Neutral})
	}
	if v.Reference > 0 {
		doc.Notes = []Note{{fmt.Sprintf("perplexity in float64: %s; allowed is an error of %s of the logits' range", significant(v.Reference, 7), formatRaw(v.Bound)), Neutral}}
	}
	return doc.Render(w, f)
}

// NewPassProfile sums a profile up by medians. peak is what MFU is relative to.
func NewPassProfile(kernel string, p *mistral.Profile, peak kernels.Peak, read float64) PassProfile {
	out := PassProfile{Kernel: kernel, Rows: p.Rows, Context: p.Context, US: 1e6 * rules.Centre(p.Seconds).Mid,
		Peak: PeakInUse{peak.FLOPS, peak.Origin}, Read: read}
	total, gemm := 0., PartRow{Part: "all products"}
	var flops, bytes float64
	for _, part := range p.Parts {
		r := PartRow{Part: string(part.Part), Launches: part.Launches, US: 1e6 * rules.Centre(part.Seconds).Mid}
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
	s := Sheet{Title: title, Columns: []Column{
		{Name: "part", Key: "part"}, {Name: "launches", Key: "launches", Align: Right}, {Name: "us", Key: "us", Align: Right},
		{Name: "of parts", Key: "share", Align: Right}, {Name: "MFU", Key: "mfu", Align: Right},
		{Name: "weights at", Key: "bandwidth", Align: Right},
	}}
	rows := p.Parts
	if p.Gemm != nil {
		rows = append(rows[:len(rows):len(rows)], *p.Gemm)
	}
	for _, r := range rows {
		row := []any{r.Part, r.Launches, micros(r.US), share(r.Share), nil, nil}
		if r.MFU > 0 {
			row[4] = share(r.MFU)
		}
		if r.Bandwidth > 0 {
			row[5] = gbytes(r.Bandwidth)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

func prefillSheet(gains []TableGain) Sheet {
	s := Sheet{Title: "Prompts with the table and without", Columns: []Column{
		{Name: "kernel", Key: "kernel", Hoist: true}, {Name: "tokens", Key: "rows", Align: Right}, {Name: "products changed", Key: "applied", Align: Right},
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
		s.Rows = append(s.Rows, []any{g.Kernel, g.Rows, fmt.Sprintf("%d of %d", g.Applied, g.Products), micros(g.PlainUS), micros(g.TableUS),
			bounds{g.Gain, factorCell}, verdict})
	}
	return s
}

// Perplexity is how well a model predicts a text.
type Perplexity struct {
	Model      string        `json:"model"`
	Device     string        `json:"device"`
	DType      kernels.DType `json:"dtype"`
	Kernel     string        `json:"kernel"`
	Tokens     int           `json:"tokens"`
	Perplexity float64       `json:"perplexity"`
	Error      float64       `json:"standard_error"`
	Rate       float64       `json:"tokens_per_second"`
}

// WritePerplexity prints a perplexity.
func WritePerplexity(w io.Writer, f Format, p *Perplexity) error {
	doc := &Document{Subject: "perplexity", Value: p, Items: []any{p}}
	doc.Sheets = []Sheet{{Columns: []Column{
		{Name: "model", Key: "model"}, {Name: "device", Key: "device"}, {Name: "dtype", Key: "dtype"}, {Name: "kernel", Key: "kernel"},
		{Name: "tokens", Key: "tokens", Align: Right}, {Name: "perplexity", Key: "perplexity", Align: Right}, {Name: "± standard error", Key: "standard_error", Align: Right},
		{Name: "tokens/s", Key: "tokens_per_second", Align: Right},
	}, Rows: [][]any{{p.Model, p.Device, p.DType, p.Kernel, p.Tokens, sevenFigures(p.Perplexity), fourFigures(p.Error), fourFigures(p.Rate)}}}}
	return doc.Render(w, f)
}
