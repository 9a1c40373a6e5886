package rules

import (
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// clear marks the rows of a panel that are undecided only because the resolution is coarser than the loss
// that the rule allows. Suspects, which are measured again, are not marked.
func (pn *Panel) clear(resolution float64) {
	for _, rows := range pn.Rows {
		for i := range rows {
			j := &rows[i]
			j.cleared = j.Tested && j.Verdict == Undecided && j.lossBound > 0 && j.p > suspectP &&
				j.Loss.Hi < infer.CleanBelow(resolution, j.lossBound)
		}
	}
}

// cleanBelow is [Audit].CleanBelow of the panel whose verdicts rows have.
func (pn *Panel) cleanBelow(resolution float64) float64 {
	for _, rows := range pn.Rows {
		for i := range rows {
			if b := rows[i].lossBound; rows[i].Tested && b > 0 {
				if below := infer.CleanBelow(resolution, b); below > b+MarginalReach {
					return below
				}
				return 0
			}
		}
	}
	return 0
}

// CleanText describes the possible losses of an audit's clean rows, empty if they equal the rules' limits.
func (a *Audit) CleanText() string {
	if a.CleanBelow == 0 {
		return ""
	}
	return "a clean row loses less than " + phrase.Roughly(a.CleanBelow)
}
