package mistral

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Reference computes the logits of every token in float64 from the stored weights on the host. It shares no code with any
// kernel. A model of 7 billion parameters takes about ten seconds per token and core. A token sees window tokens including
// itself, 0 for the model's own window; the first token is at position 0.
func Reference(ctx context.Context, c *checkpoint.Checkpoint, tokens []int32, window int) (*Expected, error) {
	cfg := c.Config()
	cfg.Window = cmp.Or(window, cfg.Window)
	if len(tokens) == 0 {
		return nil, fmt.Errorf("reference: no tokens")
	}
	if err := CheckTokens(tokens, cfg.Vocab); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return (&reference{ctx: ctx, from: c, cfg: cfg}).run(tokens)
}

// Reference is [Reference] with the model's weights: those that loading quantized have their dequantized
// values.
func (m *Model) Reference(ctx context.Context, c *checkpoint.Checkpoint, tokens []int32, window int) (*Expected, error) {
	cfg := c.Config()
	cfg.Window = cmp.Or(window, cfg.Window)
	if err := CheckTokens(tokens, cfg.Vocab); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return (&reference{ctx: ctx, from: c, cfg: cfg, dtype: m.dtype, formats: m.rounded(c)}).run(tokens)
}

// Rounded reports whether loading quantized weights that the checkpoint stores unquantized.
func (m *Model) Rounded(c *checkpoint.Checkpoint) bool { return len(m.rounded(c)) > 0 }

func (m *Model) rounded(c *checkpoint.Checkpoint) map[string]kernels.WeightFormat {
	formats := map[string]kernels.WeightFormat{}
	for _, p := range m.projections() {
		for _, t := range p.tensors {
			if !p.plain() && !c.Packed(t.name) {
				formats[t.name] = p.format
			}
		}
	}
	return formats
}

// Expected is what a model computes of a prompt in float64.
type Expected struct {
	Logits [][]float64 // of each token
	// Router are the logits of each layer's router, by layer and token; nil without experts.
	Router [][][]float64
}

func (r *reference) run(tokens []int32) (*Expected, error) {
	cfg := r.cfg
	embedding, err := r.matrix("model.embed_tokens.weight", cfg.Vocab, cfg.Hidden)
	if err != nil {
		return nil, err
	}
	x := make([][]float64, len(tokens))
	for i, t := range tokens {
		x[i] = make([]float64, cfg.Hidden)
		embedding.row(int(t), x[i])
	}
	for i := 0; i < cfg.Layers && r.err == nil; i++ {
		r.layer(i, x)
	}
	head := "lm_head.weight"
	if cfg.Tied {
		head = "model.embed_tokens.weight"
	}
	logits := r.linear(head, cfg.Vocab, r.norm("model.norm.weight", x))
	return &Expected{Logits: logits, Router: r.router}, r.err
}

type reference struct {
	ctx  context.Context
	from *checkpoint.Checkpoint
	cfg  checkpoint.Config
	// formats are the formats that weights are quantized to, by name, for activations of type dtype.
	formats map[string]kernels.WeightFormat
	dtype   kernels.DType
	router  [][][]float64 // as in [Expected]
	err     error         // the first one, after which methods return nil
}

// storedMatrix is a tensor whose rows are converted to float64 on demand.
type storedMatrix struct {
	dtype  kernels.DType
	data   []byte
	cols   int
	format kernels.WeightFormat // format that rows are quantized to, zero for none
	as     kernels.DType        // type of the activations then
}

func (r *reference) matrix(name string, rows, cols int) (storedMatrix, error) {
	t, err := r.from.Tensor(name, rows, cols)
	if err == nil {
		err = kernels.Decode(t.DType, t.Data, nil)
	}
	if err != nil {
		return storedMatrix{}, fmt.Errorf("reference: %w", err)
	}
	return storedMatrix{t.DType, t.Data, cols, r.formats[name], r.dtype}, nil
}

// row writes row i to out, which must have the row's length.
func (m storedMatrix) row(i int, out []float64) {
	row := m.cols * m.dtype.Size()
	kernels.Decode(m.dtype, m.data[i*row:(i+1)*row], out) // matrix has checked type and size
	if m.format == (kernels.WeightFormat{}) {
		return
	}
	q := kernels.NewQuantizedMatrix(m.format, 1, m.cols)
	if q.QuantizeRows(0, out) == nil { // otherwise loading would have failed
		copy(out, q.Values(m.as))
	}
}

func (r *reference) linear(name string, rows int, x [][]float64) [][]float64 {
	if r.err = cmp.Or(r.err, r.ctx.Err()); r.err != nil {
		return nil
	}
	cols := len(x[0])
	var w storedMatrix
	if w, r.err = r.matrix(name, rows, cols); r.err != nil {
		return nil
	}
	out := make([][]float64, len(x))
	for i := range out {
		out[i] = make([]float64, rows)
	}
	each(rows, func(from, to int) {
		row := make([]float64, cols)
		for n := from; n < to; n++ {
			w.row(n, row)
			for i := range x {
				sum := 0.
				for k, v := range row {
					sum += v * x[i][k]
				}
				out[i][n] = sum
			}
		}
	})
	return out
}

func each(n int, do func(from, to int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() { do(n*w/workers, n*(w+1)/workers) })
	}
	wait.Wait()
}

func (r *reference) norm(name string, x [][]float64) [][]float64 {
	return r.normOf(name, r.cfg.Hidden, x)
}

// normHeads normalizes each head of rows in place.
func (r *reference) normHeads(name string, rows [][]float64) {
	var heads [][]float64
	for _, row := range rows {
		for h := 0; h < len(row); h += r.cfg.Heads.Dim {
			heads = append(heads, row[h:h+r.cfg.Heads.Dim])
		}
	}
	for i, head := range r.normOf(name, r.cfg.Heads.Dim, heads) {
		copy(heads[i], head)
	}
}

// normOf is RMSNorm of rows of a width.
func (r *reference) normOf(name string, width int, x [][]float64) [][]float64 {
	if r.err != nil {
		return nil
	}
	weight := make([]float64, width)
	t, err := r.from.Tensor(name, width)
	if err == nil {
		err = kernels.Decode(t.DType, t.Data, weight)
	}
	if err != nil {
		r.err = fmt.Errorf("reference: %w", err)
		return nil
	}
	out := make([][]float64, len(x))
	for i, row := range x {
		square := 0.
		for _, v := range row {
			square += v * v
		}
		scale := 1 / math.Sqrt(square/float64(len(row))+r.cfg.Epsilon)
		out[i] = make([]float64, len(row))
		for j, v := range row {
			out[i][j] = v * scale * weight[j]
		}
	}
	return out
}

// layer adds a layer's outputs to the residual stream x.
func (r *reference) layer(i int, x [][]float64) {
	heads := r.cfg.Heads
	name := func(s string) string { return fmt.Sprintf("model.layers.%d.%s.weight", i, s) }
	h := r.norm(name("input_layernorm"), x)
	q := r.linear(name("self_attn.q_proj"), heads.Query*heads.Dim, h)
	k := r.linear(name("self_attn.k_proj"), heads.KV*heads.Dim, h)
	v := r.linear(name("self_attn.v_proj"), heads.KV*heads.Dim, h)
	if r.err != nil {
		return
	}
	if r.cfg.HeadNorms {
		query, key := r.cfg.HeadNormNames(i)
		r.normHeads(query, q)
		r.normHeads(key, k)
	}
	if r.err != nil {
		return
	}
	frequency := r.cfg.Frequencies()
	for p := range x {
		rotate(q[p], heads.Dim, p, frequency)
		rotate(k[p], heads.Dim, p, frequency)
	}
	r.add(name("self_attn.o_proj"), r.attend(q, k, v), x)
	h = r.norm(name("post_attention_layernorm"), x)
	r.feedForward(i, h, x)
}

func (r *reference) add(name string, in, x [][]float64) {
	for p, delta := range r.linear(name, r.cfg.Hidden, in) {
		for j, d := range delta {
			x[p][j] += d
		}
	}
}

func rotate(row []float64, dim, position int, frequency []float64) {
	for h := 0; h < len(row); h += dim {
		for j := range dim / 2 {
			sin, cos := math.Sincos(float64(position) * frequency[j])
			a, b := row[h+j], row[h+j+dim/2]
			row[h+j], row[h+j+dim/2] = a*cos-b*sin, b*cos+a*sin
		}
	}
}

func (r *reference) attend(q, k, v [][]float64) [][]float64 {
	heads := r.cfg.Heads
	out := make([][]float64, len(q))
	each(len(q), func(from, to int) {
		score := make([]float64, len(q))
		for p := from; p < to; p++ {
			out[p] = make([]float64, heads.Query*heads.Dim)
			first := 0
			if r.cfg.Window > 0 {
				first = max(0, p-r.cfg.Window+1)
			}
			for h := range heads.Query {
				at := h / (heads.Query / heads.KV) * heads.Dim
				mine := q[p][h*heads.Dim : (h+1)*heads.Dim]
				top := math.Inf(-1)
				for j := first; j <= p; j++ {
					sum := 0.
					for d, x := range mine {
						sum += x * k[j][at+d]
					}
					score[j] = sum / math.Sqrt(float64(heads.Dim))
					top = math.Max(top, score[j])
				}
				total := 0.
				for j := first; j <= p; j++ {
					score[j] = math.Exp(score[j] - top)
					total += score[j]
				}
				to := out[p][h*heads.Dim : (h+1)*heads.Dim]
				for j := first; j <= p; j++ {
					w := score[j] / total
					for d := range to {
						to[d] += w * v[j][at+d]
					}
				}
			}
		}
	})
	return out
}
