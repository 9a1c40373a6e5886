package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// Answer opens the output of a run: the sizes measured, the slow ones, and the fixes.
type Answer struct {
	problem.Summary `json:"summary"`
	Problems        []*problem.Problem `json:"problems"`
	// SlowCards holds the IDs of cards slower than their peers of the same model on this host.
	SlowCards []string `json:"slow_cards,omitempty"`
	// Cut is what a deadline took from the request before the sweep; nil if nothing.
	Cut *results.Cut `json:"cut,omitempty"`
	// Next holds the lines after the problems: where to find details and which command to run next.
	Next []string `json:"-"`
}

const doctorNext = "Run `gemmaudit doctor` to see what disturbs this machine, then measure again."

const mostProblems = 10

// WriteVerdict prints a run's answer, and all its problems if all is set. The wide table adds findings by
// rule, series and warnings; JSON is the audit with "summary" and "problems". The narrow table and Markdown
// print only the answer. [WriteAudit] prints the other formats, audits with selected findings, and audits by
// the article's method.
func WriteVerdict(w io.Writer, f Format, meta results.Meta, series []results.Series, audit *rules.Audit, answer *Answer, all bool) error {
	if !answers(audit) {
		return WriteAudit(w, f, meta, series, audit)
	}
	switch f {
	case Table, Markdown:
		return WriteAnswer(w, f, answer, all)
	case Wide:
		if err := WriteAnswer(w, f, answer, all); err != nil {
			return err
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
	case JSON:
		return (&Document{Subject: "audit", Value: judged(audit, answer)}).Render(w, f)
	}
	return WriteAudit(w, f, meta, series, audit)
}

func answers(audit *rules.Audit) bool {
	return audit.Selection == nil && audit.Method != rules.MethodArticle
}

func judged(audit *rules.Audit, answer *Answer) any {
	return struct {
		*rules.Audit
		*Answer
	}{audit.WithoutClean(), answer}
}

func WriteAnswer(w io.Writer, f Format, a *Answer, all bool) error {
	doc := a.Document(all)
	return doc.Render(w, f)
}

// Document returns the answer as a document with the first ten problems, or all of them if all is set.
func (a *Answer) Document(all bool) *Document {
	doc := &Document{Subject: "problems", Value: a, Items: items(a.Problems)}
	for i, s := range a.Sentences() {
		tone := Neutral
		if i == 0 && a.Invalid != "" {
			tone = Open
		}
		doc.Head = append(doc.Head, Note{s, tone})
	}
	listed := a.Problems
	if !all && len(listed) > mostProblems {
		listed = listed[:mostProblems]
		doc.Notes = append(doc.Notes,
			Note{Plural(len(a.Problems)-mostProblems, "more problem", "more problems") + ": --all lists them", Faint})
	}
	doc.Sheets = []Sheet{problemSheet(listed, listed)}
	for _, line := range a.Next {
		doc.Notes = append(doc.Notes, Note{Text: line})
	}
	return doc
}

// saves is "The table saves", unless the table lacks remedies: it holds single products only.
func (a *Answer) saves() string {
	for _, p := range a.Problems {
		if p.Proven() && p.Groups > 0 {
			return "The remedies save"
		}
	}
	return "The table saves"
}

// Sentences returns the answer in plain words: sizes measured, slow sizes and their loss, remedies that pay,
// and undecided sizes.
func (a *Answer) Sentences() []string {
	if len(a.Kernels) == 0 && a.Sizes == 0 && a.Invalid == "" {
		return []string{"Nothing was measured."}
	}
	out := []string{a.subject() + ": " + a.count() + "."}
	if a.Invalid != "" {
		out = append(out, "Reason: "+a.Invalid+".")
		if !a.Imported {
			out = append(out, doctorNext)
		}
		return out
	}
	if a.Cut != nil {
		out = append(out, fmt.Sprintf("The deadline was %v.", a.Cut))
	}
	out = append(out, a.unconfirmed()...)
	if a.Baseline != "" {
		out = append(out, fmt.Sprintf("Compared with the baseline %s: %d new, %d grown, %d known. Known ones fail no gate.", a.Baseline,
			a.New, a.Grown, a.Known))
	}
	if n := a.Impossible; n > 0 {
		do := "other load may have lowered the measured peak. Measure again on a quiet machine."
		if a.Imported {
			do = "check the unit of the times and the name of the device."
		}
		out = append(out, fmt.Sprintf("%s less time than the device needs at its peak: %s", Plural(n, "size took", "sizes took"), do))
	}
	if worst := a.worst(); worst != nil {
		out = append(out, "Worst: "+timesSentence(worst, a.Products > 1, len(a.Kernels) > 1))
	}
	if share := a.SavedShare(); share > 0 {
		of := "a pass over all sizes"
		if a.Weighed {
			of = "the traffic"
		}
		out = append(out, fmt.Sprintf("%s %s of %s.", a.saves(), percent(share), of))
	}
	more := ""
	if a.worst() != nil {
		more = "more "
	}
	if n := a.OnlyPossible; n > 0 {
		out = append(out, fmt.Sprintf("%s no remedy in a library: only a gemmaudit kernel is faster.",
			Plural(n, more+"problem has", more+"problems have")))
		more = "more "
	}
	if n := a.OnlyCeiling; n > 0 {
		out = append(out,
			fmt.Sprintf("%s far below the roofline, but nothing faster was measured.", Plural(n, more+"problem is", more+"problems are")))
	}
	if n := a.OwnProblems; n > 0 {
		last := "They are listed last."
		if n == 1 {
			last = "It is listed last."
		}
		out = append(out, fmt.Sprintf("%s in %s, which no engine calls. %s", Plural(n, "problem is", "problems are"), list(a.Own), last))
	}
	if n := a.Waived; n > 0 {
		out = append(out, fmt.Sprintf("%s waived and not among the problems.", Plural(n, "finding is", "findings are")))
	}
	out = append(out, a.fusing()...)
	if len(a.SlowCards) > 0 {
		out = append(out, fmt.Sprintf("Slower than the other cards of this host: %s. -o wide compares them.", list(a.SlowCards)))
	}
	return append(out, a.undecided()...)
}

func (a *Answer) undecided() []string {
	if a.Undecided == 0 {
		return nil
	}
	text := Plural(a.Undecided, "size is", "sizes are") + " undecided"
	switch clock := a.UndecidedByClock; {
	case clock == a.Undecided:
		return []string{fmt.Sprintf("%s: the clock was far from %.0f MHz. Lock the clock of the GPU to decide them.", text, a.ClockMHz)}
	case clock > 0:
		return []string{fmt.Sprintf("%s, %d of them since the clock was far from %.0f MHz. Lock the clock of the GPU, and measure more "+
			"--rounds.", text, clock, a.ClockMHz)}
	case a.Resolution > 0:
		text += fmt.Sprintf(": this run cannot show differences below %s", phrase.Roughly(a.Resolution))
	}
	if a.Imported {
		return []string{text + ". More samples of each size would decide them."}
	}
	return []string{text + ". More --rounds or a quieter machine would decide them."}
}

// subject names library, card and type: "cuBLAS 13.1 on NVIDIA H100, bf16".
func (a *Answer) subject() string {
	var names []string
	for _, k := range a.Kernels {
		names = append(names, kernelTitle(k))
	}
	return fmt.Sprintf("%s on %s, %s", list(names), list(a.Devices), list(a.DTypes))
}

func (a *Answer) count() string {
	of := Plural(a.Sizes, "size", "sizes")
	switch {
	case a.Product != "":
		of += " of " + a.Product
	case a.Products > 1:
		of += " of " + itoa(a.Products) + " products"
	}
	switch {
	case a.Invalid != "":
		return "this run cannot be judged"
	case a.Slow > 0:
		return a.slow(of)
	case a.Suspected > 0:
		need, were := "they need", "were"
		if a.Suspected == 1 {
			need, were = "it needs", "was"
		}
		return fmt.Sprintf("%d of %s may be slower than %s to be, but %s measured too few times to tell", a.Suspected, of, need, were)
	case a.Sizes == 0:
		return "nothing was measured"
	case a.Undecided+a.Unjudged >= a.Sizes, a.Impossible >= a.Sizes:
		return "none of " + of + " could be judged"
	}
	return "none of " + of + " is known to be slower than it needs to be"
}

// slow counts slow sizes with their problems. Sizes that were not measured again may be slower.
func (a *Answer) slow(of string) string {
	needs := func(n int) string {
		return Plural(n, "of "+of+" is slower than it needs to be", "of "+of+" are slower than they need to be")
	}
	open := a.Slow - a.Confirmed
	text := ""
	switch {
	case a.Confirmed == 0 && open == 1:
		text = "1 of " + of + " may be slower than it needs to be"
	case a.Confirmed == 0:
		text = fmt.Sprintf("%d of %s may be slower than they need to be", open, of)
	case open > 0:
		text = fmt.Sprintf("%s, and %d more may be", needs(a.Confirmed), open)
	default:
		text = needs(a.Confirmed)
	}
	return text + ", in " + Plural(a.SlowProblems, "problem", "problems")
}

// HasUnconfirmed reports whether a problem rests on suspects that were not measured again.
func (a *Answer) HasUnconfirmed() bool {
	return slices.ContainsFunc(a.Problems, func(p *problem.Problem) bool { return p.Status == rules.Unconfirmed && !p.Impossible() })
}

// unconfirmed gives the reason why sizes only may be slower.
func (a *Answer) unconfirmed() []string {
	switch {
	case !a.HasUnconfirmed():
		return nil
	case a.Unconfirmed != "":
		return []string{capitalized(a.Unconfirmed) + "."}
	case a.Imported:
		return []string{"Suspects of an imported run can't be measured again."}
	}
	return []string{"Suspects were not measured again."}
}

func (a *Answer) worst() *problem.Problem {
	var best *problem.Problem
	for _, p := range a.Problems {
		if p.OnlyPossible() || p.OnlyCeiling() || p.Impossible() || p.Own || p.US <= 0 || p.BetterUS+p.ExpectedUS <= 0 {
			continue
		}
		gain := func(p *problem.Problem) float64 { return p.US / cmp.Or(p.BetterUS, p.ExpectedUS) }
		if best == nil || p.Proven() && !best.Proven() || p.Proven() == best.Proven() && gain(p) > gain(best) {
			best = p
		}
	}
	return best
}

// productText names the product of a curve, and its experts and routing in words.
func productText(s kernels.Subject) string {
	if experts := s.Experts(); experts != "" {
		return s.Curve() + " (" + experts + ")"
	}
	return s.Curve()
}

func timesSentence(p *problem.Problem, product, kernel bool) string {
	what := p.Words(p.M)
	if product {
		what += " of " + productText(p.Subject)
	}
	if kernel {
		what += " on " + strings.Join(p.Kernels, " and ")
	}
	unit, scale := timeUnit(max(p.US, p.BetterUS))
	in := func(us float64) string { return short3(us*scale) + " " + unit }
	now, better, expected, gain := in(p.US), in(p.BetterUS), in(p.ExpectedUS), short3(p.Gain.Mid)
	switch {
	case p.Proven():
		return fmt.Sprintf("%s takes %s, and %s %s (%sx).", what, now, better, remedyClause(*p.Remedy), gain)
	case p.Remedy != nil && p.Remedy.Unsteady:
		return fmt.Sprintf("%s takes %s; %s it should take %s (%sx, but other work disturbed the measurement).", what, now,
			remedyClause(*p.Remedy), better, gain)
	case p.Remedy != nil:
		return fmt.Sprintf("%s takes %s; %s it should take %s (%sx, not measured yet).", what, now, remedyClause(*p.Remedy), better, gain)
	case p.Tried != nil:
		return fmt.Sprintf("%s takes %s. It was faster %s (%sx), but in too few rounds to prove it.", what, now, remedyClause(*p.Tried),
			short3(p.Tried.Gain.Mid))
	case p.Possible != "" && p.ExpectedUS > 0:
		return fmt.Sprintf("%s takes %s. No remedy is known; %s, a kernel of gemmaudit, takes %s.", what, now, p.Possible, expected)
	case p.Possible != "":
		return fmt.Sprintf("%s takes %s. No remedy is known; %s, a kernel of gemmaudit, may take less.", what, now, p.Possible)
	case p.OnlyCeiling() && p.ExpectedUS > 0:
		return fmt.Sprintf("%s takes %s; the limit of the device is %s. No remedy is known.", what, now, expected)
	case p.ExpectedUS > 0:
		return fmt.Sprintf("%s takes %s, where %s are expected. No remedy is known.", what, now, expected)
	}
	return fmt.Sprintf("%s takes %s. No remedy is known.", what, now)
}

// remedyClause ends a sentence: "when padded to 384".
func remedyClause(r rules.Remedy) string {
	switch r.Kind {
	case rules.RemedySplit:
		return "when split into " + strings.ReplaceAll(remedyText(r), "+", " + ")
	case rules.RemedyPad:
		return "when padded to " + itoa(r.PadTo)
	case rules.RemedyPadN, rules.RemedyPadK:
		return fmt.Sprintf("with weights padded to %s", padWeightsText(r))
	case rules.RemedyAlgorithm:
		return "with another algorithm of " + r.Kernel
	case rules.RemedyOther:
		return "with " + r.Kernel
	}
	return "as it is"
}

func problemRemedy(p *problem.Problem) any {
	switch {
	case p.Proven():
		return word{problemRemedyText(*p.Remedy), Good}
	case p.Remedy != nil && p.Remedy.Unsteady:
		return word{problemRemedyText(*p.Remedy) + " (undecided)", Neutral}
	case p.Remedy != nil:
		return word{problemRemedyText(*p.Remedy) + " (predicted)", Neutral}
	}
	unit, scale := timeUnit(p.ExpectedUS)
	expected := short3(p.ExpectedUS*scale) + " " + unit
	switch {
	case p.Tried != nil:
		return word{problemRemedyText(*p.Tried) + " (unproven)", Neutral}
	case p.Possible != "" && p.ExpectedUS > 0:
		return word{"none; " + p.Possible + " takes " + expected, Faint}
	case p.Possible != "":
		return word{"none; " + p.Possible + " may be faster", Faint}
	case p.OnlyCeiling() && p.ExpectedUS > 0:
		return word{"none known; limit " + expected, Faint}
	}
	return word{"none known", Faint}
}

// problemRemedyText names the remedy and its kind, for output without a column for the kind.
func problemRemedyText(r rules.Remedy) string {
	if r.Kind == rules.RemedySplit {
		return "split " + remedyText(r)
	}
	return remedyText(r)
}

func whyText(p *problem.Problem) string {
	switch {
	case p.Cause != "" && p.Cause != cause.Unknown:
		return string(p.Cause)
	case len(p.Rules) == 0:
		return ""
	}
	return "unknown"
}

var libraryTitles = map[string]string{"cublas": "cuBLAS", "cublaslt": "cuBLASLt", "onednn": "oneDNN", "openblas": "OpenBLAS"}

func kernelTitle(k problem.Kernel) string {
	version, _, _ := strings.Cut(k.Version, " ")
	return strings.TrimSpace(cmp.Or(libraryTitles[k.Name], k.Name) + " " + version)
}

// list joins words with commas and "and": "a, b and c".
func list(words []string) string {
	words = slices.Clone(words)
	switch n := len(words); n {
	case 0:
		return "nothing"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
}

func short3(v float64) string {
	if !IsFinite(v) {
		return "?"
	}
	return Significant(v, 3)
}

// percent prints a share with at most two significant digits: "3 %".
func percent(share float64) string {
	p := 100 * share
	if p >= 10 {
		return Significant(p, 2) + " %"
	}
	return strings.TrimSuffix(Significant(p, 2), ".0") + " %"
}
