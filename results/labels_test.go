package results

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLabels(t *testing.T) {
	many := make([]string, MostLabels+1)
	for i := range many {
		many[i] = fmt.Sprintf("k%d=v", i)
	}
	for _, c := range []struct {
		given []string
		want  Labels
		err   string
	}{
		{given: nil},
		{given: []string{"rack=7", "topology.kubernetes.io/zone=eu-1a"}, want: Labels{"rack": "7", "topology.kubernetes.io/zone": "eu-1a"}},
		{given: []string{"note=a = b, and größer"}, want: Labels{"note": "a = b, and größer"}},
		{given: many[1:], want: func() Labels {
			l := Labels{}
			for _, s := range many[1:] {
				l[strings.TrimSuffix(s, "=v")] = "v"
			}
			return l
		}()},
		{given: []string{"rack"}, err: `label "rack": there is no =`},
		{given: []string{""}, err: "there is no ="},
		{given: []string{"=7"}, err: "without a key"},
		{given: []string{"rack="}, err: "label rack has no value"},
		{given: []string{"Rack=7"}, err: `label "Rack": expected a key of a to z`},
		{given: []string{"ra ck=7"}, err: `expected a key of`},
		{given: []string{"räck=7"}, err: `expected a key of`},
		{given: []string{strings.Repeat("k", 64) + "=7"}, err: "the key has 64 bytes, expected at most 63"},
		{given: []string{"rack=" + strings.Repeat("v", 256)}, err: "the value has 256 bytes, expected at most 255"},
		{given: []string{"rack=7\n8"}, err: "expected printable text of one line"},
		{given: []string{"rack=\x1b[2J"}, err: "expected printable text"},
		{given: []string{"rack=\xff"}, err: "expected printable text"},
		{given: []string{"rack=7", "rack=8"}, err: `label rack is given twice, as "7" and "8"`},
		{given: many, err: "65 labels, expected at most 64"},
	} {
		got, err := ParseLabels(c.given)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.80q: %v, expected %q", c.given, err, c.err)
			}
			continue
		}
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%q: %v (-want +got):\n%s", c.given, err, d)
		}
	}
	if s := (Labels{"row": "b", "rack": "7"}).String(); s != "rack=7, row=b" {
		t.Errorf("labels are printed as %q", s)
	}
}

// The run's id and labels must survive reopening.
func TestLabelsOfRun(t *testing.T) {
	r, cases := NewRun(t, 4)
	id := r.ID()
	if len(id) != 32 {
		t.Errorf("the id is %q, expected 32 hexadecimal digits", id)
	}
	must(t, r.Append(SomeSample(cases[0], PhaseSweep, 0, 0)))
	must(t, r.Close())
	again := must1(OpenAppend(r.Path()))(t)
	if again.ID() != id {
		t.Errorf("the id is %s after reopening, it was %s", again.ID(), id)
	}
	must(t, again.Append(SomeSample(cases[0], PhaseSweep, 1, 1)))
	for _, o := range must1(again.Origins())(t) {
		if d := cmp.Diff(Labels{"rack": "7"}, o.Labels); d != "" || o.Run != id {
			t.Errorf("origin %+v of run %s", o, id)
		}
	}
	// Older runs lack the field.
	_, err := again.db.Exec(`DELETE FROM meta WHERE key = 'labels'`)
	must(t, err)
	must(t, again.Close())
	without := must1(Open(r.Path()))(t)
	defer without.Close()
	if l := without.Meta().Labels; l != nil {
		t.Errorf("labels %v of a run without", l)
	}
}

func TestDamagedLabels(t *testing.T) {
	for _, value := range []string{`{"rack":7}`, `{"RACK":"7"}`, `{"rack":"\u001b"}`, `[`, `{"rack":""}`} {
		r, _ := NewRun(t, 4)
		_, err := r.db.Exec(`UPDATE meta SET value = ? WHERE key = 'labels'`, value)
		must(t, err)
		must(t, r.Close())
		_, err = Open(r.Path())
		var format *FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "meta field labels") {
			t.Errorf("labels %s: %v", value, err)
		}
	}
	if _, err := Create(filepath.Join(t.TempDir(), "run.db"), Meta{Labels: Labels{"Rack": "7"}}); err == nil ||
		!strings.Contains(err.Error(), `label "Rack"`) {
		t.Errorf("%v, expected labels to be refused", err)
	}
}
