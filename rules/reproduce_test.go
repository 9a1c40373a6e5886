package rules

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The command that measures a finding again is copied into a shell, and the names
// in it may come from somebody else's file.
func TestReproduceIsQuoted(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"cpu", "cuda:0", "a b", "$(echo x)", "`echo x`", "a;echo x", "a|b", "a>b", "it's", `q"q`, `b\n`, "*", "~", "#"} {
		line := reproduce(results.Case{SeriesKey: results.SeriesKey{Device: name, Kernel: name, Subject: kernels.Product(kernels.FP32, 8, 16)}, M: 4}, results.Case{})
		out, err := exec.Command(shell, "-c", strings.Replace(line, "gemmaudit", `printf '%s\n'`, 1)).Output()
		if words := strings.Split(string(out), "\n"); err != nil || len(words) < 5 || words[2] != name || words[4] != name {
			t.Errorf("%q: %s is read as %q, %v", name, line, words, err)
		}
	}
}
