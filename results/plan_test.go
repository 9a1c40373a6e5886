package results

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMsAreReadAsWritten(t *testing.T) {
	for _, c := range []struct {
		ms   Ms
		text string
	}{
		{nil, ""}, {Ms{7}, "7"}, {Ms{1, 2}, "1,2"}, {Ms{1, 2, 3, 5, 7, 9, 20}, "1:3,5:9:2,20"},
	} {
		if got := c.ms.String(); got != c.text {
			t.Errorf("%v is written %q, expected %q", []int(c.ms), got, c.text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		ms := Ms(rapid.SliceOfNDistinct(rapid.IntRange(1, 300), 0, 60, rapid.ID[int]).Draw(t, "ms"))
		slices.Sort(ms)
		text, err := json.Marshal(ms)
		if err != nil {
			t.Fatal(err)
		}
		var back Ms
		if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(ms, back) {
			t.Fatalf("%v is written %s and read %v, %v", []int(ms), text, []int(back), err)
		}
	})
}

func TestMsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a", "not a number"}, {"1:", "not a number"}, {"0", "not a number"}, {"99999999", "not a number"}, {"1:2:0", "not a number"},
		{"1:2:3:4", "no range"}, {"5,4", "do not ascend"}, {"1:3,3", "do not ascend"}, {"4:2", "do not ascend"},
		{"1:4194304", "more than 131072"}, {"1:131072,131073", "more than 131072"},
	} {
		if got, err := parseMs(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q is read as %d Ms, %v; expected %q", c.text, len(got), err, c.want)
		}
	}
}

func FuzzMs(f *testing.F) {
	for _, s := range []string{"", "1:3,5:9:2,20", "1,2,4,8", "1:131072", "1:4194304:32", "4:2", "1:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ms, err := parseMs(s)
		if err != nil {
			return
		}
		for i, m := range ms {
			if m < 1 || m > MaxM || i > 0 && m <= ms[i-1] || !ms.Has(m) {
				t.Fatalf("%q is read with m%d at %d", s, m, i)
			}
		}
		if back, err := parseMs(ms.String()); err != nil || !slices.Equal(ms, back) {
			t.Fatalf("%q is written %q and not read back: %v", s, ms, err)
		}
	})
}

// Only inferred series ask for more than was measured.
func TestPlannedSeries(t *testing.T) {
	var plan struct {
		Series []PlannedSeries `json:"series"`
	}
	one := PlannedSeries{SeriesKey: SeriesKey{Device: "cpu", Kernel: "one"}, Ms: Ms{1, 2, 3, 9}, Infer: true}
	other := PlannedSeries{SeriesKey: SeriesKey{Device: "cpu", Kernel: "other"}, Ms: Ms{4}}
	plan.Series = append(plan.Series, one, other)
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := Meta{Plan: text}.Planned()
	series := planned.Series
	if err != nil || len(series) != 2 || series[1].SeriesKey != other.SeriesKey {
		t.Fatalf("%v, %v", series, err)
	}
	if asked := Inferred(series); len(asked) != 1 || !slices.Equal(asked[one.SeriesKey], one.Ms) {
		t.Errorf("inferred are %v", asked)
	}
	if planned, err := (Meta{}).Planned(); planned.Series != nil || err != nil || Inferred(planned.Series) != nil {
		t.Errorf("no plan: %v, %v", planned, err)
	}
	for _, bad := range []string{`{`, `{"series":[{"ms":"x","infer":true}]}`} {
		if _, err := (Meta{Plan: json.RawMessage(bad)}).Planned(); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
