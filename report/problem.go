package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/explain"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// WriteProblem explains one problem of a run for people: its numbers, the neighboring sizes, the cause with
// evidence, fixes in an engine, and the command that measures it again.
func WriteProblem(w io.Writer, meta results.Meta, audit *rules.Audit, p *problem.Problem) error {
	st := StyleOf(w)
	b := bufio.NewWriter(w)
	lines := func(texts []string) {
		for _, text := range texts {
			for _, l := range explain.Wrap(ForTerminal(text, st.Unicode), st.Limit()) {
				fmt.Fprintln(b, l)
			}
		}
	}
	title := func(text string) { fmt.Fprintf(b, "\n%s\n", bold(text, st)) }
	of := evidenceIn(audit)
	a := of.account(meta, p)

	lines([]string{fmt.Sprintf("Problem %d: %s on %s, %s, %s %s", p.Number, strings.Join(p.Kernels, " and "), p.Device, p.Subject,
		p.AxisWord(), IntervalText(p.FromM, p.ToM))})
	lines(a.times)

	title("Times around it")
	plotAround(b, of.rows[p.Series], p)

	title("Why")
	lines(a.why)
	lines(a.excluded)
	if len(a.found) == 0 {
		lines([]string{onlyByRemedy})
	} else {
		lines([]string{"Found by:"})
		for _, text := range a.found {
			lines([]string{"- " + text})
		}
	}

	title("What to do")
	for _, step := range a.steps {
		lines([]string{step.String()})
	}
	if a.command != "" {
		title("Measure it again")
		fmt.Fprintln(b, ForTerminal(a.command, st.Unicode)) // commands are never wrapped
		if a.needsPaths {
			lines([]string{pathsNote})
		}
	}
	return b.Flush()
}

const rowsOfExperts = "M counts the rows of all experts"

const onlyByRemedy = "No rule flags these sizes; measuring the remedy showed that they can be faster."

type account struct {
	times    []string // the current time, the best alternative, and its evidence
	why      []string // its cause
	excluded []string // causes ruled out
	found    []string // one finding for each rule, the nearest to the problem's row, and how many more
	steps    []step   // what to do
	// command measures it again; empty if unknown. If needsPaths is set, replace PATH by files.
	command    string
	needsPaths bool
}

type evidence struct {
	findings []rules.Finding
	at       map[string]int
	rows     map[results.SeriesKey][]rules.RowVerdict
}

func evidenceIn(audit *rules.Audit) *evidence {
	e := &evidence{findings: audit.Whole().Findings, at: map[string]int{}, rows: map[results.SeriesKey][]rules.RowVerdict{}}
	for i, d := range e.findings {
		e.at[d.ID] = i
	}
	for _, s := range audit.Whole().Series {
		e.rows[s.Key] = s.Rows
	}
	return e
}

func (e *evidence) account(meta results.Meta, p *problem.Problem) *account {
	a := &account{times: []string{timesSentence(p, false, false)}, steps: remedySteps(p, meta.Source != "")}
	if experts := p.Experts(); experts != "" {
		a.times = append([]string{fmt.Sprintf("The product has %s. %s.", experts, rowsOfExperts)}, a.times...)
	}
	if r := p.Remedy; r != nil && r.Executed {
		a.times = append(a.times,
			fmt.Sprintf("The remedy was measured in turns with the product as it is: gain %s.", bounds{r.Gain, Factor}.Text()))
	}
	if p.Status != rules.Confirmed {
		a.times = append(a.times, fmt.Sprintf("Status: %s. %s", p.Status, explain.Of(explain.Status, string(p.Status)).Sentence()))
	}
	if cause := explain.Of(explain.Cause, string(p.Cause)); cause.Name != "" {
		a.why = append(a.why, cause.Name+": "+cause.Sentence())
	}
	if p.Explanation != "" {
		a.why = append(a.why, p.Explanation)
	}
	excluded, byRule := map[cause.Kind]bool{}, map[rules.Rule][]rules.Finding{}
	var order []rules.Rule
	for _, d := range e.of(p) {
		for _, x := range d.Excluded {
			if d.Series == p.Series && !excluded[x.Cause] && x.Cause != p.Cause {
				excluded[x.Cause] = true
				a.excluded = append(a.excluded, fmt.Sprintf("not %s: %s", x.Cause, x.Why))
			}
		}
		if len(byRule[d.Rule]) == 0 {
			order = append(order, d.Rule)
		}
		byRule[d.Rule] = append(byRule[d.Rule], d)
		if a.command == "" && meta.Source == "" {
			a.command, a.needsPaths = d.Reproduce, d.NeedsPaths
		}
	}
	for _, rule := range order {
		d := byRule[rule][0]
		text := fmt.Sprintf("%s at %s of %s: %s", rule, d.Series.Words(d.WorstM), d.Series.Kernel, claimText(d))
		if n := len(byRule[rule]) - 1; n > 0 {
			text += "; " + Plural(n, "more finding", "more findings") + " of this rule"
		}
		a.found = append(a.found, text)
	}
	return a
}

// of lists a problem's findings: its row's first, beginning with the one behind its remedy. Rooflines
// are last, because they have no reference to measure again.
func (e *evidence) of(p *problem.Problem) []rules.Finding {
	var places []int
	for _, id := range p.Findings {
		if i, ok := e.at[id]; ok {
			places = append(places, i)
		}
	}
	slices.Sort(places)
	out := make([]rules.Finding, len(places))
	for k, i := range places {
		out[k] = e.findings[i]
	}
	rank := func(d rules.Finding) int {
		switch own := d.Series == p.Series && d.WorstM == p.M; {
		case d.Rule == rules.Roofline:
			return 3
		case own && p.Remedy != nil && d.Rule == remedyRules[p.Remedy.Kind]:
			return 0
		case own:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(out, func(a, b rules.Finding) int { return rank(a) - rank(b) })
	return out
}

var remedyRules = map[rules.RemedyKind]rules.Rule{rules.RemedySplit: rules.SplitRule, rules.RemedyPad: rules.Pad,
	rules.RemedyPadN: rules.Pad, rules.RemedyPadK: rules.Pad,
	rules.RemedyOther: rules.Alternative}

func claimText(d rules.Finding) string {
	text := fmt.Sprintf("%s; loses %s", d.Claim(), bounds{d.Loss, Share}.Text())
	if d.Reference != "" {
		text += ", compared with " + d.Reference
	}
	return text + fmt.Sprintf(" (%s)", d.Status)
}

// mostAround is the maximum number of sizes shown around a problem, barWidth the longest bar.
const mostAround, barWidth = 15, 40

// plotAround draws the rows around a problem: each one's time, and its rate relative to the fastest of them.
func plotAround(w io.Writer, rows []rules.RowVerdict, p *problem.Problem) {
	at := slices.IndexFunc(rows, func(r rules.RowVerdict) bool { return r.M >= p.M })
	from := max(0, at-mostAround/2)
	rows = rows[from:min(len(rows), from+mostAround)]
	best, mWidth, usWidth := 0., 0, 0
	for _, r := range rows {
		best, mWidth, usWidth = max(best, r.MFU.Mid), max(mWidth, len(itoa(r.M))), max(usWidth, len(short3(r.US.Mid)))
	}
	if best <= 0 {
		fmt.Fprintln(w, "no times around it")
		return
	}
	for _, r := range rows {
		mark := " "
		if r.M == p.M {
			mark = ">"
		}
		bar := strings.Repeat("#", max(1, int(barWidth*r.MFU.Mid/best+0.5)))
		fmt.Fprintf(w, "%s %s %*d  %*s us  %s %s\n", mark, p.AxisWord(), mWidth, r.M, usWidth, short3(r.US.Mid), bar,
			FormatShare(r.MFU.Mid/best))
	}
	fmt.Fprintln(w, "bars: FLOP/s relative to the fastest of these sizes")
}

// step is one fix in an engine, with a line of code. Each part may be empty.
type step struct{ engine, code, text string }

func (s step) String() string {
	out := s.code + s.between() + s.text
	if s.engine != "" {
		out = s.engine + ": " + out
	}
	return out
}

func remedySteps(p *problem.Problem, imported bool) []step {
	if p.Own {
		return []step{{text: fmt.Sprintf("No fix in an engine: %s is a kernel of gemmaudit, which no engine calls. `--kernel ladder` "+
			"measures each kernel of gemmaudit.", strings.Join(p.Kernels, " or "))}}
	}
	if p.Tried != nil {
		return []step{{text: fmt.Sprintf("Not proven: the product was %sx as fast %s, but in too few rounds. "+
			"`gemmaudit splits RUN --execute` measures it again on the machine of the run.",
			short3(p.Tried.Gain.Mid), remedyClause(*p.Tried))}}
	}
	if p.Remedy == nil {
		if p.Possible != "" {
			return []step{{text: "No remedy that an engine can apply is known. " + p.Possible +
				", a kernel of gemmaudit, shows that the product can be faster: report it to the library's maker with the command below."}}
		}
		if !p.Paddable() {
			return []step{{text: "No remedy is known. Measure more kernels, or report it to the library's maker with the command below."}}
		}
		return []step{{text: "No remedy is known. Report it to the library's maker with the command below, or search more sizes: a pad " +
			"or a split needs other sizes that were measured."}}
	}
	var out []step
	r := *p.Remedy
	var patch, inTable string
	switch {
	case r.Pays && p.Experts() != "": // tables hold single products only
	case r.Pays:
		inTable = " table.h has the action for every M."
		if p.Epilogue == 0 || p.Epilogue == kernels.Bias {
			patch = "`gemmaudit.torch.patch(model, \"table.json\")` does it for every product of the table."
		}
	case r.Unsteady:
		out = append(out,
			step{text: "This remedy was measured while other work ran, so it is undecided. `gemmaudit splits RUN --execute` measures it " +
				"again on the machine of the run."})
	case imported:
		out = append(out,
			step{text: "This remedy is predicted, not measured. Imported times can't prove it: time it yourself, or measure the product " +
				"on that machine with `gemmaudit run`."})
	default:
		out = append(out,
			step{text: "This remedy is predicted, not measured. `gemmaudit splits RUN --execute` measures it on the machine of the run."})
	}
	switch {
	case r.Kind == rules.RemedyPad && p.Experts() != "":
		return append(out, padExpertsSteps(p)...)
	case r.Kind == rules.RemedyOther && p.Experts() != "":
		return append(out, otherExpertsSteps(p)...)
	case r.Kind == rules.RemedyOther && p.Epilogue != 0 && r.Kernel == kernels.SeparateKernel(p.Series.Kernel):
		return append(out, separateSteps(p)...)
	}
	switch r.Kind {
	case rules.RemedyPad:
		out = append(out,
			step{"PyTorch", fmt.Sprintf("torch.nn.functional.linear(torch.nn.functional.pad(x, (0, 0, 0, %d)), weight)[:%d]", r.PadTo-r.M,
				r.M), patch},
			step{engine: "vLLM",
				text: fmt.Sprintf("add %d to cudagraph_capture_sizes of --compilation-config: a batch is padded to the next captured "+
					"size. `gemmaudit advise RUN` writes the whole list.", r.PadTo)},
			step{engine: "TensorRT-LLM", text: fmt.Sprintf("add %d to batch_sizes of cuda_graph_config, with enable_padding.", r.PadTo)},
			step{engine: "C",
				text: fmt.Sprintf("allocate %d rows for A and C, call the library with M = %d, and use the first %d rows of C.%s", r.PadTo,
					r.PadTo, r.M, inTable)})
	case rules.RemedyPadN, rules.RemedyPadK:
		out = append(out, padWeightsSteps(r)...)
	case rules.RemedySplit:
		parts := results.JoinInts(r.Parts, ", ")
		out = append(out,
			step{"PyTorch", fmt.Sprintf("torch.cat([torch.nn.functional.linear(part, weight) for part in x.split([%s])])", parts), patch},
			step{engine: "vLLM, TensorRT-LLM",
				text: "no setting splits a product. `gemmaudit advise RUN` finds chunk and batch sizes that avoid this M."},
			step{engine: "C",
				text: fmt.Sprintf("call the library once for each of %s rows, with the pointers of A and C moved on.%s", parts, inTable)})
	case rules.RemedyAlgorithm:
		out = append(out,
			step{engine: "PyTorch",
				text: "`gemmaudit table convert table.json --to tunableop --pytorch-version VERSION --out tunableop.csv` writes the " +
					"choice for TunableOp (PYTORCH_TUNABLEOP_ENABLED=1)."},
			step{engine: "C", text: "pass the algorithm of table.json to cublasLtMatmul instead of the heuristic's first choice."})
	case rules.RemedyOther:
		switch r.Kernel {
		case "cublas", "cublaslt":
			out = append(out, step{engine: "PyTorch", code: fmt.Sprintf("torch.backends.cuda.preferred_blas_library(%q)", r.Kernel)})
		}
		out = append(out, step{engine: "C", text: "call " + r.Kernel + " for these M." + inTable})
	}
	return out
}
