package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// Each file fixture_*_test.go adds something that the program does not have, and runs commands on it. Nothing else
// names it: see TestExtendingIsMadeOfFixtures.

// step is a command on the simulated device, with its exit code and expressions that its output matches.
type step struct {
	args string
	code int
	want []string
}

// runSteps runs commands in this process.
func runSteps(t *testing.T, d *simulated.Device, steps []step) {
	t.Helper()
	for _, s := range steps {
		var out, errs bytes.Buffer
		a := newApp(strings.NewReader(""), &out, &errs, os.LookupEnv, func() []kernels.Provider { return []kernels.Provider{kept{d}} })
		a.now = d.Now
		code := a.main(strings.Fields(s.args))
		if code != s.code {
			t.Errorf("gemmaudit %s: exit code %d, expected %d\n%s\n%s", s.args, code, s.code, &out, &errs)
		}
		for _, want := range s.want {
			if !regexp.MustCompile(want).MatchString(out.String() + errs.String()) {
				t.Errorf("gemmaudit %s: nothing matches %q\n%s\n%s", s.args, want, &out, &errs)
			}
		}
	}
}

// kept is a device that commands do not close.
type kept struct{ *simulated.Device }

func (k kept) Open() ([]kernels.Device, []kernels.Missing) { return []kernels.Device{k}, nil }
func (kept) Close() error                                  { return nil }
