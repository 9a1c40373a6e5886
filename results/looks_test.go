package results

import (
	"slices"
	"testing"
)

func TestLooks(t *testing.T) {
	for _, c := range []struct {
		screening, rounds int
		want              []int
	}{
		{7, 35, []int{7, 11, 17, 26}},
		{7, 36, []int{7, 11, 17, 26}},
		{7, 11, []int{7}},
		{7, 7, nil},
		{1, 9, []int{1, 2, 3, 5, 8}},
		{0, 3, []int{1, 2}},
	} {
		if got := Looks(c.screening, c.rounds); !slices.Equal(got, c.want) {
			t.Errorf("of %d and %d rounds: %v, want %v", c.screening, c.rounds, got, c.want)
		}
	}
}
