package rules

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// proven is a run with slow rows, some only decided by measuring again, with its audit on the device and the
// proof.
func proven(t *testing.T, cfg Config) (infer.Data, *Audit, *Proof) {
	t.Helper()
	w := synthetic.ByM(func(m int) float64 {
		base := 10 + float64(m)
		switch {
		case m >= 128 && m <= 256:
			return 1.3 * base
		case m >= 320 && m <= 384:
			return 1.06 * base // near the bound
		}
		return base
	}, synthetic.Student(0.01), rand.New(rand.NewPCG(11, 3)))
	data := w.Sweep(synthetic.Grid(16, 640, 16), 8)
	a, err := RunAudit(context.Background(), data, cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(NewProof(a, cfg, data.Samples()))
	if err != nil {
		t.Fatal(err)
	}
	kept := &Proof{}
	if err := json.Unmarshal(text, kept); err != nil {
		t.Fatal(err)
	}
	return data, a, kept
}

func swept(t *testing.T, data infer.Data, cfg Config, p *Proof) (*Audit, []Undone) {
	t.Helper()
	a, err := RunAudit(context.Background(), data, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a, a.Accept(p, cfg, data.Samples())
}

func TestProofIsTheAudit(t *testing.T) {
	cfg := Default()
	data, want, kept := proven(t, cfg)
	got, undone := swept(t, data, cfg, kept)
	if len(undone) > 0 {
		t.Errorf("undone: %v", undone)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Audit{}), cmpopts.IgnoreFields(Audit{}, "Losses")); diff != "" {
		t.Errorf("what is kept is not what was shown (-want +got):\n%s", diff)
	}
	if len(kept.Rules) == 0 || len(kept.Rules[0].Rows) == 0 {
		t.Fatal("measuring again has changed no row: there is nothing to keep")
	}
	unproven, _ := swept(t, data, cfg, &Proof{})
	if cmp.Equal(want, unproven, cmpopts.IgnoreUnexported(Audit{}), cmpopts.IgnoreFields(Audit{}, "Losses")) {
		t.Error("the sweep alone says the same: the test shows nothing")
	}
}

func TestProofOfFewerRules(t *testing.T) {
	cfg := Default()
	data, want, kept := proven(t, cfg)
	for _, rule := range []Rule{Monotonic, SplitRule, Pad} {
		got, undone := swept(t, data, cfg.Only(rule), kept)
		var own []Finding
		for _, f := range want.Findings {
			if f.Rule == rule {
				own = append(own, f)
			}
		}
		if diff := cmp.Diff(own, got.Findings, cmpopts.EquateEmpty()); diff != "" || len(undone) > 0 {
			t.Errorf("%s: undone %v, findings (-want +got):\n%s", rule, undone, diff)
		}
		rows := 0
		for _, f := range own {
			if f.Cause != cause.Clock {
				rows += f.Rows
			}
		}
		if len(got.Flagged) != rows || got.RowRule != rule {
			t.Errorf("%s: %d rows flagged by %s, its findings have %d", rule, len(got.Flagged), got.RowRule, rows)
		}
	}
}

func TestProofIsUndone(t *testing.T) {
	cfg := Default()
	data, _, kept := proven(t, cfg)
	for _, tc := range []struct {
		name   string
		change func(*Config)
		keys   []string
		rules  []Rule
	}{
		{"waiver", func(c *Config) {
			c.Waivers = []Waiver{{Series: "*", Reason: "known", Expires: "2199-01-01"}}
		}, []string{}, []Rule{}},
		{"effort", func(c *Config) { c.Confirm.MaxRounds, c.Confirm.MaxCases = 60, 3 }, []string{}, []Rule{}},
		{"other commands", func(c *Config) { c.Diff.Threshold, c.Cards.Threshold, c.Remedy.Margin = 0.5, 0.5, 0.5 }, []string{}, []Rule{}},
		{"threshold", func(c *Config) { c.Threshold = 0.9 }, []string{"threshold"}, []Rule{Monotonic}},
		{"margin", func(c *Config) { c.Rules.Pad.Margin = 0.1 }, []string{"rules.pad.margin"}, []Rule{Pad}},
		{"list", func(c *Config) { c.Rules.Alternative.Exclude = nil }, []string{"rules.alternative.exclude"}, []Rule{Alternative}},
		{"level", func(c *Config) { c.FDR = 0.01 }, []string{"fdr"}, nil},
		{"several", func(c *Config) { c.Confidence, c.ClockMHz = 0.9, 1500 }, []string{"confidence", "clock_mhz"}, nil},
		{"a rule that is off", func(c *Config) { c.Rules.Pad.Margin, c.Rules.Pad.Enabled = 0.1, false }, []string{}, []Rule{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			changed := cfg
			tc.change(&changed)
			whose := tc.rules
			if whose == nil {
				whose = changed.On()
			}
			_, undone := swept(t, data, changed, kept)
			keys := []string{}
			for _, u := range undone {
				keys = append(keys, u.Key)
				if u.Old == u.New || !slices.Equal(u.Rules, whose) {
					t.Errorf("%s of %v, expected that of %v", u, u.Rules, whose)
				}
			}
			if !slices.Equal(keys, tc.keys) {
				t.Errorf("undone by %v, expected %v", keys, tc.keys)
			}
		})
	}
	more := data
	more.Series = slices.Clone(data.Series)
	more.Series[0].Rows = more.Series[0].Rows[1:]
	if _, undone := swept(t, more, cfg, kept); len(undone) != 1 || undone[0].Key != "samples" {
		t.Errorf("another number of samples: undone by %v", undone)
	}
}

func TestProofIsRenewed(t *testing.T) {
	cfg := Default()
	data, _, kept := proven(t, cfg)
	looser := cfg.Only(Monotonic)
	looser.Threshold = 0.9
	_, _, newer := proven(t, looser)
	kept.Renew(newer)
	both := cfg
	both.Threshold = 0.9
	if _, undone := swept(t, data, both, kept); len(undone) > 0 {
		t.Errorf("undone: %v", undone)
	}
	if _, undone := swept(t, data, cfg, kept); len(undone) != 1 || undone[0].String() != "threshold was 0.9 and is 0.95" ||
		!slices.Equal(undone[0].Rules, []Rule{Monotonic}) {
		t.Errorf("undone: %+v", undone)
	}
}

// Every key of the rules file must be listed here: it either undoes proof or not.
func TestEveryKeyTouchesOrNot(t *testing.T) {
	untouching := map[string]string{
		"schema": "has one value", "waivers": "are applied to proof", "diff.threshold": "is of another command",
		"diff.stretch": "is of another command", "diff.series": "is of another command",
		"cards.threshold": "compares cards by the sweep",
		"confirm.rounds":  "says how proof is sought", "confirm.max_rounds": "likewise", "confirm.max_cases": "likewise",
		"remedy.rounds": "says how remedies are executed", "remedy.max_rounds": "likewise", "remedy.max_cases": "likewise",
	}
	for _, rule := range AllRules() {
		untouching["rules."+string(rule)+".enabled"] = "chooses what is shown"
	}
	touching := map[string]bool{}
	for _, s := range settings() {
		touching[s.key] = true
		if s.findings == s.remedies && !s.findings {
			t.Errorf("%s touches nothing", s.key)
		}
	}
	var visit func(prefix string, typ reflect.Type)
	visit = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "-" {
				continue
			}
			if f.Type.Kind() == reflect.Struct {
				visit(prefix+name+".", f.Type)
				continue
			}
			key := prefix + name
			if touching[key] == (untouching[key] != "") {
				t.Errorf("%s: on the list of keys that touch proof %v, on that of keys that do not %v", key, touching[key],
					untouching[key] != "")
			}
			delete(touching, key)
			delete(untouching, key)
		}
	}
	visit("", reflect.TypeFor[Config]())
	for key := range touching {
		t.Errorf("%s is no key of a rules file", key)
	}
	for key := range untouching {
		t.Errorf("%s is no key of a rules file", key)
	}
}
