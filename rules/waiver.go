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
)

// Waiver excuses findings until a date. Empty fields match everything; a
// finding is excused when all of its interval lies within M.
type Waiver struct {
	Rule Rule `yaml:"rule"`
	// Series is a pattern over the printed series ("cpu/amx/bf16/n4096 k4096"),
	// in which * stands for any text and ? for one character.
	Series string        `yaml:"series"`
	Device string        `yaml:"device"`
	Kernel string        `yaml:"kernel"`
	DType  kernels.DType `yaml:"dtype"`
	N      int           `yaml:"n"`
	K      int           `yaml:"k"`
	M      MRange        `yaml:"m"`
	Reason string        `yaml:"reason"`
	// Expires is the last day on which the waiver holds, YYYY-MM-DD.
	Expires Date `yaml:"expires"`
}

// MRange is a range of M with both ends inside; the zero value holds every M.
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

func (r MRange) holds(from, to int) bool {
	return r == MRange{} || r.From <= from && to <= r.To
}

// Date is a day, YYYY-MM-DD.
type Date string

// UnmarshalYAML reads a day and refuses everything else, times included.
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
	return nil
}

func (w Waiver) matches(f Finding) bool {
	k := f.Series
	return (w.Rule == "" || w.Rule == f.Rule) &&
		(w.Series == "" || globMatch(w.Series, k.String())) &&
		(w.Device == "" || w.Device == k.Device) &&
		(w.Kernel == "" || w.Kernel == k.Kernel) &&
		(w.DType == "" || w.DType == k.DType) &&
		(w.N == 0 || w.N == k.N) && (w.K == 0 || w.K == k.K) &&
		w.M.holds(f.FromM, f.ToM)
}

// String says what the waiver is about, for warnings.
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

// applyWaivers marks the findings that are excused today. An expired waiver
// excuses nothing and is a warning, and so is one that matches no finding of a
// series that the run has: it has outlived its reason.
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
		probe := w
		probe.Rule, probe.M = "", MRange{}
		concerned := slices.ContainsFunc(keys, func(k results.SeriesKey) bool { return probe.matches(Finding{Series: k}) })
		switch {
		case expired && used > 0:
			warnings = append(warnings, Warning{w.String(), fmt.Sprintf("expired on %s and excuses %s no more", w.Expires, plural(used, "finding"))})
		case expired && concerned:
			warnings = append(warnings, Warning{w.String(), fmt.Sprintf("expired on %s and matches no finding", w.Expires)})
		case used == 0 && concerned:
			warnings = append(warnings, Warning{w.String(), "matches no finding of this run"})
		}
	}
	return warnings
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
