package sweep

import (
	"encoding/json"
	"strings"
)

// Note is what is not in a plan as it was asked for, and why.
type Note struct {
	// What is a kernel on a device, a preset or a flag: "mma on cpu".
	What string `json:"what"`
	// LeftOut says that the plan has none of it.
	LeftOut bool   `json:"left_out,omitempty"`
	Why     string `json:"why"`
}

// String is the note in one line.
func (n Note) String() string {
	what := n.What
	if n.LeftOut {
		what += leftOutWords
	}
	return what + ": " + n.Why
}

// leftOutWords follow what is left out.
const leftOutWords = " is left out"

// notesOfOldPlans are the notes of a plan that was written when they were lines of text.
func notesOfOldPlans(plan []byte) ([]Note, error) {
	var old struct {
		Lines []string `json:"notes"`
	}
	if err := json.Unmarshal(plan, &old); err != nil {
		return nil, err
	}
	var out []Note
	for _, line := range old.Lines {
		n := Note{What: "plan", Why: line}
		if what, why, ok := strings.Cut(line, ": "); ok {
			n.Why = why
			n.What, n.LeftOut = strings.CutSuffix(what, leftOutWords)
		}
		out = append(out, n)
	}
	return out, nil
}
