package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The set-up of a block is one call, whatever the number of its launches.
func TestSetupIsOneCall(t *testing.T) {
	d, ks, printed, err := open(t, "counts setups", 0)
	if err != nil {
		t.Fatal(err)
	}
	var launches []kernels.Launch
	for range 10 {
		l, _ := product(t, d, ks[0], 2, 4, 4)
		launches = append(launches, l)
	}
	for range 2 { // the second time, there is nothing to set up
		if _, err := d.Execute(context.Background(), launches, 20); err != nil {
			t.Fatal(err)
		}
	}
	printed.Lock()
	defer printed.Unlock()
	var setups []string
	for _, line := range printed.all {
		if strings.HasPrefix(line, "setup") {
			setups = append(setups, line)
		}
	}
	// Three buffers are opened and written, weights prepared, and the launch bound.
	if want := fmt.Sprintf("setup of %d", 10*(3+3+1+1)); len(setups) != 1 || setups[0] != want {
		t.Errorf("printed %q, expected %q", setups, want)
	}
}

// Contents larger than the window, and set-ups of more steps than a call has, arrive whole.
func TestLargeSetups(t *testing.T) {
	d, ks, _, err := open(t, "right", 0)
	if err != nil {
		t.Fatal(err)
	}
	naive := must(kernels.FindProduct(d, "naive"))(t)
	for _, c := range []struct{ launches, n, k int }{{1, 3, 3 << 20}, {100, 4, 4}, {7, 2, 1 << 20}} {
		var theirs, ours []kernels.Launch
		var got, want []kernels.Buffer
		for range c.launches {
			l, to := product(t, d, ks[0], 1, c.n, c.k)
			theirs, got = append(theirs, l), append(got, to)
			l, to = product(t, d, naive, 1, c.n, c.k)
			ours, want = append(ours, l), append(want, to)
		}
		for _, block := range [][]kernels.Launch{theirs, ours} {
			if _, err := d.Execute(context.Background(), block, len(block)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range got {
			a, b := content(t, got[i]), content(t, want[i])
			for j := range a {
				if a[j] != b[j] {
					t.Fatalf("n %d, k %d, launch %d, element %d: %g, expected %g", c.n, c.k, i, j, a[j], b[j])
				}
			}
		}
	}
}

// A failed step costs its block, and the next one makes all of the set-up again.
func TestFailedSetups(t *testing.T) {
	for _, c := range []struct {
		how, want string
		recovers  bool
	}{
		{"binds later", "RuntimeError: not yet", true},
		{"forgets a step", "it told 7 results of setup, expected 8", false},
	} {
		t.Run(c.how, func(t *testing.T) {
			d, ks, _, err := open(t, c.how, 0)
			if err != nil {
				t.Fatal(err)
			}
			theirs, got := product(t, d, ks[0], 4, 4, 4)
			ours, want := product(t, d, must(kernels.FindProduct(d, "naive"))(t), 4, 4, 4)
			_, err = d.Execute(context.Background(), []kernels.Launch{theirs}, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, expected %q", err, c.want)
			}
			if _, err = d.Execute(context.Background(), []kernels.Launch{theirs}, 1); (err == nil) != c.recovers {
				t.Fatalf("the second block: %v", err)
			}
			if _, err := d.Execute(context.Background(), []kernels.Launch{ours}, 1); err != nil || !c.recovers {
				return
			}
			a, b := content(t, got), content(t, want)
			for i := range a {
				if a[i] != b[i] {
					t.Errorf("element %d: %g, expected %g", i, a[i], b[i])
				}
			}
		})
	}
}

// Weights that are packed are so at once, since the caller asks for their size.
func TestPackedWeights(t *testing.T) {
	d, ks, _, err := open(t, "packs", 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := d.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	w, err := ks[0].Prepare(kernels.Task{Subject: kernels.Linear(kernels.FP32, 4, 4), M: 1}, raw)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seconds, ok := w.(kernels.Packed).Packing()
	if w.Bytes() != 4096 || seconds != 0.5 || !ok {
		t.Errorf("%d bytes, %g s, %v, expected 4096 bytes and 0.5 s", w.Bytes(), seconds, ok)
	}
}
