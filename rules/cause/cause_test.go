package cause

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestCauseTable(t *testing.T) {
	all := All()
	for _, l := range Looks {
		if !slices.Contains(all, l.cause) {
			t.Errorf("%s is not in the table", l.cause)
		}
	}
	for _, c := range []Kind{WaveQuantization, TileQuantization, HeuristicChoice, Alignment, MemoryBound, Implementation, Clock,
		MeasurementError, Unknown} {
		if c.Meaning() == "" {
			t.Errorf("%s has no meaning", c)
		}
	}
	if Kind("else").Meaning() != "" {
		t.Error("a cause that is none has a meaning")
	}
}

// Another kernel's line is a cause only if it is known to a few percent.
func TestLineOfAnotherKernel(t *testing.T) {
	const row = 896
	for _, tc := range []struct {
		scatter float64
		cause   Kind
		says    string
	}{
		{0, HeuristicChoice, "has lib_64x64, which would take at most"},
		{0.05, "", "no other kernel"},
	} {
		slow := func(m int) bool { return m > 640 && m < 1200 }
		data := synthetic.ByM(func(m int) float64 {
			us := 5 + 10*math.Ceil(float64(m)/128)
			if slow(m) {
				return 1.5 * us
			}
			return us * (1 + tc.scatter*float64(m/128%3-1))
		}, synthetic.Gaussian(0.001), rand.New(rand.NewPCG(5, 1))).Sweep(synthetic.Grid(128, 1536, 128), 7)
		data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
		for i := range data.Series[0].Rows {
			c := &data.Series[0].Rows[i].Case
			c.Label, c.Launch = kernels.ReadLabel(map[bool]string{true: "lib_256x64", false: "lib_64x64"}[slow(c.M)])
		}
		c := infer.Prepare(data, usual).Curves[0]
		at, _ := c.At(row)
		w := &Witness{Curve: c, Row: c.Points[at], Loss: 0.3}
		if cause, why := w.otherLine(); cause != tc.cause || !strings.Contains(why, tc.says) {
			t.Errorf("scatter %g: %q: %s, want %q: %s", tc.scatter, cause, why, tc.cause, tc.says)
		}
	}
}

// Among fast enough kernels, one that runs close by on both sides comes first, then the nearest.
func TestNeighboursOfARow(t *testing.T) {
	const row = 1000
	for _, tc := range []struct {
		name  string
		other []int
		own   float64
		cause Kind
		says  string
	}{
		{"nowhere", nil, 0.5, "", "no other kernel reaches MFU 66.2 % between m500 and m2000"},
		{"an octave away", []int{400, 2200}, 0.5, "", "no other kernel reaches MFU 66.2 %"},
		{"below", []int{600, 900}, 0.5, HeuristicChoice, "while fast ran m900 at MFU 100.0 %"},
		{"above", []int{1200, 1600}, 0.5, HeuristicChoice, "while fast ran m1200 at MFU 100.0 %"},
		{"above is nearer", []int{600, 1200}, 0.5, HeuristicChoice, "while fast ran m1200 at MFU 100.0 %"},
		{"below is nearer", []int{900, 1400}, 0.5, HeuristicChoice, "while fast ran m900 at MFU 100.0 %"},
		{"on both sides", []int{900, 1100}, 0.5, HeuristicChoice,
			"while fast runs the sizes next to it, m900 and m1100, at MFU 66.2 % or more"},
		{"its own is fast elsewhere", []int{900}, 1, "", "slow itself reaches MFU 100.0 % between m500 and m2000"},
	} {
		c := &infer.Curve{}
		add := func(m int, label string, mfu float64) {
			c.Points = append(c.Points,
				infer.Point{M: m, Label: label, Flops: math.Log(float64(m)), US: stats.Estimate{Y: math.Log(float64(m) / mfu)}})
		}
		add(row, "slow", 0.5)
		add(row+1, "slow", tc.own)
		for _, m := range tc.other {
			add(m, "fast", 1)
		}
		slices.SortFunc(c.Points, func(a, b infer.Point) int { return a.M - b.M })
		at, _ := c.At(row)
		w := &Witness{Curve: c, Row: c.Points[at], Loss: 0.49}
		if cause, why := w.neighbours(); cause != tc.cause || !strings.Contains(why, tc.says) {
			t.Errorf("%s: %q: %s, want %q: %s", tc.name, cause, why, tc.cause, tc.says)
		}
	}
}

// usual is what estimates depend on in a rules file without changes.
var usual = infer.Basis{Confidence: 0.95, DriftBound: 1, Along: infer.AlongAuto, MinSamples: 5}
