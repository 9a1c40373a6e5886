package advice

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func checkPrompt(t *testing.T, args ...string) (string, error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	out, err := exec.Command(python, append([]string{filepath.Join("..", "..", "scripts", "check_prompt.py")}, args...)...).CombinedOutput()
	return string(out), err
}

func promptSizes(t *testing.T) (ms []int) {
	t.Helper()
	told, err := checkPrompt(t, "sizes")
	if err != nil {
		t.Fatal(err, told)
	}
	for stretch := range strings.SplitSeq(strings.TrimSpace(told), ",") {
		var at [3]int
		for i, word := range strings.Split(stretch, ":") {
			if at[i], err = strconv.Atoi(word); err != nil {
				t.Fatal(err)
			}
		}
		for m := at[0]; m <= max(at[0], at[1]); m += max(1, at[2]) {
			ms = append(ms, m)
		}
	}
	return ms
}

// The script confirms an advice for a simulated engine and rejects a wrong one.
func TestCheckPrompt(t *testing.T) {
	ms := promptSizes(t)
	if len(ms) != 143 || ms[0] != 16 || ms[142] != 2560 {
		t.Fatalf("%d prompt lengths: %v", len(ms), ms)
	}
	random := rand.New(rand.NewPCG(21, 22))
	s := simulateAt(ms, random, 0.002)
	for _, m := range []int{448, 816, 1184, 1600} { // sizes that are slower than a larger one
		i, _ := slices.BinarySearch(ms, m)
		s.parts[i] = math.Max(s.parts[i], s.parts[i+1]*1.05)
		s.truth[i] = math.Max(s.truth[i], s.truth[i+1]*1.04)
	}
	dir := t.TempDir()
	// The clock, and the times with it, vary by more than the accepted errors.
	var samples, unclocked, fit strings.Builder
	samples.WriteString("round,m,seconds,mhz\n")
	unclocked.WriteString("round,m,seconds\n")
	for round := range 10 {
		for i, m := range ms {
			clock := 0.03 * random.NormFloat64()
			seconds := s.truth[i] * math.Exp(0.003*random.NormFloat64()-clock)
			fmt.Fprintf(&samples, "%d,%d,%.9f,%.1f\n", round, m, seconds, 1600*math.Exp(clock))
			fmt.Fprintf(&unclocked, "%d,%d,%.9f\n", round, m, seconds)
		}
	}
	p, measured := s.passes(t, random, 0.002)
	fit.WriteString("m,seconds,low,high\n")
	for _, x := range measured {
		fmt.Fprintf(&fit, "%d,%.9f,,\n", x.M, x.Seconds)
	}
	part := Part{Names: []string{"products"}, Source: Swept, Count: 1}
	part.Series.N = 64
	for i, m := range p.ms {
		part.Times = append(part.Times, Time{M: m, Seconds: p.seconds[i], SE: 0.002, DF: 20})
	}
	a, err := Advise(Subject{Model: "m"}, []Part{part}, nil, measured, Options{Sizes: 16, MinGain: 0.02, FDR: 0.05, Engines: Engines()})
	if err != nil {
		t.Fatal(err)
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("samples.csv", samples.String())
	write("unclocked.csv", unclocked.String())
	write("fit.csv", fit.String())
	encode := func(name string) {
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(text))
	}
	encode("advice.json")
	compare := func(advice, measured string) (string, error) {
		return checkPrompt(t, "compare", "--advice", path(advice), "--measured", path(measured), "--fit", path("fit.csv"), "--verified",
			path("samples.csv"))
	}
	out, _ := compare("advice.json", "samples.csv")
	t.Log("\n" + out)
	for _, want := range []string{"106 of 143", "error of a time, median", "of these missed", "others named",
		"correlation without an isotonic fit", "chunk of ",
		fmt.Sprintf("%d sizes against powers of two, batches 16 to %d", len(a.Sizes.Captured), a.Chunk.M)} {
		if !strings.Contains(out, want) {
			t.Errorf("the table has no %q", want)
		}
	}
	for line := range strings.Lines(out) {
		// The chunk's gain depends on the engine; the simulated one has little.
		if strings.Contains(line, "NO") && !strings.Contains(line, "against the worst usual one") {
			t.Errorf("missed: %s", line)
		}
	}
	if out, err := compare("advice.json", "unclocked.csv"); err == nil || !strings.Contains(out, "NO") {
		t.Errorf("times that the clock scatters pass, %v:\n%s", err, out)
	}
	for i := range a.Passes {
		if i%2 == 0 {
			a.Passes[i].Seconds.Mid *= 1.04
		}
	}
	a.Skips = []Skip{}
	encode("wrong.json")
	if out, err := compare("wrong.json", "samples.csv"); err == nil || strings.Count(out, "NO") < 4 {
		t.Errorf("a wrong advice passes, %v:\n%s", err, out)
	}
}
