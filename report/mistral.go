package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
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
	// Weights is how those of products are held, "int4:128"; empty for plain ones.
	Weights string `json:"weights,omitempty"`
	Kernel  string `json:"kernel"`
	Threads int    `json:"threads,omitempty"` // of a CPU
	// Fused says that a token runs in fused launches.
	Fused bool `json:"fused"`
	// ReadBandwidth and CopyBandwidth are measured, in bytes a second: the centre of so
	// many measurements, before the first round and between them.
	ReadBandwidth    float64 `json:"read_bandwidth"`
	CopyBandwidth    float64 `json:"copy_bandwidth"`
	BandwidthSamples int     `json:"bandwidth_samples"`
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
		{Name: "device", Key: "device", Wide: true}, {Name: "dtype", Key: "dtype", Wide: true}, {Name: "weights", Key: "weights", Wide: true}, {Name: "kernel", Key: "kernel", Wide: true},
		{Name: "threads", Key: "threads", Align: Right, Wide: true},
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
			b.Model, b.Device, b.DType, heldAs(b.Weights), b.Kernel, threadCount(b.Threads), gbytes(b.ReadBandwidth), gbytes(b.CopyBandwidth),
		})
	}
	doc.Sheets = []Sheet{sheet}
	way := "every operation by itself"
	if b.Fused {
		way = "fused"
	}
	doc.Head = []Note{{fmt.Sprintf("%s (%s parameters) in %s%s on %s (%s)%s, kernel %s, %s", b.Model, scaled(float64(b.Parameters), ""), b.DType, withWeights(b.Weights), b.Device, b.Name, onThreads(b.Threads), b.Kernel, way), Neutral}}
	between := ""
	if b.BandwidthSamples > 1 {
		between = fmt.Sprintf(", the centre of %d measurements between the rounds", b.BandwidthSamples)
	}
	doc.Notes = []Note{{fmt.Sprintf("measured bandwidth: read %s, copy %s%s", formatRate(b.ReadBandwidth, "B/s"), formatRate(b.CopyBandwidth, "B/s"), between), Neutral}}
	if cached {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("a token's bytes fit into the last-level cache of %s: no share of the memory's bandwidth", Bytes(b.CacheBytes)), Neutral})
	}
	return doc.Render(w, f)
}

// threadCount is a number of threads, nothing where a device has none.
func threadCount(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// onThreads says on how many threads of a CPU something ran, behind the device's name.
func onThreads(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + plural(n, "thread", "threads")
}

// heldAs is the format of weights, "plain" where it is empty.
func heldAs(weights string) string { return cmp.Or(weights, "plain") }

// withWeights says how weights are held behind a type, where they are not of it.
func withWeights(weights string) string {
	if weights == "" {
		return ""
	}
	return " with weights " + weights
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

// Perplexity is how well a model predicts a text.
type Perplexity struct {
	Model      string        `json:"model"`
	Device     string        `json:"device"`
	DType      kernels.DType `json:"dtype"`
	Weights    string        `json:"weights,omitempty"` // how those of products are held, empty for plain ones
	Kernel     string        `json:"kernel"`
	Threads    int           `json:"threads,omitempty"` // of a CPU
	Tokens     int           `json:"tokens"`
	Perplexity float64       `json:"perplexity"`
	Error      float64       `json:"standard_error"`
	Rate       float64       `json:"tokens_per_second"`
}

// WritePerplexity prints a perplexity.
func WritePerplexity(w io.Writer, f Format, p *Perplexity) error {
	doc := &Document{Subject: "perplexity", Value: p, Items: []any{p}}
	doc.Sheets = []Sheet{{Columns: []Column{
		{Name: "model", Key: "model"}, {Name: "device", Key: "device"}, {Name: "dtype", Key: "dtype"}, {Name: "weights", Key: "weights"}, {Name: "kernel", Key: "kernel"},
		{Name: "threads", Key: "threads", Align: Right, Wide: true}, {Name: "tokens", Key: "tokens", Align: Right}, {Name: "perplexity", Key: "perplexity", Align: Right}, {Name: "± standard error", Key: "standard_error", Align: Right},
		{Name: "tokens/s", Key: "tokens_per_second", Align: Right},
	}, Rows: [][]any{{p.Model, p.Device, p.DType, heldAs(p.Weights), p.Kernel, threadCount(p.Threads), p.Tokens, sevenFigures(p.Perplexity), fourFigures(p.Error), fourFigures(p.Rate)}}}}
	return doc.Render(w, f)
}
