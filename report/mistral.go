package report

import (
	"cmp"
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// DecodeBench is the speed of a model's text generation on a device.
type DecodeBench struct {
	Version    string `json:"gemmaudit"`
	Model      string `json:"model"`
	Parameters int64  `json:"parameters"`
	// Active is the number of parameters that a token uses, if others are of experts that it does not go through.
	Active int64         `json:"active_parameters,omitempty"`
	Bytes  int64         `json:"bytes"` // of all weights
	Device string        `json:"device"`
	Name   string        `json:"name"` // of the device
	DType  kernels.DType `json:"dtype"`
	// Weights is the weight format of the products, "int4:128"; empty for unquantized weights.
	Weights string `json:"weights,omitempty"`
	Kernel  string `json:"kernel"`
	Threads int    `json:"threads,omitempty"` // of a CPU
	// Fused reports whether a token runs in fused launches.
	Fused bool `json:"fused"`
	// ReadBandwidth and CopyBandwidth are in bytes per second: the center of the measurements before the
	// first round and between rounds.
	ReadBandwidth    float64 `json:"read_bandwidth"`
	CopyBandwidth    float64 `json:"copy_bandwidth"`
	BandwidthSamples int     `json:"bandwidth_samples"`
	// CacheBytes is the size of the last-level cache: a token that reads less is served from the cache.
	CacheBytes int64        `json:"llc_bytes"`
	Rates      []DecodeRate `json:"rates"`
}

// DecodeRate is the speed at one context length. Rates use the host's clock.
type DecodeRate struct {
	Context int `json:"context"` // tokens in the prompt
	Tokens  int `json:"tokens"`  // tokens decoded per sample
	Samples int `json:"samples"`
	// Prefill and Decode are tokens per second with bounds.
	Prefill stats.Interval `json:"prefill_tokens_per_second"`
	Decode  stats.Interval `json:"decode_tokens_per_second"`
	// TokenBytes is the bytes that a token reads, weights and cache, halfway through decoding. Only the experts that a token
	// goes through count.
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
		{Name: "device", Key: "device", Wide: true}, {Name: "dtype", Key: "dtype", Wide: true},
		{Name: "weights", Key: "weights", Wide: true}, {Name: "kernel", Key: "kernel", Wide: true},
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
			r.Context, bounds{r.Prefill, fourFigures}, bounds{r.Decode, fourFigures}, fourFigures(1e3 / r.Decode.Mid),
			size(r.TokenBytes), gbytes(rate), read, copied, r.Samples,
			b.Model, b.Device, b.DType, heldAs(b.Weights), b.Kernel, unlessZero(b.Threads), gbytes(b.ReadBandwidth),
			gbytes(b.CopyBandwidth),
		})
	}
	doc.Sheets = []Sheet{sheet}
	way := "every operation alone"
	if b.Fused {
		way = "fused"
	}
	active := ""
	if b.Active > 0 {
		active = fmt.Sprintf(", %s active", scaled(float64(b.Active), ""))
	}
	doc.Head = []Note{Notef(Neutral, "%s (%s parameters%s) in %s%s on %s (%s)%s, kernel %s, %s", b.Model, scaled(float64(b.Parameters), ""),
		active, b.DType, withWeights(b.Weights), b.Device, b.Name, onThreads(b.Threads), b.Kernel, way)}
	between := ""
	if b.BandwidthSamples > 1 {
		between = fmt.Sprintf(", the centre of %d measurements between the rounds", b.BandwidthSamples)
	}
	doc.Notes = []Note{Notef(Neutral, "measured bandwidth: read %s, copy %s%s", formatRate(b.ReadBandwidth, "B/s"),
		formatRate(b.CopyBandwidth, "B/s"), between)}
	if cached {
		doc.Note(Neutral, "a token's bytes fit into the last-level cache of %s: no share of the memory's bandwidth", Bytes(b.CacheBytes))
	}
	return doc.Render(w, f)
}

func onThreads(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + Plural(n, "thread", "threads")
}

func heldAs(weights string) string { return cmp.Or(weights, "plain") }

func withWeights(weights string) string {
	if weights == "" {
		return ""
	}
	return " with weights " + weights
}

func shareOf(a, b float64) any {
	if b <= 0 {
		return nil
	}
	return Share(a / b)
}

// Perplexity is a model's perplexity on a text.
type Perplexity struct {
	Model      string        `json:"model"`
	Device     string        `json:"device"`
	DType      kernels.DType `json:"dtype"`
	Weights    string        `json:"weights,omitempty"` // weight format, empty if unquantized
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
		{Name: "model", Key: "model"}, {Name: "device", Key: "device"}, {Name: "dtype", Key: "dtype"}, {Name: "weights", Key: "weights"},
		{Name: "kernel", Key: "kernel"},
		{Name: "threads", Key: "threads", Align: Right, Wide: true}, {Name: "tokens", Key: "tokens", Align: Right},
		{Name: "perplexity", Key: "perplexity", Align: Right}, {Name: "± standard error", Key: "standard_error", Align: Right},
		{Name: "tokens/s", Key: "tokens_per_second", Align: Right},
	},
		Rows: [][]any{{p.Model, p.Device, p.DType, heldAs(p.Weights), p.Kernel, unlessZero(p.Threads), p.Tokens,
			sevenFigures(p.Perplexity), fourFigures(p.Error), fourFigures(p.Rate)}}}}
	return doc.Render(w, f)
}
