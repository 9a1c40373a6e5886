package sweep

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// rangePattern matches a dimension with a range instead of a number: "n4000:4352:1", "npow2:1024:8192".
var rangePattern = regexp.MustCompile(`([a-z]+?)((?:pow2|[0-9]+\s*:)[0-9\s:]*)`)

// ParseTargets parses a shape of an operation in which any dimension may be a range of [ParseBatches]:
// "n4000:4352k4096" gives the 353 targets from n4000k4096 to n4352k4096. Several ranges are combined. There
// are at most [MaxBatches] targets.
func ParseTargets(o kernels.Operation, s string) ([]Target, error) {
	texts, err := expandRanges(o, strings.ToLower(s))
	if err != nil {
		return nil, err
	}
	if texts[0] == strings.ToLower(s) {
		texts[0] = s // errors quote it as it was written
	}
	out := make([]Target, len(texts))
	for i, text := range texts {
		if out[i], err = ParseTarget(o, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func expandRanges(o kernels.Operation, s string) ([]string, error) {
	at := rangePattern.FindStringSubmatchIndex(s)
	if at == nil {
		return []string{s}, nil
	}
	letter, written := s[at[2]:at[3]], s[at[4]:at[5]]
	if err := rangeable(o, letter); err != nil {
		return nil, &SyntaxError{"shape", s, err.Error(), "a range in another dimension"}
	}
	values, err := appendItem(nil, strings.TrimSpace(written))
	if err != nil {
		return nil, &SyntaxError{"shape", s, fmt.Sprintf("%s: %s", letter, err.(*SyntaxError).Reason), "a range as in n4000:4352:8k4096"}
	}
	rest, err := expandRanges(o, s[at[1]:])
	if err != nil {
		return nil, err
	}
	if len(values) > MaxBatches/len(rest) {
		return nil, &SyntaxError{"shape", s, fmt.Sprintf("the ranges give more than %d shapes", MaxBatches), "shorter ranges"}
	}
	out := make([]string, 0, len(values)*len(rest))
	for _, v := range values {
		for _, r := range rest {
			out = append(out, fmt.Sprintf("%s%s%d%s", s[:at[2]], letter, v, r))
		}
	}
	return out, nil
}

func rangeable(o kernels.Operation, letter string) error {
	if letter == "m" {
		return fmt.Errorf("a range of m belongs into --batch")
	}
	if slices.ContainsFunc(o.Along(), func(d kernels.Dim) bool { return d.Short == letter }) {
		return nil
	}
	return fmt.Errorf("%q is no dimension that a range of %v may have", letter, o)
}
