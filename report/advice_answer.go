package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/advice"
)

func adviceSentences(a *advice.Advice) []Note {
	notes := []Note{{chunkSentence(a), Neutral}, {captureSentence(a), Neutral}}
	if text := skipSentence(a); text != "" {
		notes = append(notes, Note{text, Neutral})
	}
	if text := expertsSentence(a); text != "" {
		notes = append(notes, Note{Text: text})
	}
	return append(notes, passesSentence(a))
}

// subjectText names the model and device: "tiny (bf16, cublas) on NVIDIA H100".
func subjectText(a *advice.Advice) string {
	model := a.Model
	if a.TP > 1 {
		model += fmt.Sprintf(", one of %d ranks", a.TP)
	}
	device := a.Device
	if a.Card != "" && a.Card != a.Device {
		device = a.Card + " (" + a.Device + ")"
	}
	return fmt.Sprintf("%s (%s, %s) on %s", model, a.DType, a.Kernel, device)
}

// chunkSentence names the chunk with the highest token rate, and notes when a usual chunk is as fast.
func chunkSentence(a *advice.Advice) string {
	c := a.Chunk
	within := ""
	if c.LatencySeconds > 0 {
		within = fmt.Sprintf(" within %s ms", short3(1e3*c.LatencySeconds))
	}
	if c.M == 0 {
		return fmt.Sprintf("%s: no chunk is surely%s.", subjectText(a), within)
	}
	text := fmt.Sprintf("%s: chunks of %d tokens run fastest%s, at %s tokens/s", subjectText(a), c.M, within,
		fourFigures(c.TokensPerSecond.Mid).Text())
	switch {
	case c.OverM == 0:
		return text + "."
	case c.OverM == c.M:
		return text + "; that is a usual size."
	case c.Gains == advice.GainsNothing:
		return text + fmt.Sprintf(", no faster than the usual %d.", c.OverM)
	case c.Gains == advice.GainsUnsure:
		return text + fmt.Sprintf(", not surely faster than the usual %d.", c.OverM)
	}
	return text + fmt.Sprintf(", %sx the usual %d.", short3(c.Gain.Mid), c.OverM)
}

func captureSentence(a *advice.Advice) string {
	return fmt.Sprintf("Capture %s: %s.", Plural(len(a.Sizes.Captured), "batch size", "batch sizes"), advice.Text(a.Sizes.Captured))
}

// skipSentence counts the sizes that are slower than a larger one; it may be empty.
func skipSentence(a *advice.Advice) string {
	if len(a.Skips) == 0 {
		return ""
	}
	worst := a.Skips[0]
	for _, s := range a.Skips {
		if s.Gain.Mid > worst.Gain.Mid {
			worst = s
		}
	}
	return fmt.Sprintf("%s slower than a larger one: %d takes %s ms, %d takes %s ms.", Plural(len(a.Skips), "size is", "sizes are"),
		worst.M, short3(1e3*worst.Seconds), worst.RunM, short3(1e3*worst.Run))
}

// expertsSentence says how the rows of experts are divided in the times; it may be empty.
func expertsSentence(a *advice.Advice) string {
	for _, p := range a.Parts {
		if experts := p.Series.Experts(); experts != "" {
			return fmt.Sprintf("A pass has %s, multiplied by %s: another routing takes other times.", experts, p.Series.Kernel)
		}
	}
	return ""
}

func passesSentence(a *advice.Advice) Note {
	passes := fmt.Sprintf("%s, M %d to %d", Plural(len(a.Passes), "pass", "passes"), a.Passes[0].M, a.Passes[len(a.Passes)-1].M)
	if a.Coverage == advice.WholePass {
		return Notef(Neutral, "Times are of whole passes: %s.", passes)
	}
	what := "the measured products"
	if a.Coverage == advice.KnownParts {
		what = "the known parts"
	}
	return Notef(Open, "Times are of %s alone: %s; not in them: %s.", what, passes, strings.Join(a.Missing, ", "))
}
