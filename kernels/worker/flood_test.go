package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestFlood(t *testing.T) {
	var got []string
	now := time.Unix(0, 0)
	f := newFlood(func(s string) { got = append(got, s) }, func() time.Time { return now })
	for i := range floodBurst + 10 {
		f.line(fmt.Sprint(i))
	}
	if len(got) != floodBurst {
		t.Fatalf("%d lines at once, expected %d", len(got), floodBurst)
	}
	now = now.Add(time.Second / floodRate)
	f.line("later")
	if want := []string{"(more lines: 10)", "later"}; !slices.Equal(got[floodBurst:], want) {
		t.Errorf("%q, expected %q", got[floodBurst:], want)
	}
	f.line("too soon")
	f.end()
	if last := got[len(got)-1]; last != "(more lines: 1)" {
		t.Errorf("the end tells %q", last)
	}
}
