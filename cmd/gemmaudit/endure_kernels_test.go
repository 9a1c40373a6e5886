package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
)

// What a kernel in Python does wrong at one M costs that case, whose failure says what happened and where.
func TestEndureFaults(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "faults.py")
	const rounds = 2
	code, out := r.start(t, append(r.hot("2:4:1", rounds), "--case-timeout", "4s")...)
	if code != exitDevice {
		t.Errorf("exit code %d, expected %d\n%.4000s", code, exitDevice, out)
	}
	o := r.outcome(t)
	for kernel, want := range map[string]string{
		"sleeps":     "no answer within 4s at faults.py:33: the worker was ended",
		"holds":      "no answer within 4s at faults.py:38: the worker was ended",
		"raises":     "faults.py:43: ValueError: no such tile",
		"leaves":     "faults.py:48: SystemExit: enough",
		"ends":       "the worker ended in prime: exit status 7",
		"aborts":     "the worker ended in prime at faults.py:58: signal: aborted",
		"reads":      "the worker ended in prime at faults.py:63: signal: segmentation fault",
		"recurses":   "faults.py:68: RecursionError: maximum recursion depth exceeded",
		"closes":     "a kernel's code may have closed descriptors 3 to 5",
		"mutes":      "a kernel's code may have closed descriptors 3 to 5",
		"interrupts": "faults.py:84: KeyboardInterrupt",
		"prints":     "",
		"disturbs":   `protocol: it wrote "hello"`,
		"refuses":    "faults.py:100: KeyError: 'supports'",
		"packs":      "", // other M have packed the weights
		"naive":      "",
	} {
		for m := 2; m <= 4; m++ {
			samples, failure := o.named(t, kernel, m)
			switch {
			case (m != 3 || want == "") && (failure != "" || samples != rounds):
				t.Errorf("%s at M %d: %d samples, expected %d; failure %q", kernel, m, samples, rounds, failure)
			case m == 3 && want != "" && !strings.Contains(failure, want):
				t.Errorf("%s: failure %q, expected %q", kernel, failure, want)
			}
		}
	}
	if code, out := r.start(t, "audit", "--accept-failed", "run.db"); code != exitClean && code != exitInconclusive {
		t.Errorf("audit: exit code %d\n%s", code, out)
	}
	if err := r.leftovers(nil); err != nil {
		t.Error(err)
	}
}

// A file that fails while it is imported ends the command, with the line.
func TestEndureImport(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "import.py")
	code, out := r.start(t, r.hot("2", 1)...)
	if code != exitUsage || !strings.Contains(out, "import.py:4: RuntimeError: at import") {
		t.Errorf("exit code %d, expected %d\n%s", code, exitUsage, out)
	}
}

// lies are kernels of lies.py, and what selftest says of each. The others it can't find.
var lies = map[string]string{
	"wrong":      "integers: element",
	"stale":      "the replay computed with A and B of the recording: copied or cached",
	"unwritten":  "did not write it",
	"short":      "did not write it",
	"cached":     "cached by shape",
	"packs":      "B of the recording: packed",
	"eager":      "right when called, wrong",
	"strided":    "returned an array with strides",
	"wide":       "returned elements of float64, expected float32",
	"alias":      "returned memory of an operand, expected a new result",
	"overwrites": "wrote into its operands, expected to write its result only",
	"random":     "differs from replay",
	"second":     "the replay computed with B of the other launch",
}

func TestEndureLies(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "lies.py")
	var found struct {
		Checks []struct {
			Kernel, Failure string
			Passed          bool
		}
	}
	names := slices.Sorted(maps.Keys(lies))
	code, out := r.start(t, "selftest", "--device", "cpu", "--kernel-file", r.kernels, "--kernel", strings.Join(names, ","),
		"--python", r.python, "--noise=false", "--dtype", "fp32", "-q", "-o", "json")
	if code != exitGate {
		t.Errorf("exit code %d, expected %d", code, exitGate)
	}
	begin, end := strings.Index(out, "{"), strings.LastIndex(out, "\n}")
	if begin < 0 || end < begin {
		t.Fatal(out)
	}
	if err := json.Unmarshal([]byte(out[begin:end+2]), &found); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(found.Checks) != len(names) {
		t.Errorf("%d checks, expected %d", len(found.Checks), len(names))
	}
	for _, c := range found.Checks {
		if want := lies[c.Kernel]; c.Passed || !strings.Contains(c.Failure, want) {
			t.Errorf("%s: passed %v, %q, expected %q", c.Kernel, c.Passed, c.Failure, want)
		}
	}
}

// A sweep finds what is wrong with a kernel at the sizes that it measures; a lie does not harm the other kernels.
func TestEndureLiesInASweep(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "lies.py")
	code, out := r.start(t, r.hot("2:3:1", 2)...)
	if code != exitDevice {
		t.Errorf("exit code %d, expected %d\n%s", code, exitDevice, out)
	}
	o := r.outcome(t)
	named := map[string]string{
		"wrong": "wrong result: element", "short": "it was not written", "strided": lies["strided"], "wide": lies["wide"],
		"alias": lies["alias"], "overwrites": lies["overwrites"], "random": "wrong result: element", "sometimes": "wrong result: element",
	}
	for _, c := range o.cases {
		want := named[c.Kernel]
		if c.Kernel == "sometimes" && c.M != 3 {
			want = ""
		}
		failure := o.failures[c.ID]
		sound := slices.Contains([]string{"honest", "slow", "naive", "sometimes"}, c.Kernel)
		switch {
		case want != "" && !strings.Contains(failure, want):
			t.Errorf("%v: %q, expected %q", c, failure, want)
		case want == "" && sound && (failure != "" || o.samples[c.ID] != 2):
			t.Errorf("%v: %d samples, %q", c, o.samples[c.ID], failure)
		}
	}
}

// The second copy of the weights is used where they rotate.
func TestEndureSecondCopy(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "lies.py")
	args := []string{"sweep", "--device", "cpu", "--kernel-file", r.kernels, "--kernel", "second", "--python", r.python,
		"--shape", "n1024k4096", "--dtype", "fp32", "--batch", "2", "--rounds", "1", "--block", "1ms", "--out", "run.db"}
	if code, out := r.start(t, args...); code != exitDevice {
		t.Errorf("exit code %d, expected %d\n%s", code, exitDevice, out)
	}
	const want = "weights of another launch"
	if _, failure := r.outcome(t).named(t, "second", 2); !strings.Contains(failure, want) {
		t.Errorf("%q, expected %q", failure, want)
	}
}

// A kernel's slow first calls are over before a block is timed.
func TestEndureSlowAtFirst(t *testing.T) {
	if *endureWorkers == 0 {
		t.Skip("make endure runs it")
	}
	r := newPythonRun(t, "lies.py")
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.LoadWorker(r.kernels, kernels.WorkerOptions{Python: r.python}); err != nil {
		t.Fatal(err)
	}
	k, err := kernels.FindProduct(d, "slow")
	if err != nil {
		t.Fatal(err)
	}
	const n = 256
	buffer := func(elements int64) kernels.Operand {
		b, err := d.Alloc(4 * elements)
		if err == nil {
			err = b.Fill(kernels.Normal, kernels.FP32, elements, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return kernels.Operand{Buffer: b}
	}
	task := kernels.Task{Subject: kernels.Linear(kernels.FP32, n, n), M: 64}
	w, err := k.Prepare(task, buffer(n*n).Buffer)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := k.Bind(task, buffer(64*n), w, buffer(64*n))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 3); err != nil || l.Label() != "fast" {
		t.Errorf("%v: a timed block had %s runs, expected fast ones", err, l.Label())
	}
}
