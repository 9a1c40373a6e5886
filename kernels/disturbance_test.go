package kernels

import (
	"slices"
	"testing"
	"time"
)

const ms = time.Millisecond

// Texts of earlier versions must stay readable.
func TestDisturbanceTexts(t *testing.T) {
	for _, c := range []struct {
		text  string
		want  Disturbance
		kinds []string
	}{
		{"", Disturbance{}, nil},
		{"stolen 10 ms", Disturbance{Stolen: 10 * ms}, []string{"stolen"}},
		{"preempted once", Disturbance{Preempted: 1}, []string{"preempted"}},
		{"stolen 20 ms, preempted 3 times", Disturbance{Stolen: 20 * ms, Preempted: 3}, []string{"stolen", "preempted"}},
		{"preempted 4 times: lost 0.85 of 4.9 ms", Disturbance{Preempted: 4, Lost: 850 * time.Microsecond, Block: 4900 * time.Microsecond},
			[]string{"preempted"}},
		{"suspended for 90 s, stopped: lost 300 of 310 ms", Disturbance{Suspended: 90 * time.Second, Lost: 300 * ms, Block: 310 * ms},
			[]string{"suspended", "stopped"}},
		{"the host was held up for 12 ms", Disturbance{HeldUp: 12 * ms}, []string{"held up"}},
		{"stolen=4, daemon", Disturbance{Other: "stolen=4, daemon"}, []string{"stolen", "daemon"}},
		{"stopped: lost x of 4.9 ms", Disturbance{Other: "stopped: lost x of 4.9 ms"}, []string{"stopped"}},
		{"stopped: lost -1 of 4.9 ms", Disturbance{Other: "stopped: lost -1 of 4.9 ms"}, []string{"stopped"}},
		{"stolen 1e400 ms", Disturbance{Other: "stolen 1e400 ms"}, []string{"stolen"}},
	} {
		got := ParseDisturbance(c.text)
		if got != c.want || !slices.Equal(got.Kinds(), c.kinds) {
			t.Errorf("%q is read as %+v of kinds %q, expected %+v and %q", c.text, got, got.Kinds(), c.want, c.kinds)
		}
		if got.String() != c.text {
			t.Errorf("%q is written as %q", c.text, got)
		}
	}
}

func FuzzParseDisturbance(f *testing.F) {
	f.Add("stolen 20 ms, preempted 3 times: lost 2.1 of 9.8 ms, daemon")
	f.Add("suspended for 1e+03 s, stopped: lost 0.17 of 3.9 ms")
	f.Fuzz(func(t *testing.T, text string) {
		once := ParseDisturbance(text).String()
		if twice := ParseDisturbance(once).String(); twice != once {
			t.Errorf("%q is written as %q, and that as %q", text, once, twice)
		}
	})
}
