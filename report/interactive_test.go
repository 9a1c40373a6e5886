package report

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Every page file must be embedded, and must not close its HTML element.
func TestPageFiles(t *testing.T) {
	for _, name := range append(append([]string{"page.html", "fleet.html", "fleet.js"}, pageStyles...), pageScripts...) {
		text := pageFile(name)
		if text == "" || strings.Contains(text, "</script") || strings.Contains(text, "</style") {
			t.Errorf("%s is empty or ends its element", name)
		}
		if strings.Count(runKit.policy(), "'sha256-") != len(pageStyles)+len(pageScripts) {
			t.Error("not every file is in the policy")
		}
	}
}

func pageOf(t testing.TB, in Input) string {
	t.Helper()
	var b bytes.Buffer
	if err := newPage(in, nil).html(&b, newInteractive(in)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func columnOf[T any](t *testing.T, page, name string) []T {
	t.Helper()
	m := regexp.MustCompile(`id="column-` + name + `" data-kind="\w+">([^<]*)<`).FindStringSubmatch(page)
	if m == nil {
		return nil
	}
	raw, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		t.Fatal(err)
	}
	var zero T
	out := make([]T, len(raw)/binary.Size(zero))
	if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPageHoldsTheData(t *testing.T) {
	in := fixtureInput()
	page := pageOf(t, in)
	ms, us, times := columnOf[uint32](t, page, "m"), columnOf[float32](t, page, "us"), columnOf[float32](t, page, "sampleUS")
	verdicts, kept, loss := columnOf[uint8](t, page, "verdict"), columnOf[uint16](t, page, "kept"), columnOf[float32](t, page, "loss")
	if len(ms) != 16 || ms[4] != 320 || verdicts[4] != codeAnomalous || kept[4] != 3 || verdicts[6] != codeFailed {
		t.Fatalf("m %v, verdicts %v, kept %v", ms, verdicts, kept)
	}
	if want := float32(in.Audit.Series[0].Rows[4].US.Mid); us[4] != want {
		t.Errorf("time %v, want %v", us[4], want)
	}
	if want := 1 - 0.473/0.6138; math.Abs(float64(loss[4])-want) > 1e-6 {
		t.Errorf("loss %v, want %v", loss[4], want)
	}
	if want := float32(in.Series[0].Rows[0].Samples[1].US); len(times) != 42 || times[1] != want {
		t.Errorf("%d samples, the second %v, want 42 and %v", len(times), times[1], want)
	}
	var data interactive
	text := regexp.MustCompile(`id="data">(.*?)</script>`).FindStringSubmatch(page)
	if err := json.Unmarshal([]byte(text[1]), &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Findings) != 3 || data.Findings[0].Remedy != "64+256" || len(data.Remedies) != 3 || data.Samples != 42 || data.Kept != 42 {
		t.Errorf("data: %+v", data)
	}
	if again := pageOf(t, fixtureInput()); again != page {
		t.Error("the same data makes another page")
	}
}

func manySamples(series, rows, samples int) Input {
	in := Input{Meta: fixtureMeta(), Run: "many.db", Audit: &rules.Audit{Threshold: 0.9, RowRule: rules.Monotonic, Method: "interval"}}
	for i := range series {
		s, a, found := staircase(rows, 8, 1024, 0.004)
		key := s.Key
		key.N += i
		s.Key, a.Key = key, key
		for k := range s.Rows {
			r := &s.Rows[k]
			r.Case.SeriesKey = key
			first := r.Samples[0]
			r.Samples = make([]results.Sample, samples)
			for n := range r.Samples {
				first.Round, first.Seq = n, int64((n*series+i)*rows+k)
				first.StartedUnixMicro = 1_700_000_000_000_000 + 2000*first.Seq
				first.ClockMHz, first.PowerW = float64(1900+n), 600+float64(k%50)
				r.Samples[n] = first
				r.Samples[n].US *= 1 + 0.001*float64(n%5)
			}
		}
		for f := range found {
			found[f].Series, found[f].ID = key, fmt.Sprintf("f%d-%d", i, f)
			found[f].StakeUS = float64(1 + (f*37+i*11)%101)
		}
		in.Series, in.Audit.Series, in.Audit.Findings = append(in.Series, s), append(in.Audit.Series, a),
			append(in.Audit.Findings, found...)
	}
	return in
}

// Above a million samples, the page keeps the samples of rows with findings, and quantiles of the others.
func TestPageOfManySamples(t *testing.T) {
	in := manySamples(3, 800, 420)
	page := pageOf(t, in)
	samples, kept, quantiles := columnOf[uint16](t, page, "samples"), columnOf[uint16](t, page, "kept"),
		columnOf[float32](t, page, "quantiles")
	in1 := newInteractive(in)
	marked, bare := 0, 0
	for i, m := range columnOf[uint32](t, page, "m") {
		has := false
		for _, f := range in1.Findings {
			b := in1.Series[f.Series].Blocks[0]
			has = has || b.At <= i && i < b.At+b.Rows && f.From <= int(m) && int(m) <= f.To
		}
		if samples[i] != 420 || has != (kept[i] == 420) {
			t.Fatalf("row %d of m%d: %d of %d samples, in a finding: %v", i, m, kept[i], samples[i], has)
		}
		if has {
			marked++
		} else {
			bare++
		}
	}
	if in1.Samples != 3*800*420 || in1.Kept != marked*420 || len(quantiles) != 5*bare || marked == 0 || bare == 0 {
		t.Errorf("%d of %d samples, %d quantiles of %d rows", in1.Kept, in1.Samples, len(quantiles), bare)
	}
	for i := 0; i < len(quantiles); i += 5 {
		if q := quantiles[i : i+5]; !(0 < q[0] && q[0] <= q[1] && q[1] <= q[2] && q[2] <= q[3] && q[3] <= q[4]) {
			t.Fatalf("quantiles %v", q)
		}
	}
}
