package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

type page struct {
	title    string
	answer   *answerPart // nil without an answer: then the summary comes first
	summary  []Note      // the outcome in one line, then its qualifications
	machine  string
	sections []section
}

type section struct {
	heading string
	text    []string
	sheet   *Sheet
	wide    bool
	limit   int    // rows shown, 0 for all; the file named in full has the rest
	full    string // "findings.json"
	folded  bool   // hidden until unfolded
	code    []string
	figures []*Figure
	instead bool // index.html omits it, because its script shows the same data
}

const (
	pageFindings = 20  // findings shown unfolded
	pageRemedies = 20  // remedies shown unfolded
	pageRows     = 100 // rows of an unfolded table
	pageDetails  = 40  // rows of a table with long texts: a pull request holds 64 KiB
	pageCommands = 10  // findings whose command is in the page
)

func newPage(in Input, figures []*Figure) *page {
	p := &page{title: "GEMM audit of " + machineName(in.Meta), machine: MachineText(in.Meta), answer: newAnswerPart(in, figures)}
	p.summarise(in)
	verdicts := Sheet{}
	if in.Audit != nil {
		verdicts = verdictSheet(in.Audit)
		p.add(section{heading: verdictTitle("Verdicts", in.Audit), text: []string{auditText(in.Audit) + "."}, sheet: &verdicts})
		p.cards(in.Audit.Cards)
		p.findings(in.Meta, in.Audit)
		p.fusing(in.Audit)
		p.launchDiffers(in.Audit)
		p.reading(in)
	}
	if in.Splits != nil && len(in.Splits.Splits)+len(in.Splits.Rejected) > 0 {
		p.remedies(in.Splits)
	}
	if len(figures) > 0 {
		p.add(section{heading: "Plots", figures: figures, instead: true})
	}
	p.reproduction(in)
	p.appendix(in)
	return p
}

func (p *page) add(s section) { p.sections = append(p.sections, s) }

func (p *page) summarise(in Input) {
	if in.Audit != nil {
		p.summary = append(p.summary, auditHead(in.Audit)[0])
		p.summary = append(p.summary, selectionNotes(in.Audit.Selection, "finding", "findings")...)
		p.summary = append(p.summary, sustainedNotes(in.Audit)...)
		p.summary = append(p.summary, disturbanceNotes(in.Series)...)
		p.summary = append(p.summary, cardNotes(in.Audit.Cards)...)
		p.summary = append(p.summary, launchDiffersNotes(in.Audit)...)
	} else {
		p.summary = append(p.summary, Notef(Neutral, "%s measured, not judged", Count(len(in.Series), "series")))
	}
	if in.Splits != nil {
		tone := Neutral
		if paying(allRemedies(in.Splits)) > 0 {
			tone = Good
		}
		head := SplitsHead(in.Splits)
		head[0].Tone = tone
		p.summary = append(p.summary, head...)
		p.summary = append(p.summary, selectionNotes(in.Splits.Selection, "remedy", "remedies")...)
	}
	for _, n := range in.Notes {
		p.summary = append(p.summary, Note{n, Neutral})
	}
	var warnings []rules.Warning
	if in.Audit != nil {
		warnings = append(warnings, in.Audit.Warnings...)
	}
	if in.Splits != nil {
		warnings = append(warnings, in.Splits.Warnings...)
	}
	const most = 8
	notes := warningNotes(warnings)
	for i, n := range notes {
		if i == most {
			p.summary = append(p.summary,
				Notef(Open, "and %s in findings.json and splits.json", Plural(len(notes)-most, "more warning", "more warnings")))
			break
		}
		p.summary = append(p.summary, n)
	}
}

func (p *page) findings(meta results.Meta, a *rules.Audit) {
	if len(a.Findings) == 0 {
		return
	}
	short := FindingSheet(meta, a)
	if len(short.Rows) > pageFindings {
		short.Rows = short.Rows[:pageFindings]
	}
	s := section{heading: "Findings", sheet: &short, instead: true}
	if n := len(a.Findings); n > pageFindings {
		s.text = append(s.text, fmt.Sprintf("The first %d of %d; the rest is folded below.", pageFindings, n))
	}
	p.add(s)
	why := section{heading: "Why, and how to see it again", instead: true}
	if meta.Source != "" {
		why.heading = "Why"
	}
	paths := false
	for i, f := range a.Findings {
		if i == pageCommands {
			break
		}
		var because []string
		if f.Cause != cause.Unknown && f.Cause != "" {
			because = append(because, string(f.Cause))
		}
		if f.Explanation != "" {
			because = append(because, f.Explanation)
		}
		if text := (excludedCell(f)).Text(); text != "" {
			because = append(because, text)
		}
		if f.Waiver != "" {
			because = append(because, "Waived: "+f.Waiver)
		}
		line := fmt.Sprintf("%s, %s %s%s", f.Rule, f.Series.Text(), f.Series.Axis(), IntervalText(f.FromM, f.ToM))
		if len(because) > 0 {
			line += ": " + strings.Join(because, ". ")
		}
		why.text = append(why.text, line)
		if f.Reproduce != "" && meta.Source == "" {
			why.code = append(why.code, f.Reproduce)
			paths = paths || f.NeedsPaths
		}
	}
	if paths {
		why.text = append(why.text, pathsNote)
	}
	if p.answer == nil { // otherwise the problems explain it
		p.add(why)
	}
	all := FindingSheet(meta, a)
	p.add(section{heading: fmt.Sprintf("All %s", Count(len(a.Findings), "finding")), sheet: &all, wide: true, limit: pageDetails,
		full: "findings.json", folded: true, instead: true})
}

func (p *page) remedies(s *remedy.Result) {
	// Remedies that pay come first.
	sorted := allRemedies(s)
	remedy.Rank(sorted)
	short := SplitSheet(sorted[:min(len(sorted), pageRemedies)])
	kept := section{heading: "Remedies", sheet: &short}
	if len(sorted) > pageRemedies {
		kept.text = []string{fmt.Sprintf("The first %d of %d: remedies that pay first, ordered by the time that they save.", pageRemedies,
			len(sorted))}
	}
	p.add(kept)
	if stretches := StretchSheet(s.Stretches); len(stretches.Rows) > 0 {
		title := stretches.Title
		stretches.Title = ""
		p.add(section{heading: title, sheet: &stretches, limit: pageRows, full: "splits.json"})
	}
	if len(sorted) > pageRemedies {
		all := SplitSheet(sorted)
		p.add(section{heading: fmt.Sprintf("All %s", Plural(len(sorted), "remedy", "remedies")), sheet: &all, wide: true, limit: pageRows,
			full: "splits.json", folded: true})
	}
}

func (p *page) reproduction(in Input) {
	m := in.Meta
	s := section{heading: "How to reproduce"}
	if m.Command != "" {
		s.code = []string{m.Command}
	}
	facts := []string{}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, name+" "+value)
		}
	}
	if m.Source != "" {
		add("imported from", m.Source)
	}
	add("gemmaudit", m.Gemmaudit)
	add("regime", string(m.Regime))
	add("input", string(m.Distribution))
	if m.Source == "" && m.Command != "" {
		add("seed", fmt.Sprint(m.Seed))
	}
	if !m.Created.IsZero() {
		add("taken", m.Created.UTC().Format(time.RFC3339))
	}
	add("run file", in.Run)
	if len(m.Labels) > 0 {
		add("labels", m.Labels.String())
	}
	if len(facts) > 0 {
		s.text = []string{strings.Join(facts, ", ") + "."}
	}
	if len(s.code)+len(s.text) > 0 {
		p.add(s)
	}
}

func (p *page) appendix(in Input) {
	var machine []Property
	for _, f := range in.Meta.Fingerprint.Factors() {
		if f.Value != "" {
			machine = append(machine, Property{f.Name, f.Value})
		}
	}
	for _, key := range in.Meta.Labels.Keys() {
		machine = append(machine, Property{"label " + key, in.Meta.Labels[key]})
	}
	for _, id := range deviceIDs(in.Meta) {
		c := in.Meta.Ceilings[id]
		for _, peak := range sortedPeaks(c.Peaks) {
			machine = append(machine, Property{fmt.Sprintf("%s peak %s", id, peak.DType),
				fmt.Sprintf("%s, %s %s", formatOps(peak.FLOPS, peak.DType), peak.Origin, peak.Unit)})
		}
		if c.ReadBandwidth > 0 {
			machine = append(machine, Property{id + " read bandwidth", gbytes(c.ReadBandwidth)})
		}
		if c.CopyBandwidth > 0 {
			machine = append(machine, Property{id + " copy bandwidth", gbytes(c.CopyBandwidth)})
		}
	}
	if len(machine) > 0 {
		sheet := PairSheet("", "property", "value", machine)
		sheet.column("value").Flex = false
		p.add(section{heading: "The machine in full", sheet: &sheet, folded: true, wide: true})
	}
	if rows := medianSheet(JudgedMedians(in.Series, in.Audit), in.Audit); len(rows.Rows) > 0 {
		p.add(section{heading: fmt.Sprintf("All %s", Count(len(rows.Rows), "row")), sheet: &rows, folded: true, limit: pageRows,
			full: "series.csv", instead: true})
	}
}

func machineName(m results.Meta) string {
	switch devices := m.Fingerprint.Devices; {
	case len(devices) == 1 && devices[0].Name != "":
		return devices[0].Name
	case len(devices) > 1:
		return fmt.Sprintf("%s and %s", devices[0].Name, Plural(len(devices)-1, "more device", "more devices"))
	case m.Fingerprint.CPUModel != "":
		return m.Fingerprint.CPUModel
	case m.Source != "":
		return m.Source
	}
	return "an unknown machine"
}

// MachineText describes the machine in one line: devices, operating system, version.
func MachineText(m results.Meta) string {
	var words []string
	for _, d := range m.Fingerprint.Devices {
		s := d.Name
		if d.Units > 0 {
			s += fmt.Sprintf(" (%s)", Count(d.Units, d.Kind.Facts().Unit))
		}
		words = append(words, s)
	}
	if len(words) == 0 && m.Fingerprint.CPUModel != "" {
		words = append(words, m.Fingerprint.CPUModel)
	}
	for _, s := range []string{m.Fingerprint.OS, m.Fingerprint.Kernel} {
		if s != "" {
			words = append(words, s)
		}
	}
	if len(words) == 0 && m.Source != "" {
		words = append(words, "imported from "+m.Source)
	}
	return strings.Join(words, ", ")
}
