package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// fixtureAtClock has times that differ from the observed ones, a row with two levels, and cases that ran by
// themselves.
func fixtureAtClock() *rules.Audit {
	a := fixtureAudit()
	a.Clocks = map[string]float64{"cpu": 2900}
	for i := range a.Series[0].Rows {
		r := &a.Series[0].Rows[i]
		r.Elasticity, r.ClockMHz = 0.8, 3100
		r.ObservedUS = stats.Interval{Lo: r.US.Lo * 0.94, Mid: r.US.Mid * 0.95, Hi: r.US.Hi * 0.96}
		scale := fixturePeak().ClockMHz / 2900
		r.MFUAtClock = stats.Interval{Lo: r.MFU.Lo * scale, Mid: r.MFU.Mid * scale, Hi: r.MFU.Hi * scale}
	}
	last := &a.Series[0].Rows[len(a.Series[0].Rows)-1]
	last.Modes = []float64{last.US.Mid * 0.97, last.US.Mid * 1.03}
	a.Findings[0].Sustained = &rules.Sustained{US: 11900.4, AgainstUS: 1950.2, Loss: 0.181, ClockMHz: 3050, AgainstClockMHz: 2890,
		EnergyMJ: 2310.52, AgainstEnergyMJ: 402.1, SeenIn: rules.SeenInBoth}
	a.Findings[2].Sustained = &rules.Sustained{US: 15000, AgainstUS: 14900, Loss: 0.0067, SeenIn: rules.SeenAtClock}
	return a
}

func fixtureSustainedSplits() *remedy.Result {
	s := fixtureSplits()
	s.Splits[0].Sustained = &rules.Sustained{US: 11900.4, AgainstUS: 9301.5, Loss: 0.218, ClockMHz: 3050, AgainstClockMHz: 2910,
		EnergyMJ: 2310.52, AgainstEnergyMJ: 2102.3, SeenIn: rules.SeenInBoth}
	s.Splits[1].Sustained = &rules.Sustained{US: 12910, AgainstUS: 12100, Loss: 0.0627, SeenIn: rules.SeenSustained}
	return s
}

// Output without sustained data must not mention it; the golden files of the same documents check this.
func TestSustainedIsShownOnlyWhereItIs(t *testing.T) {
	for _, f := range Formats() {
		var audit, splits bytes.Buffer
		if err := WriteAudit(&audit, f, fixtureMeta(), fixtureSeries(), fixtureAudit()); err != nil {
			t.Fatal(err)
		}
		if err := WriteSplits(&splits, f, fixtureMeta(), fixtureSplits()); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"sustained", "seen", "at one clock"} {
			if strings.Contains(audit.String(), word) || strings.Contains(splits.String(), word) {
				t.Errorf("%s: %q of a run in which nothing ran by itself", f, word)
			}
		}
	}
}

func TestReportAtClock(t *testing.T) {
	in := fixtureInput()
	in.Audit, in.Splits = fixtureAtClock(), fixtureSustainedSplits()
	p := newPage(in, nil)
	var md, html strings.Builder
	if err := p.markdown(&md, func(*Figure) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if err := p.html(&html, newInteractive(in)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"times are those at 2900 MHz", "2 findings also ran sustained: seen 1 in both, 1 at one clock only",
		"loss at one clock", "loss sustained", "mJ a launch", "one clock only", "18.1 %", "2310.5",
		"gain sustained", "direct mJ", "remedy mJ", "sustained only", "us at clock", "observed us", "fast level us",
	} {
		// Only series.csv has rows.
		if rows := []string{"us at clock", "observed us",
			"fast level us"}; !slices.Contains(rows, want) && !strings.Contains(md.String(), want) {
			t.Errorf("no %q in the Markdown", want)
		}
		// The page has rows and findings as data; its scripts have the headings.
		if drawn := []string{"loss at one clock", "us at clock", "observed us",
			"fast level us"}; !slices.Contains(drawn, want) && !strings.Contains(html.String(), want) {
			t.Errorf("no %q in the HTML", want)
		}
	}
}

// The judged line is at the common clock, as the expectation requires. The observed MFU is a second line; a
// third would only be the first one scaled.
func TestMFUAtClock(t *testing.T) {
	texts := func(c Curve) string {
		var svg bytes.Buffer
		f := PlotMFU(c, "")
		if err := f.Write(&svg, SVG); err != nil {
			t.Fatal(err)
		}
		checkSVG(t, svg.Bytes())
		words := f.Subtitle
		for _, l := range f.legend {
			words += "; " + l.text
		}
		return words
	}
	series := fixtureSeries()[0]
	series.Peak.Origin = "data-sheet"
	got := texts(NewCurve(series, fixtureAtClock()))
	for _, want := range []string{"MFU, times at 2900 MHz", "MFU as observed", "which is 5.800 TFLOP/s at 2900 MHz"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "of each row") {
		t.Errorf("a line at the clock of each row in %q", got)
	}
	if got := texts(NewCurve(series, fixtureAudit())); strings.Contains(got, "observed") || strings.Contains(got, "times at") {
		t.Errorf("%q of times that are as observed", got)
	}
	c := NewCurve(series, fixtureAtClock())
	for _, r := range c.Rows {
		if at := observedMFU(r); at/r.MFU.Mid < 1.05 || at/r.MFU.Mid > 1.06 {
			t.Errorf("m%d: observed MFU %.3f next to %.3f", r.M, at, r.MFU.Mid)
		}
	}
	img := decode(t, PlotMFU(c, ""))
	if near(img, blue) == 0 || near(img, observedColour) == 0 {
		t.Error("one of the lines is not drawn")
	}
}

func TestClockText(t *testing.T) {
	for _, c := range []struct {
		audit *rules.Audit
		want  string
	}{
		{nil, ""},
		{&rules.Audit{}, ""},
		{&rules.Audit{Clocks: map[string]float64{"cuda:0": 1450, "cuda:1": 1450}}, "at 1450 MHz"},
		{&rules.Audit{Clocks: map[string]float64{"cuda:1": 1500, "cuda:0": 1450}}, "at 1450 MHz on cuda:0, 1500 MHz on cuda:1"},
	} {
		if got := ClockText(c.audit); got != c.want {
			t.Errorf("%q, expected %q", got, c.want)
		}
	}
}
