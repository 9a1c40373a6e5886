package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// Waiver excuses findings until a date. Empty fields match everything, and at least one field is set; a
// finding is excused if its whole interval lies within M.
type Waiver struct {
	Rule Rule `yaml:"rule,omitempty"`
	// Series is a pattern over the printed series, "cpu/amx/bf16 n4096 k4096" as in tables or
	// "cpu/amx/bf16/n4096 k4096" as in ids; * matches any text and ? one character.
	Series string        `yaml:"series,omitempty"`
	Device string        `yaml:"device,omitempty"`
	Kernel string        `yaml:"kernel,omitempty"`
	DType  kernels.DType `yaml:"dtype,omitempty"`
	N      int           `yaml:"n,omitempty"`
	K      int           `yaml:"k,omitempty"`
	M      MRange        `yaml:"m,omitempty"`
	Reason string        `yaml:"reason"`
	// Expires is the last valid day of the waiver, YYYY-MM-DD.
	Expires Date `yaml:"expires"`
}

// MRange is a range of M, both ends included; the zero value matches every M.
type MRange struct{ From, To int }

// UnmarshalYAML reads "2080-2304" or "2180".
func (r *MRange) UnmarshalYAML(node *yaml.Node) error {
	from, to, isRange := strings.Cut(node.Value, "-")
	if !isRange {
		to = from
	}
	var err1, err2 error
	r.From, err1 = strconv.Atoi(strings.TrimSpace(from))
	r.To, err2 = strconv.Atoi(strings.TrimSpace(to))
	if node.Kind != yaml.ScalarNode || err1 != nil || err2 != nil || r.From < 1 || r.To < r.From {
		return fmt.Errorf("line %d: m is %q, expected a number or a range like 2080-2304", node.Line, node.Value)
	}
	return nil
}

// MarshalYAML writes a range as UnmarshalYAML reads it.
func (r MRange) MarshalYAML() (any, error) {
	if r.From == r.To {
		return r.From, nil
	}
	return fmt.Sprintf("%d-%d", r.From, r.To), nil
}

func (r MRange) holds(from, to int) bool {
	return r == MRange{} || r.From <= from && to <= r.To
}

// Date is a day, YYYY-MM-DD.
type Date string

// UnmarshalYAML reads a day and returns an error for anything else, including times.
func (d *Date) UnmarshalYAML(node *yaml.Node) error {
	if _, err := time.Parse(time.DateOnly, node.Value); err != nil || node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: expires is %q, expected a day as YYYY-MM-DD", node.Line, node.Value)
	}
	*d = Date(node.Value)
	return nil
}

func (w Waiver) validate() error {
	if w.Rule != "" && !slices.Contains(AllRules(), w.Rule) {
		_, err := ParseRule(string(w.Rule))
		return err
	}
	if w.Reason == "" {
		return fmt.Errorf("no reason given")
	}
	if w.Expires == "" {
		return fmt.Errorf("no expiry date given, expected expires: YYYY-MM-DD")
	}
	if about := (Waiver{Reason: w.Reason, Expires: w.Expires}); w == about {
		return fmt.Errorf("it excuses no finding, expected rule, series, device, kernel, dtype, n, k or m; series: \"*\" excuses " +
			"everything")
	}
	return nil
}

func (w Waiver) matches(f Finding) bool {
	k := f.Series
	return (w.Rule == "" || w.Rule == f.Rule) &&
		(w.Series == "" || globMatch(w.Series, k.String()) || globMatch(w.Series, k.Text())) &&
		(w.Device == "" || w.Device == k.Device) &&
		(w.Kernel == "" || w.Kernel == k.Kernel) &&
		(w.DType == "" || w.DType == k.DType) &&
		(w.N == 0 || w.N == k.N) && (w.K == 0 || w.K == k.K) &&
		w.M.holds(f.FromM, f.ToM)
}

// String describes the waiver, for warnings.
func (w Waiver) String() string {
	words := []string{"waiver"}
	add := func(word string, is bool) {
		if is {
			words = append(words, word)
		}
	}
	add(string(w.Rule), w.Rule != "")
	add(fmt.Sprintf("%q", w.Series), w.Series != "")
	add(w.Device, w.Device != "")
	add(w.Kernel, w.Kernel != "")
	add(string(w.DType), w.DType != "")
	add(fmt.Sprintf("n%d", w.N), w.N != 0)
	add(fmt.Sprintf("k%d", w.K), w.K != 0)
	add(fmt.Sprintf("m%d-%d", w.M.From, w.M.To), w.M != MRange{})
	return strings.Join(words, " ")
}

// Waive marks the findings that the waivers of cfg excuse on its day, and sorts them again. keys are the
// series of the run. An expired waiver has no effect and causes a warning. So does a waiver that matches no
// finding, unless its rule was not judged.
func (a *Audit) Waive(cfg Config, keys []results.SeriesKey) {
	var judged []Waiver
	for _, w := range cfg.Waivers {
		if w.Rule == "" || slices.Contains(cfg.On(), w.Rule) {
			judged = append(judged, w)
		}
	}
	a.Warnings = append(a.Warnings, applyWaivers(a.Findings, judged, keys, cfg.Today)...)
	sortFindings(a.Findings)
}

func applyWaivers(findings []Finding, waivers []Waiver, keys []results.SeriesKey, today string) []Warning {
	if today == "" {
		today = time.Now().Format(time.DateOnly)
	}
	var warnings []Warning
	for _, w := range waivers {
		expired := string(w.Expires) < today
		used := 0
		for i := range findings {
			if !w.matches(findings[i]) {
				continue
			}
			used++
			if !expired && findings[i].Status != Waived {
				findings[i].Status, findings[i].Waiver = Waived, w.Reason
			}
		}
		switch {
		case expired && used > 0:
			warnings = append(warnings, Warning{Subject: w.String(),
				Text: fmt.Sprintf("expired on %s and no longer excuses %s", w.Expires, phrase.Count(used, "finding"))})
		case expired:
			warnings = append(warnings,
				Warning{Subject: w.String(), Text: fmt.Sprintf("expired on %s and matches %s", w.Expires, w.missed(keys))})
		case used == 0:
			warnings = append(warnings, Warning{Subject: w.String(), Text: "matches " + w.missed(keys)})
		}
	}
	return warnings
}

// missed describes the series that a waiver without a match refers to, or the nearest one.
func (w Waiver) missed(keys []results.SeriesKey) string {
	if len(keys) == 0 {
		return "no series: this run has none"
	}
	about := w
	about.Rule, about.M = "", MRange{}
	best, least := keys[0], -1
	for _, k := range keys {
		if about.matches(Finding{Series: k}) {
			return fmt.Sprintf("no finding of this run; its series is %q", k.Text())
		}
		if d := about.distance(k); least < 0 || d < least {
			best, least = k, d
		}
	}
	return fmt.Sprintf("no series of this run; the nearest is %q", best.Text())
}

func (w Waiver) distance(k results.SeriesKey) int {
	d := 0
	if w.Series != "" {
		d = min(globDistance(w.Series, k.String()), globDistance(w.Series, k.Text()))
	}
	add := func(wanted, is string, named bool) {
		if named {
			d += globDistance(wanted, is)
		}
	}
	add(w.Device, k.Device, w.Device != "")
	add(w.Kernel, k.Kernel, w.Kernel != "")
	add(string(w.DType), string(k.DType), w.DType != "")
	add(strconv.Itoa(w.N), strconv.Itoa(k.N), w.N != 0)
	add(strconv.Itoa(w.K), strconv.Itoa(k.K), w.K != 0)
	return d
}

// globDistance is the least number of bytes to insert, drop or replace in text to match the pattern.
func globDistance(pattern, text string) int {
	row := make([]int, len(text)+1) // of the pattern so far, by the length of text
	for t := range row {
		row[t] = t
	}
	for _, p := range []byte(pattern) {
		next := make([]int, len(row))
		if p == '*' {
			next[0] = row[0]
			for t := 1; t < len(row); t++ {
				next[t] = min(row[t], next[t-1])
			}
			row = next
			continue
		}
		next[0] = row[0] + 1
		for t := 1; t < len(row); t++ {
			replace := row[t-1]
			if p != '?' && p != text[t-1] {
				replace++
			}
			next[t] = min(replace, row[t]+1, next[t-1]+1)
		}
		row = next
	}
	return row[len(text)]
}

// globMatch matches text against a pattern with * for any text, / included,
// and ? for one byte.
func globMatch(pattern, text string) bool {
	p, t := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
