package report

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func fleetSentences(r *fleet.Result) []Note {
	tone := Good
	switch {
	case r.Count(fleet.Drain) > 0:
		tone = Bad
	case r.Count(fleet.Watch) > 0 || r.Count(fleet.Fine) == 0:
		tone = Open
	}
	notes := []Note{{FleetSummary(r) + ".", tone}}
	if text := worstCardText(r); text != "" {
		notes = append(notes, Note{Text: text})
	}
	if n := r.Count(fleet.Unjudged); n > 0 {
		notes = append(notes, Notef(Open, "%s no peers to compare with: measure other cards of that model at the same time.",
			Plural(n, "card has", "cards have")))
	}
	for _, g := range r.Groups {
		if g.Modes != nil {
			notes = append(notes, Note{modesText(g), Open})
		}
	}
	return notes
}

func worstCardText(r *fleet.Result) string {
	for i := range r.Cards { // ordered by verdict, then by slowdown
		switch c := &r.Cards[i]; c.Verdict {
		case fleet.Drain:
			return fmt.Sprintf("Drain first: %s of %s: %s.", c.Device, c.Host, c.Reason)
		case fleet.Watch:
			return fmt.Sprintf("Slowest: %s of %s: %s.", c.Device, c.Host, c.Reason)
		}
	}
	return ""
}

func modesText(g fleet.Group) string {
	m := g.Modes
	text := fmt.Sprintf("%s: the cards fall into two groups: %s %s longer than the other %d", g.Model, Plural(m.Slower, "takes", "take"),
		FormatShare(m.Ratio-1), m.Faster)
	if m.Of == "sustained" {
		text += " in sustained time"
	}
	if m.With != "" {
		text += "; what goes with it: " + m.With
	}
	return text + ". Each card is compared with its own group."
}
