package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestDefaultConfig(t *testing.T) {
	c, err := LoadConfig("")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(defaultConfig), "", "# nothing\n"} {
		if _, err := ParseConfig("x", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSpecificationParses(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)//\tschema:.*?//\n`).FindString(string(text))
	spec := strings.ReplaceAll(block, "//\t", "")
	spec = strings.TrimSuffix(spec, "//\n")
	c, err := ParseConfig("doc.go", []byte(spec))
	if err != nil {
		t.Fatalf("%v\n%s", err, spec)
	}
	if len(c.Waivers) != 1 || c.Waivers[0].M != (MRange{2080, 2304}) {
		t.Errorf("read %+v", c)
	}
	d := Default()
	c.Waivers, d.Waivers = nil, nil
	if got, want := toYAML(t, c), toYAML(t, d); got != want {
		t.Errorf("the defaults in the package comment are not those of default.yaml:\n%s\nwant\n%s", got, want)
	}
}

// An endless rules file, such as a device, must be rejected before memory runs out.
func TestConfigIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(strings.Repeat("#", maxConfigBytes+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), "expected a rules file") {
		t.Errorf("a rules file of %d bytes: %v", maxConfigBytes+1, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"thresold: 0.9\n", `rules.yaml:1: unknown key "thresold"`},
		{"method: interval\nrules:\n  monotonic:\n    enabled: true\n    treshold: 1\n", `rules.yaml:5: unknown key "treshold"`},
		{"confirm:\n  rounds: 12.5\n", "rules.yaml:2: rounds is 12.5, expected a whole number"},
		{"remedy: {max_cases: 1e-320}\n", "rules.yaml:1: max_cases is 1e-320, expected a whole number"},
		{"threshold: 1.5\n", "rules.yaml:1: threshold is 1.5, expected above 0"},
		{"threshold: .nan\n", "rules.yaml:1: threshold is NaN, expected above 0"},
		{"clock_mhz: 50\n", "rules.yaml:1: clock_mhz is 50, expected 0 for the run's"},
		{"diff:\n  stretch: -1\n", "rules.yaml:2: diff.stretch is -1, expected at least 0 and at most 10"},
		{"\nfdr: 0\n", "rules.yaml:2: fdr is 0, expected above 0 and below 1"},
		{"fdr: 0.05\nclock_mhz: 50\n", "rules.yaml:2: clock_mhz is 50, expected 0 for the run's"},
		{"clock_mhz: .nan\n", "rules.yaml:1: clock_mhz is NaN, expected"},
		{"clock_mhz: -1\n", "rules.yaml:1: clock_mhz is -1, expected"},
		{"method: guess\n", `rules.yaml:1: method is "guess", expected interval or article`},
		{"schema: other/1\n", `rules.yaml:1: schema is "other/1", expected "gemmaudit.rules/1"`},
		{"confirm:\n  rounds: 2\n", "rules.yaml:2: confirm.rounds is 2, expected 6 to 1000"},
		{"confirm: {rounds: 20, max_rounds: 10}\n", "rules.yaml:1: confirm.max_rounds is 10, expected 20 to 1000"},
		{"threshold: high\n", "rules.yaml:1: cannot unmarshal"},
		{"waivers:\n  - rule: monotonic\n    expires: 2030-01-01\n", "rules.yaml:2: waivers.0: no reason given"},
		{"waivers:\n  - rule: slow\n    reason: x\n    expires: 2030-01-01\n",
			`rules.yaml:2: waivers.0: unknown rule "slow": expected one of`},
		{"waivers:\n  - reason: x\n", "rules.yaml:2: waivers.0: no expiry date given"},
		{"waivers:\n  - reason: x\n    expires: 2030-01-01\n", "rules.yaml:2: waivers.0: it excuses"},
		{"waivers:\n  - reason: x\n    n: 0\n    series: \"\"\n    expires: 2030-01-01\n", "rules.yaml:2: waivers.0: it excuses"},
		{"waivers:\n  - reason: x\n    expires: next year\n", `rules.yaml:3: expires is "next year", expected a day as`},
		{"waivers:\n  - reason: x\n    m: 9-3\n    expires: 2030-01-01\n", `rules.yaml:3: m is "9-3", expected a number`},
		{"rules: {parity: {pairs: [{dtype: int5, than: bf16, ratio: 1}]}}\n",
			`rules.yaml:1: rules.parity.pairs.0.dtype is "int5", expected one of`},
		{"threshold: 0.9\n---\nthreshold: 0.8\n", "rules.yaml: more than one YAML"},
		{"threshold: [\n", "rules.yaml:"},
	} {
		_, err := ParseConfig("rules.yaml", []byte(tc.text))
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want %q", tc.text, err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error of several lines: %v", tc.text, err)
		}
	}
	if _, err := LoadConfig(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a missing file is no error")
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(string(defaultConfig)))
	f.Add([]byte("waivers:\n  - {rule: pad, m: 3-9, reason: x, expires: 2030-01-01}\n"))
	f.Add([]byte("threshold: &a 0.9\nfdr: *a\n"))
	f.Add([]byte("rules: {parity: {pairs: [{}]}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig("f", text)
		if err != nil {
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("accepted what Validate refuses: %v", err)
		}
		for _, w := range c.Waivers {
			_ = w.String()
			w.matches(Finding{})
		}
	})
}

func TestWaivers(t *testing.T) {
	key := results.SeriesKey{Device: "cpu", Kernel: "openblas", Subject: kernels.Product(kernels.FP32, 4096, 4096)}
	base := Waiver{Rule: Monotonic, Series: "cpu/openblas/*", M: MRange{100, 200}, Reason: "known", Expires: "2030-01-31"}
	for _, tc := range []struct {
		name    string
		change  func(*Waiver)
		today   string
		waived  bool
		warning string
	}{
		{"holds", func(*Waiver) {}, "2030-01-31", true, ""},
		{"expired", func(*Waiver) {}, "2030-02-01", false, "expired on 2030-01-31 and no longer excuses 1 finding"},
		{"other rule", func(w *Waiver) { w.Rule = Pad }, "2030-01-01", false, "matches no finding of this"},
		{"too narrow", func(w *Waiver) { w.M.To = 150 }, "2030-01-01", false, "matches no finding"},
		{"every m", func(w *Waiver) { w.M = MRange{} }, "2030-01-01", true, ""},
		{"other series", func(w *Waiver) { w.Series = "cpu/opensblas/*" }, "2030-01-01", false, `matches no series of this`},
		{"as tables print it", func(w *Waiver) { w.Series = "cpu/openblas/fp32 n4096 k4096" }, "2030-01-01", true, ""},
		{"as ids print it", func(w *Waiver) { w.Series = "cpu/openblas/fp32/n4096 k4096" }, "2030-01-01", true, ""},
		{"a pattern over what tables print", func(w *Waiver) { w.Series = "*fp?? n4096*" }, "2030-01-01", true, ""},
		{"expired, other series", func(w *Waiver) { w.Series = "gpu/*" }, "2030-02-01", false,
			"expired on 2030-01-31 and matches no series of this"},
		{"fields", func(w *Waiver) { w.Series = ""; w.Kernel = "openblas"; w.DType = kernels.FP32; w.N = 4096 }, "2030-01-01", true, ""},
		{"other field", func(w *Waiver) { w.K = 1 }, "2030-01-01", false, "matches no series of this"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := base
			tc.change(&w)
			findings := []Finding{{Rule: Monotonic, Series: key, FromM: 120, ToM: 160, Status: Confirmed}}
			other := key
			other.Kernel, other.N = "onednn-blocked", 11008
			warnings := applyWaivers(findings, []Waiver{w}, []results.SeriesKey{other, key}, tc.today)
			if got := findings[0].Status == Waived; got != tc.waived {
				t.Errorf("waived %v, want %v", got, tc.waived)
			}
			if (tc.warning == "") != (len(warnings) == 0) || tc.warning != "" && !hasWarning(warnings, tc.warning) {
				t.Errorf("warnings %v, want %q", warnings, tc.warning)
			}
		})
	}
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"a*c", "abbc", true}, {"a*c", "abbd", false}, {"a?c", "abc", true},
		{"a?c", "ac", false}, {"*n4096*", "cpu/amx/bf16/n4096 k1", true}, {"", "", true}, {"", "a", false}, {"**a", "ba", true},
	} {
		if got := globMatch(tc.pattern, tc.text); got != tc.want {
			t.Errorf("globMatch(%q, %q) = %v", tc.pattern, tc.text, got)
		}
	}
}

func TestGlobDistance(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"*", "abc", 0}, {"kitten", "sitting", 3}, {"a?c", "abc", 0}, {"a?c", "ac", 1},
		{"abc", "ac", 1}, {"ac", "abc", 1},
		{"cpu/*/fp32", "cpu/openblas/fp16", 2}, {"*n4096*", "cpu/amx/bf16 n4095 k1", 1},
	} {
		if got := globDistance(tc.pattern, tc.text); got != tc.want {
			t.Errorf("globDistance(%q, %q) = %d, expected %d", tc.pattern, tc.text, got, tc.want)
		}
	}
	// Only a match has distance 0.
	rapid.Check(t, func(t *rapid.T) {
		pattern, text := rapid.StringOfN(rapid.RuneFrom([]rune("ab*?")), 0, 6, -1).Draw(t, "pattern"),
			rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 6, -1).Draw(t, "text")
		if globMatch(pattern, text) != (globDistance(pattern, text) == 0) {
			t.Fatalf("%q and %q: distance %d, match %v", pattern, text, globDistance(pattern, text), globMatch(pattern, text))
		}
	})
}

func TestOnly(t *testing.T) {
	c := Default().Only(Pad, Roofline)
	if c.Rules.Monotonic.Enabled || c.Rules.Split.Enabled || !c.Rules.Pad.Enabled || c.Rules.Parity.Enabled ||
		c.Rules.Alternative.Enabled || !c.Rules.Roofline.Enabled {
		t.Errorf("Only(pad, roofline) switched %+v", c.Rules)
	}
	if _, err := ParseRule("monotony"); err == nil || !strings.Contains(err.Error(), "monotonic") {
		t.Errorf("error %v does not list the rules", err)
	}
}

func toYAML(t *testing.T, c Config) string {
	t.Helper()
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEncodedConfigIsRead(t *testing.T) {
	want, err := ParseConfig("house.yaml", []byte(`
threshold: 0.9
rules:
  split: {margin: 0.1}
  alternative: {exclude: [naive, loops]}
waivers:
  - {rule: monotonic, series: "cpu/*", m: 8-64, reason: "known: it is slow", expires: 2090-01-01}
  - {kernel: "on", n: 16, k: 8, m: 7, reason: one row, expires: 2090-01-01}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig("printed.yaml", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	changes, err := CompareConfigs(want, got)
	if err != nil || len(changes) > 0 || len(got.Waivers) != 2 || got.Waivers[1] != want.Waivers[1] || got.Waivers[0] != want.Waivers[0] {
		t.Errorf("%v %v: %+v, want %+v", err, changes, got.Waivers, want.Waivers)
	}
	if changes, err = CompareConfigs(Default(), got); err != nil || len(changes) != 5 {
		t.Errorf("%v: %+v differ from the built-in ones, want 5 keys", err, changes)
	}
}
