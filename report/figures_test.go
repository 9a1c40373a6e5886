package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func twoCards(t *testing.T) Input {
	t.Helper()
	in := Input{Cases: map[int64]results.Case{}}
	id := int64(0)
	for card := range 2 {
		device := fmt.Sprintf("cuda:%d", card)
		clock := 1800 - 300*float64(card)
		in.Meta.Fingerprint.Devices = append(in.Meta.Fingerprint.Devices, kernels.Spec{ID: device, Kind: kernels.CUDA, Name: "NVIDIA H200"})
		s := results.Series{Key: results.SeriesKey{Device: device, Kernel: "hopper", Subject: kernels.Product(kernels.BF16, 4096, 4096)},
			Peak: kernels.Peak{DType: kernels.BF16, FLOPS: 989.5e12, Origin: kernels.DataSheet, ClockMHz: 1830, Unit: "tensor core"}}
		for m := 256; m <= 4096; m += 256 {
			id++
			c := results.Case{ID: id, SeriesKey: s.Key, M: m}
			in.Cases[id] = c
			row := results.Row{Case: c}
			for round := range 7 {
				us := c.FLOPs() / (0.75 * 989.5e6 * clock / 1830) * (1 + 0.004*math.Sin(float64(m+5*round)))
				row.Samples = append(row.Samples, results.Sample{CaseID: id, Round: round, Seq: int64(round),
					StartedUnixMicro: int64(1e15) + int64(round)*1e6, US: us, ClockMHz: clock, PowerW: 600, TempC: 60})
			}
			s.Rows = append(s.Rows, row)
		}
		in.Series = append(in.Series, s)
	}
	for i := range 6 {
		in.Sentinels = append(in.Sentinels, results.Sample{CaseID: int64(1 + 16*(i%2)), Seq: int64(i), US: 100, ClockMHz: 1800})
	}
	audit, err := rules.RunAudit(t.Context(), infer.Data{Name: "run.db", Meta: in.Meta, Series: in.Series}, rules.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	in.Audit = audit
	return in
}

// Auto with overlap is in no figure with other kernels.
func TestOverlappingIsNotOverlaid(t *testing.T) {
	var curves []Curve
	for _, kernel := range []string{"auto", kernels.Overlapping, "mine"} {
		key := results.SeriesKey{Device: "cuda:0", Kernel: kernel, Subject: kernels.Product(kernels.BF16, 64, 64)}
		curves = append(curves, Curve{Key: key, Rows: make([]rules.RowVerdict, 1)})
	}
	groups := comparable(curves)
	if len(groups) != 1 || len(groups[0]) != 2 || groups[0][0].Key.Kernel != "auto" || groups[0][1].Key.Kernel != "mine" {
		t.Errorf("groups %+v, expected auto with mine", groups)
	}
}

func TestFiguresOfCards(t *testing.T) {
	var names []string
	for _, f := range Figures(twoCards(t)) {
		names = append(names, f.Name+": "+f.Title)
		if strings.HasPrefix(f.Name, "mfu") &&
			!slices.ContainsFunc(f.legend, func(l legendItem) bool { return strings.HasPrefix(l.text, "MFU, times at 1") }) {
			t.Errorf("%s: no line of MFU at the common clock among %+v", f.Name, f.legend)
		}
		if err := f.Write(io.Discard, SVG); err != nil {
			t.Error(err)
		}
	}
	for _, want := range []string{
		"cards-hopper-bf16-n4096-k4096: hopper/bf16 n4096 k4096 — cards compared",
		"clocks-cuda-0: Clock during the blocks on cuda:0", "clocks-cuda-1: Clock during the blocks on cuda:1",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among %q", want, names)
		}
	}
}

func TestCardsInWords(t *testing.T) {
	in := twoCards(t)
	var b strings.Builder
	if err := WriteAudit(&b, Markdown, in.Meta, in.Series, in.Audit); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"2 cards of one host: cuda:1 slower than the others by more than 5.0 %",
		"cuda:1 takes 1.200", "times at one clock; its own is 1500 MHz; 600 W, 60 °C",
		"### Cards",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if notes := cardNotes(nil); notes != nil || cardSheets(nil) != nil {
		t.Errorf("a run without cards says %v", notes)
	}
}
