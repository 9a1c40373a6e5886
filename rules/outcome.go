package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// Outcome is how a command that gates ends. Its value is the exit code.
type Outcome int

// The outcomes. Where several hold, the lowest that is no success is the command's: a gate that failed stays failed, however
// much else is missing; and what could not be measured is more than what could not be told.
const (
	Passed       Outcome = 0
	GateFailed   Outcome = 1
	Broken       Outcome = 3 // a device failed, cases failed, or a file can't be read
	Inconclusive Outcome = 4 // no verdict, or one on less than was asked for
)

// Ground is one reason for an outcome.
type Ground struct {
	Outcome Outcome
	Text    string
	Hint    string // what its reader can do, empty for nothing
}

// Held is a run that a verdict rests on, with what it was asked for and what it holds.
type Held struct {
	Name string
	results.Coverage
}

// Accept says what a verdict may lack because its user has said so.
type Accept struct {
	Failed  bool // cases that failed
	Missing bool // cases that were asked for and not measured
	Mixed   bool // samples of one device that come from several machines
}

// The flags that set the fields of [Accept], as hints name them.
const (
	AcceptFailed  = "accept-failed"
	AcceptMissing = "accept-missing"
	AcceptMixed   = "accept-mixed"
)

// Judged is of how many rows a rule could tell something.
type Judged struct {
	Rule Rule `json:"rule"`
	// Rows are the rows that it was asked about. Of Decided it says that they keep or break it, Undecided are those whose
	// samples leave that open, and the others had nothing to be compared with.
	Rows      int `json:"rows"`
	Decided   int `json:"decided"`
	Undecided int `json:"undecided"`
	// Suspectable are rows that it compared by a scatter that is not their own.
	Suspectable int `json:"suspectable,omitempty"`
	// Named is set where the rule was asked for by its name.
	Named bool `json:"-"`
}

// Compared is how many rows the rule had something to say of.
func (j Judged) Compared() int { return j.Decided + j.Undecided }

// Evidence is all that the outcome of a command follows from: what was proven, what each run was asked for and holds, and of how
// much anything could be told. Every command that gates makes one, and [Evidence.Grounds] is the one place that decides.
type Evidence struct {
	// Name is what was judged, for messages.
	Name string
	// Proven is what fails the gate, in words, and ProvenHint what its reader can do about it.
	Proven     []string
	ProvenHint string
	// Held are the runs that the verdict rests on.
	Held []Held
	// Lost are cases that a baseline has and the run that is compared with it has not: see [Losses].
	Lost   Losses
	Accept Accept
	// Broken is what failed beside cases, and Open why there is no verdict: the outcomes of these grounds are set by Grounds.
	Broken, Open []Ground
	// Unjudged are things that were asked about of which nothing could be told, each in words; Of names them, as "card".
	Unjudged []string
	Of       string
	// Ungated is set where whatever was found passes. What failed, is missing or can't be judged does not.
	Ungated bool
	// Judged says of how many rows each rule could tell something; nil of commands that apply none.
	Judged []Judged
	// Cases counts the cases, and Undecided those of which nothing can be told, by the rule whose verdicts rows carry. More than
	// the share MostUndecided of them, with what is missing, is no verdict.
	Cases, Undecided int
	MostUndecided    float64
	// UndecidedHint is what its reader can do about it.
	UndecidedHint string
}

// Losses are cases of run A that run B, which is compared with it, could not measure.
type Losses struct {
	// A and B name the runs.
	A string `json:"-"`
	B string `json:"-"`
	// Cases are those that A measured.
	Cases int `json:"cases"`
	// Failed are those that failed in B, Missing those that B does not have; the first of each is named.
	Failed       int    `json:"failed,omitempty"`
	FirstFailed  string `json:"first_failed,omitempty"`
	Missing      int    `json:"missing,omitempty"`
	FirstMissing string `json:"first_missing,omitempty"`
}

// Grounds are the reasons for the outcome, the deciding one first; none is a pass. accepted says in words what would be among them
// had its user not accepted it.
func (e Evidence) Grounds() (grounds []Ground, accepted []string) {
	if !e.Ungated {
		for _, text := range e.Proven {
			grounds = append(grounds, Ground{Outcome: GateFailed, Text: text, Hint: e.ProvenHint})
		}
	}
	for _, g := range e.Broken {
		g.Outcome = Broken
		grounds = append(grounds, g)
	}
	for _, g := range e.Open {
		g.Outcome = Inconclusive
		grounds = append(grounds, g)
	}
	add := func(accept bool, flag string, outcome Outcome, do, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if accept {
			accepted = append(accepted, text+", accepted by --"+flag)
			return
		}
		grounds = append(grounds, Ground{Outcome: outcome, Text: text, Hint: do + "--" + flag + " judges the rest"})
	}
	// Of many runs one is told, with how many are like it.
	each := func(has func(Held) bool, accept bool, flag string, outcome Outcome, do string, text func(Held) string) {
		first, more := -1, 0
		for i, h := range e.Held {
			if !has(h) {
				continue
			}
			if first < 0 {
				first = i
			} else {
				more++
			}
		}
		if first < 0 {
			return
		}
		told := text(e.Held[first])
		if more > 0 {
			told += fmt.Sprintf("; so in %s", plural(more, "more run"))
		}
		add(accept, flag, outcome, strings.ReplaceAll(do, "RUN", e.Held[first].Name), "%s", told)
	}
	each(func(h Held) bool { return h.Failed > 0 }, e.Accept.Failed, AcceptFailed, Broken, "`gemmaudit report RUN -o csv` has the reason of each; ", func(h Held) string {
		return fmt.Sprintf("%s: %d of %s failed and %s not judged: %s", h.Name, h.Failed, plural(h.Asked, "case"), isAre(h.Failed), h.FirstFailed)
	})
	each(func(h Held) bool { return h.Partly > 0 }, e.Accept.Failed, AcceptFailed, Broken, "", func(h Held) string {
		return fmt.Sprintf("%s: %d of %s failed after some rounds and %s judged by those: %s", h.Name, h.Partly, plural(h.Asked, "case"), isAre(h.Partly), h.FirstPartly)
	})
	each(func(h Held) bool { return h.Missing > 0 }, e.Accept.Missing, AcceptMissing, Inconclusive,
		"`gemmaudit sweep --resume --out RUN` measures them, merge adds a shard that was forgotten; ", func(h Held) string {
			return fmt.Sprintf("%s: %d of %s that it was asked for %s not measured, %s among them", h.Name, h.Missing, plural(h.Asked, "case"), isAre(h.Missing), h.FirstMissing)
		})
	each(func(h Held) bool { return len(h.Mixed) > 0 }, e.Accept.Mixed, AcceptMixed, Inconclusive, "measure on one machine; ", func(h Held) string {
		return fmt.Sprintf("%s: samples of %d machines are mixed, %v", h.Name, len(h.Mixed[0].Parts), h.Mixed[0])
	})
	if n := len(e.Unjudged); n > 0 {
		add(e.Accept.Missing, AcceptMissing, Inconclusive, "", "%s could not be judged: %s", plural(n, e.Of), e.Unjudged[0])
	}
	if l := e.Lost; l.Failed > 0 {
		add(e.Accept.Failed, AcceptFailed, Broken, "", "%d of %s that %s measured failed in %s: %s", l.Failed, plural(l.Cases, "case"), l.A, l.B, l.FirstFailed)
	}
	if l := e.Lost; l.Missing > 0 {
		add(e.Accept.Missing, AcceptMissing, Inconclusive, "", "%d of %s that %s measured %s not in %s, %s among them",
			l.Missing, plural(l.Cases, "case"), l.A, isAre(l.Missing), l.B, l.FirstMissing)
	}
	if !e.Ungated && len(grounds) == 0 {
		grounds = append(grounds, e.told()...)
	}
	slices.SortStableFunc(grounds, func(a, b Ground) int { return cmp.Compare(a.Outcome, b.Outcome) })
	return grounds, accepted
}

// told are the grounds of which nothing stronger is known: that too little could be told.
func (e Evidence) told() []Ground {
	open := func(hint, format string, args ...any) []Ground {
		return []Ground{{Outcome: Inconclusive, Text: fmt.Sprintf(format, args...), Hint: hint}}
	}
	if e.Cases > 0 && float64(e.Undecided) > e.MostUndecided*float64(e.Cases) {
		text := fmt.Sprintf("%d of %s are undecided", e.Undecided, plural(e.Cases, "case"))
		if e.MostUndecided > 0 {
			text += fmt.Sprintf(", more than %g %%", 100*e.MostUndecided)
		}
		return open(e.UndecidedHint, "%s", text)
	}
	if e.Judged == nil {
		return nil
	}
	compared := 0
	var idle, few []string
	for _, j := range e.Judged {
		compared += j.Compared()
		switch {
		case j.Compared() > 0:
		case j.Suspectable > 0:
			few = append(few, string(j.Rule))
		case j.Named:
			idle = append(idle, string(j.Rule))
		}
	}
	const give = "give more batches, or switch on a rule that applies to what was measured"
	switch {
	case len(few) > 0:
		return open("repeat each case: `gemmaudit sweep` does; what is suspected is listed", "%s: %s judged no row by samples of its own", e.Name, strings.Join(few, ", "))
	case compared == 0:
		return open(give, "%s: no rule compares any of %s with another", e.Name, plural(e.Cases, "case"))
	case len(idle) > 0:
		return open(give, "%s: %s compares no row with another", e.Name, strings.Join(idle, ", "))
	}
	return nil
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
