package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func fixtureSamples(n int) []results.Sample {
	var out []results.Sample
	for i := range n {
		x := float64(i) / float64(n)
		s := results.Sample{
			CaseID: int64(i % 2), Phase: results.PhaseSentinel, Round: i / 2, Seq: int64(i), StartedUnixMicro: 1e15 + int64(i)*2e6,
			US: 100 * (1 + 0.02*x + 0.003*math.Sin(float64(i))), ClockMHz: 1980 - 100*x, PowerW: 600 + 90*x, TempC: 40 + 20*x,
		}
		if x > 0.7 {
			s.Throttle = "power cap"
		}
		out = append(out, s)
	}
	return out
}

func figures() map[string]*Figure {
	small := NewCurve(fixtureSeries()[0], fixtureAudit())
	s, a, findings := staircase(8197, 4, 2048, 0.01)
	large := NewCurve(s, &rules.Audit{Threshold: 0.9, Series: []rules.SeriesAudit{a}, Findings: findings})
	linear := large
	linear.Linear = true
	unjudged := NewCurve(fixtureSeries()[0], nil)
	splits := fixtureSplits().Splits
	return map[string]*Figure{
		"mfu": PlotMFU(small, "node7"), "mfu of 8197 rows": PlotMFU(large, "node7"), "mfu, linear": PlotMFU(linear, ""),
		"mfu, unjudged":     PlotMFU(unjudged, "node7"),
		"time":              PlotTime(small, "node7", []Boundary{{256, "tile"}, {512, "wave"}}),
		"time of 8197 rows": PlotTime(large, "node7", nil),
		"gain":              PlotGain(fixtureKey, splits, "node7"),
		"drift":             PlotDrift(fixtureSamples(60), map[int64]results.Case{0: {SeriesKey: fixtureKey, M: 128}}, "node7", 0.1),
		"clocks":            PlotClocks(fixtureSamples(900), "node7"),
		"compare":           PlotComparison([]Curve{small, unjudged}, "node7"),
	}
}

func decode(t *testing.T, f *Figure) image.Image {
	t.Helper()
	var b bytes.Buffer
	if err := f.Write(&b, PNG); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&b)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// near is the share of pixels with a color, on a white background. It samples every third pixel in both
// directions.
func near(img image.Image, c color.NRGBA) float64 {
	a := float64(c.A) / 255
	mix := func(v uint8) int { return int(a*float64(v) + (1-a)*255) }
	want := [3]int{mix(c.R), mix(c.G), mix(c.B)}
	hits, seen, bounds := 0, 0, img.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 3 {
		for x := bounds.Min.X; x < bounds.Max.X; x += 3 {
			r, g, b, _ := img.At(x, y).RGBA()
			seen++
			if alike(int(r>>8), want[0]) && alike(int(g>>8), want[1]) && alike(int(b>>8), want[2]) {
				hits++
			}
		}
	}
	return float64(hits) / float64(seen)
}

func alike(a, b int) bool { return a-b < 4 && b-a < 4 }

func TestFiguresInEveryFormat(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			img := decode(t, f)
			if w, h := img.Bounds().Dx(), img.Bounds().Dy(); w != 1728 || h != 940 && h != 941 {
				t.Errorf("%d × %d pixels", w, h)
			}
			if ink := 1 - near(img, paper); ink < 0.01 || ink > 0.6 {
				t.Errorf("%.1f %% of the picture is not paper", 100*ink)
			}
			var svg, pdf bytes.Buffer
			if err := f.Write(&svg, SVG); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, svg.Bytes(), f.Title)
			if svg.Len() > 400<<10 {
				t.Errorf("the SVG has %d bytes", svg.Len())
			}
			if err := f.Write(&pdf, PDF); err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(pdf.Bytes(), []byte("%PDF-")) || !bytes.Contains(pdf.Bytes(), []byte("%%EOF")) {
				t.Errorf("not a PDF: %.20q", pdf.Bytes())
			}
		})
	}
}

func checkSVG(t *testing.T, svg []byte, want ...string) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(svg))
	d.Strict = true
	var texts []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if c, ok := token.(xml.CharData); ok {
			texts = append(texts, string(c))
		}
	}
	all := strings.Join(texts, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%q is not in the SVG", w)
		}
	}
}

// A finding's interval must have the color of its status, and no other interval may; the cause must be in the
// picture.
func TestFindingsAreShadedAndNamed(t *testing.T) {
	c := NewCurve(fixtureSeries()[0], fixtureAudit())
	img := decode(t, PlotMFU(c, "node7"))
	if got := near(img, findingColour(rules.Confirmed)); got < 0.05 {
		t.Errorf("%.2f %% of the picture is shaded as confirmed", 100*got)
	}
	var svg bytes.Buffer
	if err := PlotMFU(c, "node7").Write(&svg, SVG); err != nil {
		t.Fatal(err)
	}
	checkSVG(t, svg.Bytes(), "tile-quantization", "finding, confirmed", "undecided row", "marginal row", "node7", "6.200 TFLOP/s, measured")
	c.Findings = nil
	if got := near(decode(t, PlotMFU(c, "node7")), findingColour(rules.Confirmed)); got > 0.001 {
		t.Errorf("%.2f %% of the picture without findings is shaded", 100*got)
	}
}

// Marginal and undecided rows must look different, and the legend must list only those present.
func TestOpenVerdictsAreMarked(t *testing.T) {
	for _, verdict := range []rules.Verdict{rules.Undecided, rules.Marginal, rules.Clean} {
		c := NewCurve(fixtureSeries()[0], fixtureAudit())
		c.Findings = nil
		for i := range c.Rows {
			c.Rows[i].Verdict = verdict
		}
		names := map[string]color.NRGBA{}
		for _, item := range PlotMFU(c, "").legend {
			names[item.text] = item.colour
		}
		img := decode(t, PlotMFU(c, ""))
		for _, v := range openVerdicts {
			colour, named := names[string(v.verdict)+" row"]
			if marked := near(img, v.colour) > 0; named != (verdict == v.verdict) || marked != named || named && colour != v.colour {
				t.Errorf("%s rows: %s named %v, marked %v", verdict, v.verdict, named, marked)
			}
		}
	}
}

func TestEveryCauseOfManyFindingsIsNamed(t *testing.T) {
	s, a, findings := staircase(8197, 4, 300, 0.01)
	causes := []cause.Kind{cause.WaveQuantization, cause.TileQuantization, cause.HeuristicChoice, cause.Unknown}
	for i := range findings {
		findings[i].Cause = causes[i%len(causes)]
	}
	c := NewCurve(s, &rules.Audit{Threshold: 0.9, Series: []rules.SeriesAudit{a}, Findings: findings})
	var svg bytes.Buffer
	if err := PlotMFU(c, "").Write(&svg, SVG); err != nil {
		t.Fatal(err)
	}
	want := []string{"no known cause ×"}
	for _, cause := range causes[:3] {
		want = append(want, string(cause)+" ×")
	}
	checkSVG(t, svg.Bytes(), want...)
	if bytes.Contains(svg.Bytes(), []byte("unknown")) {
		t.Error("a label says that the cause is unknown")
	}
}

func TestFindingLabels(t *testing.T) {
	for _, c := range []struct {
		finding rules.Finding
		detail  bool
		want    string
	}{
		{rules.Finding{Rule: rules.Monotonic, Cause: cause.TileQuantization, ReferenceM: 16}, true, "monotonic: tile-quantization"},
		{rules.Finding{Rule: rules.Monotonic, Cause: cause.Unknown, ReferenceM: 16}, true, "monotonic: below m16"},
		{rules.Finding{Rule: rules.Monotonic, Cause: cause.Unknown, ReferenceM: 16}, false, "monotonic"},
		{rules.Finding{Rule: rules.Pad, Cause: cause.Unknown, Remedy: &rules.Remedy{Kind: rules.RemedyPad, PadTo: 15}}, true,
			"pad: m15 is faster"},
		{rules.Finding{Rule: rules.SplitRule, Cause: cause.Unknown, Remedy: &rules.Remedy{Kind: rules.RemedySplit, Parts: []int{64, 256}}},
			true, "split: 64+256"},
		{rules.Finding{Rule: rules.Roofline}, true, "roofline"},
	} {
		if got := findingLabel(c.finding, c.detail); got != c.want {
			t.Errorf("%+v: %q, want %q", c.finding, got, c.want)
		}
	}
}

// A finding of a rule that compares whole curves must be a bar, not a shade.
func TestAlternativesDoNotShade(t *testing.T) {
	audit := fixtureAudit()
	audit.Findings = audit.Findings[2:]
	audit.Findings[0].FromM, audit.Findings[0].ToM = 64, 512
	f := PlotMFU(NewCurve(fixtureSeries()[0], audit), "")
	img := decode(t, f)
	if got := near(img, findingColour(rules.Unconfirmed)); got > 0.001 {
		t.Errorf("%.2f %% of the picture is shaded", 100*got)
	}
	if near(img, barColour(rules.Alternative)) == 0 {
		t.Error("there is no bar")
	}
	var svg bytes.Buffer
	if err := f.Write(&svg, SVG); err != nil {
		t.Fatal(err)
	}
	checkSVG(t, svg.Bytes(), "alternative: onednn")
}

func TestOutermost(t *testing.T) {
	for _, c := range []struct {
		values     []float64
		core, want float64
	}{
		{nil, 3, 3},
		{[]float64{1, 1.1, 1.2}, 1, 1.2},
		{[]float64{1, 1.1, 9}, 1.05, 1.1},
		{[]float64{1, 1.1, 9, 9.5}, 1.05, 9.5}, // two of four are no outliers
		{[]float64{1, 9}, 8, 9},
		{[]float64{math.Inf(1), math.NaN(), 2}, 1, 2},
	} {
		if got := outermost(c.values, c.core); got != c.want {
			t.Errorf("outermost(%v, %v) = %v, want %v", c.values, c.core, got, c.want)
		}
	}
}

func TestDriftAxisIgnoresOutliers(t *testing.T) {
	samples, lines := make([]float64, 60), make([]float64, 60)
	for i := range samples {
		samples[i] = 0.002 * float64(i%20-10)
	}
	samples[7] = 2.6
	if lo, hi := driftRange(samples, lines); hi > 0.05 || hi < 0.018 || lo > -0.02 {
		t.Errorf("axis from %v to %v", lo, hi)
	}
	lines[3] = 0.4
	if _, hi := driftRange(samples, lines); hi < 0.4 {
		t.Errorf("axis to %v, below the line", hi)
	}
}

func TestSVGTextHasItsWidth(t *testing.T) {
	var svg bytes.Buffer
	if err := PlotMFU(NewCurve(fixtureSeries()[0], fixtureAudit()), "a & b").Write(&svg, SVG); err != nil {
		t.Fatal(err)
	}
	for _, text := range svgText.FindAll(svg.Bytes(), -1) {
		if content := text[bytes.IndexByte(text, '>')+1:]; bytes.IndexByte(content, '<') > 1 &&
			!bytes.Contains(text, []byte("textLength=")) {
			t.Errorf("no width: %s", text)
		}
	}
	want := fmt.Sprintf(`textLength="%.5g"`, float64(lettering(titleSize, ink, true).Width("cpu/amx/bf16 n14336 k4096 — MFU over M")))
	if !bytes.Contains(svg.Bytes(), []byte(want)) {
		t.Errorf("the title is not %s wide", want)
	}
}

func TestFiguresOfNothing(t *testing.T) {
	for name, f := range map[string]*Figure{
		"mfu": PlotMFU(Curve{}, ""), "time": PlotTime(Curve{}, "", nil), "gain": PlotGain(results.SeriesKey{}, nil, ""),
		"drift":   PlotDrift(nil, nil, "", 0),
		"compare": PlotComparison(nil, ""), "one row": PlotMFU(Curve{Rows: []rules.RowVerdict{{M: 1, MFU: stats.Interval{Mid: 0.5}}}}, ""),
		"not a number": PlotTime(Curve{Rows: []rules.RowVerdict{{M: 1, US: stats.Interval{Mid: math.NaN()}},
			{M: 2, US: stats.Interval{Mid: math.Inf(1)}}}}, "", nil),
	} {
		for _, format := range Images() {
			if err := f.Write(io.Discard, format); err != nil {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
	if f := PlotClocks([]results.Sample{{US: 1}}, ""); f != nil {
		t.Error("a figure of clocks that nobody knows")
	}
}

func TestHostileNamesInFigures(t *testing.T) {
	c := NewCurve(fixtureSeries()[0], fixtureAudit())
	c.Key.Kernel = hostile
	c.Findings[0].Cause = cause.Kind(hostile)
	f := PlotMFU(c, hostile)
	for _, format := range Images() {
		var b bytes.Buffer
		if err := f.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		if format == SVG {
			checkSVG(t, b.Bytes())
			if bytes.Contains(b.Bytes(), []byte("<script>")) {
				t.Error("a script in the SVG")
			}
		}
	}
}

func TestFigureErrorsAreReturned(t *testing.T) {
	f := PlotMFU(Curve{}, "")
	for _, format := range append(Images(), "gif") {
		if err := f.Write(brokenWriter{}, format); err == nil {
			t.Errorf("%s: no error", format)
		}
	}
}

func TestParseImages(t *testing.T) {
	if got, err := ParseImages("svg, PNG"); err != nil || len(got) != 2 || got[0] != SVG || got[1] != PNG {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := ParseImages("all"); err != nil || len(got) != 3 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := ParseImages("gif"); err == nil || !strings.Contains(err.Error(), `"gif"`) {
		t.Errorf("error of an unknown format: %v", err)
	}
}

// Labels must not overlap, must stay inside, and must reach over their regions. If they do not fit, each
// cause has a strip with a mark over each of its regions; with many causes there are no labels.
func TestLabelsStandAtTheirRegions(t *testing.T) {
	names := []string{"wave-quantization", "tile-quantization", "unknown", "clock", "alignment", "memory-bound", "implementation"}
	width := func(s string) vg.Length { return vg.Length(5 * len(s)) }
	rapid.Check(t, func(t *rapid.T) {
		var regions []region
		known := names[:rapid.IntRange(1, len(names)).Draw(t, "names")]
		seen := map[string]int{}
		for range rapid.IntRange(0, 120).Draw(t, "regions") {
			from := vg.Length(rapid.Float64Range(0, 600).Draw(t, "from"))
			r := region{from: from, to: from + vg.Length(rapid.Float64Range(0, 60).Draw(t, "width")),
				cause: rapid.SampledFrom(known).Draw(t, "cause")}
			r.name = rapid.SampledFrom([]string{"monotonic: ", "pad: "}).Draw(t, "rule") + r.cause
			seen[r.cause]++
			regions = append(regions, r)
		}
		named := nameRegions(regions, width, 0, 660)
		if named.height() > mostStrips*(laneHeight+markHeight+markGap)+4 {
			t.Fatalf("labels are %v high", named.height())
		}
		for i, a := range named.placed {
			seen[a.cause] -= a.count
			if a.x < 0 || a.x+a.width > 660.1 || a.lane < 0 || a.lane >= labelLanes {
				t.Fatalf("label %+v is outside", a)
			}
			if a.x > a.to || a.x+a.width < a.from {
				t.Fatalf("label %+v does not stand over its region", a)
			}
			for _, b := range named.placed[:i] {
				if a.lane == b.lane && a.x < b.x+b.width && b.x < a.x+a.width {
					t.Fatalf("labels %+v and %+v overlap", a, b)
				}
			}
		}
		for _, s := range named.strips {
			w := width(s.label)
			if s.x < -0.01 || s.x+w > 660.01 {
				t.Fatalf("label %+v is outside", s)
			}
			for _, m := range s.marks {
				seen[m.cause] -= m.count
				if !s.above && m.from < s.x+w && s.x < m.to {
					t.Fatalf("a mark lies on label %+v", s)
				}
			}
		}
		any := len(named.placed)+len(named.strips) > 0
		for cause, left := range seen {
			if any && left != 0 || !any && len(seen) <= mostStrips {
				t.Fatalf("%d regions of %s have no label", left, cause)
			}
		}
	})
}

// A gathered line must stay inside the range of its rows, keep the extremes, and be short.
func TestGatherKeepsTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		lo, hi := vg.Length(math.Inf(1)), vg.Length(math.Inf(-1))
		seed := rapid.Uint64().Draw(t, "seed")
		var in []stroke
		for i := range n {
			seed = seed*6364136223846793005 + 1442695040888963407
			v := vg.Length(seed >> 50)
			lo, hi = min(lo, v), max(hi, v)
			in = append(in, stroke{x: vg.Length(i) * 600 / vg.Length(n), lo: v, mid: v, hi: v, rows: 1})
		}
		out, gathered := gather(in)
		if gathered != (n > maxStrokes) || len(out) > maxStrokes {
			t.Fatalf("%d of %d strokes, gathered %v", len(out), n, gathered)
		}
		outLo, outHi, rows := vg.Length(math.Inf(1)), vg.Length(math.Inf(-1)), 0
		for _, s := range out {
			outLo, outHi, rows = min(outLo, s.lo), max(outHi, s.hi), rows+s.rows
			if s.mid < s.lo || s.mid > s.hi {
				t.Fatalf("the middle of %+v is outside", s)
			}
		}
		if outLo != lo || outHi != hi || rows != n {
			t.Fatalf("range [%v, %v] of %d rows became [%v, %v] of %d", lo, hi, n, outLo, outHi, rows)
		}
	})
}

func TestAxes(t *testing.T) {
	for _, tc := range []struct {
		lo, hi int
		log    bool
	}{{1, 32768, true}, {4, 256, false}, {4, 260, true}, {512, 4096, false}, {7, 7, false}, {0, 0, false}} {
		a := batchAxis(kernels.Subject{}, tc.lo, tc.hi, false)
		if a.log != tc.log {
			t.Errorf("M %d to %d: logarithmic is %v", tc.lo, tc.hi, a.log)
		}
		if len(a.ticks) > 20 || a.hi <= a.lo {
			t.Errorf("M %d to %d: axis %v to %v with %d ticks", tc.lo, tc.hi, a.lo, a.hi, len(a.ticks))
		}
	}
	for _, c := range []struct{ lo, hi float64 }{{0.02, 0.84}, {0.9, 1.03}, {0.001, 0.0012}} {
		if a := mfuAxis(c.lo, c.hi); a.hi < c.hi || a.hi > 1.05*c.hi || len(a.ticks) < 3 {
			t.Errorf("MFU from %v to %v: an axis from %v to %v with ticks %v", c.lo, c.hi, a.lo, a.hi, a.ticks)
		}
	}
	if batchAxis(kernels.Subject{}, 1, 32768, true).log {
		t.Error("a linear axis is logarithmic")
	}
	a := linearAxis("", -0.5, 1, 6, plainTick)
	for _, v := range a.ticks {
		if strings.HasPrefix(a.label(v), "-0") && v == 0 {
			t.Errorf("tick %q", a.label(v))
		}
	}
}

func BenchmarkFigureOf8197Rows(b *testing.B) {
	s, a, findings := staircase(8197, 4, 2048, 0.01)
	c := NewCurve(s, &rules.Audit{Threshold: 0.9, Series: []rules.SeriesAudit{a}, Findings: findings})
	for _, format := range Images() {
		b.Run(string(format), func(b *testing.B) {
			for b.Loop() {
				if err := PlotMFU(c, "node7").Write(io.Discard, format); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A dot must show the same outcome as the tables.
func TestPlotGainTellsOutcomes(t *testing.T) {
	executed := func(pays, unsteady bool) remedy.Row {
		return remedy.Row{Series: fixtureKey,
			Remedy: rules.Remedy{Executed: true, Pays: pays, Unsteady: unsteady, Gain: stats.Interval{Lo: 2, Mid: 3, Hi: 4}}}
	}
	for _, c := range []struct {
		name string
		rows []remedy.Row
		want []string
	}{
		{"one of each", []remedy.Row{executed(false, true), executed(false, false), executed(true, false)},
			[]string{"executed, pays", "executed, does not pay", "executed, unsteady"}},
		{"slowed by other work alone", []remedy.Row{executed(false, true)}, []string{"executed, unsteady"}},
		{"predicted alone", []remedy.Row{{Series: fixtureKey}}, nil},
	} {
		var got []string
		for _, item := range PlotGain(fixtureKey, c.rows, "").legend {
			if strings.HasPrefix(item.text, "executed") {
				got = append(got, item.text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: legend %q, want %q", c.name, got, c.want)
		}
	}
}
