package results

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDimension limits M, N, K and counts of a case. Larger values are mistakes, and products of
// three smaller ones fit into float64.
const MaxDimension = 1 << 31

// MostFigure limits clocks, powers, temperatures and energies, so that sums and rates stay finite.
const MostFigure = 1e9

// LeastUS and mostUS limit a launch's time: from below a clock cycle to decades. Rates in between are finite.
const LeastUS, MostUS = 1e-6, 1e15

// MaxText exceeds the length of any name or label, including mangled kernel names, and of table texts.
const MaxText = 4096

// CheckText refuses texts longer than most bytes, control characters and invalid UTF-8, which would garble
// output.
func CheckText(s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("%d bytes, expected at most %d", len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8 text", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q has a control character", s)
	}
	return nil
}
