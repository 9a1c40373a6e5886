package importing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// linesByM reads the lines from the current one on, if more, sorted by M; duplicate Ms are errors.
func linesByM[T any](f *csvFile, more bool, read func() (T, error), mOf func(T) int) ([]T, error) {
	var out []T
	var err error
	lines := map[int]int{}
	for ; more && err == nil; more, err = f.next() {
		t, err := read()
		if err != nil {
			return nil, err
		}
		m := mOf(t)
		if first, twice := lines[m]; twice {
			return nil, f.fail("m", "is already in line %d", first)
		}
		if len(out) == results.MaxMs {
			return nil, &ImportError{Path: f.path, Line: f.line, Reason: fmt.Sprintf("there are more than %d Ms", results.MaxMs)}
		}
		lines[m] = f.line
		out = append(out, t)
	}
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, &ImportError{Path: f.path, Reason: "there is no line after the header"}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(mOf(a), mOf(b)) })
	return out, nil
}
