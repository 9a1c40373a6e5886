package health

import (
	"fmt"
	"time"
)

// Limits of the resolution of a run, as shares of the time: above the first, small losses are missed; above
// the second, most relevant ones are.
const (
	coarse     = 0.05
	veryCoarse = 0.15
)

// Resolution judges the resolution that a run would have here, estimated from short blocks. words describes
// it.
func Resolution(share float64, words string, delays bool) Finding {
	f := Finding{"resolution", OK, words, ""}
	if delays {
		f.Seen += ": other work delays blocks"
	}
	switch {
	case share > veryCoarse:
		f.Severity, f.Hint = Warning, "stop other programs, or use a machine that is not shared"
	case share > coarse:
		f.Severity, f.Hint = Note, "smaller losses stay undecided; stopping other programs makes them visible"
	}
	return f
}

// NoResolution is the finding for too few timed blocks in a span to estimate the resolution.
func NoResolution(blocks int, span time.Duration) Finding {
	return Finding{"resolution", Warning, fmt.Sprintf("%d blocks in %s are too few to estimate the resolution", blocks, span),
		"stop other programs, or give --resolution more time"}
}
