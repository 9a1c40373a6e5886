package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// AdviceFigures plots an advice: pass time over M with the sizes to capture and to skip, and tokens per
// second with the chunks.
func AdviceFigures(a *advice.Advice) []*Figure {
	return []*Figure{plotPassTime(a), plotPassRate(a)}
}

func passAxis(a *advice.Advice) axis {
	x := batchAxis(kernels.Subject{}, a.Passes[0].M, a.Passes[len(a.Passes)-1].M, false)
	x.name = "M (tokens of a pass)"
	return x
}

func passSubtitle(a *advice.Advice) string {
	card := a.Card
	if card == "" {
		card = a.Device
	}
	return fmt.Sprintf("%s  ·  %s in %s by %s  ·  %s", card, a.Model, a.DType, a.Kernel, a.Coverage)
}

func passStrokes(p *panel, a *advice.Advice, value func(advice.Pass) stats.Interval) []stroke {
	clip := func(y float64) vg.Length { return max(p.Min.Y, min(p.Max.Y, p.fy(y))) }
	out := make([]stroke, 0, len(a.Passes))
	for _, pass := range a.Passes {
		v := value(pass)
		out = append(out, stroke{x: p.fx(float64(pass.M)), lo: clip(v.Lo), mid: clip(v.Mid), hi: clip(v.Hi), rows: 1})
	}
	return out
}

func (p *panel) marks(ms []int, c color.NRGBA, height vg.Length) {
	for _, m := range ms {
		x := p.fx(float64(m))
		p.StrokeLine2(draw.LineStyle{Color: c, Width: 1}, x, p.Min.Y, x, p.Min.Y+height)
	}
}

func plotPassTime(a *advice.Advice) *Figure {
	f := &Figure{
		Name: "advice-time", Title: a.Model + " — time of a pass over M", Subtitle: passSubtitle(a),
		Alt: fmt.Sprintf("Time of a pass of %s over M, %s, with %s to capture and %s never worth running.", a.Model,
			Plural(len(a.Passes), "size", "sizes"),
			Plural(len(a.Sizes.Captured), "size", "sizes"), Plural(len(a.Skips), "size", "sizes")),
		legend: []legendItem{{"time of a pass", blue, lineMark}, {"95 % interval", alpha(blue, 0.22), areaMark},
			{"sizes to capture", green, tickMark}},
	}
	f.key(len(a.Skips) > 0, "never worth running", vermillion, ringMark)
	f.draw = func(canvas draw.Canvas) {
		lo, hi := math.Inf(1), 0.0
		for _, p := range a.Passes {
			lo, hi = math.Min(lo, p.Seconds.Lo), math.Max(hi, p.Seconds.Hi)
		}
		x := passAxis(a)
		y, factor := timeAxis(lo*1e6, hi*1e6, x.log)
		y.name = "time of a pass" + y.name[len("time per launch"):]
		p := newPanel(canvas, x, y, 4, verticalAxisWidth(y))
		p.marks(a.Sizes.Captured, green, 8)
		p.curve(passStrokes(p, a, func(v advice.Pass) stats.Interval { return interval(v.Seconds, 1e6*factor) }), blue, false)
		for _, s := range a.Skips {
			p.DrawGlyph(ring(vermillion, 3), p.at(float64(s.M), s.Seconds*1e6*factor))
		}
	}
	return f
}

func plotPassRate(a *advice.Advice) *Figure {
	f := &Figure{
		Name: "advice-rate", Title: a.Model + " — tokens a second over M", Subtitle: passSubtitle(a),
		Alt:    fmt.Sprintf("Tokens a second of a pass of %s over M; the advised chunk is m%d.", a.Model, a.Chunk.M),
		legend: []legendItem{{"tokens a second", blue, lineMark}, {"95 % interval", alpha(blue, 0.22), areaMark}},
	}
	f.key(a.Chunk.M > 0, fmt.Sprintf("advised chunk, m%d", a.Chunk.M), green, dotMark)
	usual := slices.ContainsFunc(a.Chunk.Usual, func(u advice.UsualChunk) bool { return u.Known })
	f.key(usual, "usual chunks", vermillion, ringMark)
	f.key(a.Chunk.LatencySeconds > 0, fmt.Sprintf("passes of %s ms", bareMillis(a.Chunk.LatencySeconds)), muted, dashMark)
	f.draw = func(canvas draw.Canvas) {
		hi := 0.0
		for _, p := range a.Passes {
			hi = math.Max(hi, p.TokensPerSecond.Hi)
		}
		x := passAxis(a)
		y := linearAxis("tokens a second", 0, 1.02*hi, 6, plainTick)
		p := newPanel(canvas, x, y, 4, verticalAxisWidth(y))
		if bound := a.Chunk.LatencySeconds; bound > 0 {
			var line []vg.Point
			for _, pass := range a.Passes {
				if rate := float64(pass.M) / bound; rate <= y.hi {
					line = append(line, p.at(float64(pass.M), rate))
				}
			}
			if len(line) > 1 {
				p.StrokeLines(dashed(muted, 1), line)
			}
		}
		p.curve(passStrokes(p, a, func(v advice.Pass) stats.Interval { return v.TokensPerSecond }), blue, false)
		for _, u := range a.Chunk.Usual {
			if u.Known {
				p.DrawGlyph(ring(vermillion, 3), p.at(float64(u.M), u.TokensPerSecond.Mid))
			}
		}
		if a.Chunk.M > 0 {
			p.DrawGlyph(dot(green, 3), p.at(float64(a.Chunk.M), a.Chunk.TokensPerSecond.Mid))
		}
	}
	return f
}
