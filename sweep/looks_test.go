package sweep

import (
	"context"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

type asked struct {
	m      int
	rounds []int
}

func (a *asked) Open(cases []results.Case, samples []results.Sample) (ids []int64, err error) {
	rounds := 0
	for _, s := range samples {
		rounds = max(rounds, s.Round+1)
	}
	a.rounds = append(a.rounds, rounds)
	for _, c := range cases {
		if c.M == a.m {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

// The first start ends between two looks. The second repeats the first's last call and continues with the
// same set.
func TestTheChooserIsAskedAtLooksOnly(t *testing.T) {
	d := declared(nil)
	p := planned(t, d, "1:6", func(o *Options) { o.Rounds, o.Screening = 20, 4 })
	run := newRun(t, p)
	ctx, cancel := context.WithCancel(context.Background())
	first, second := &asked{m: 3}, &asked{m: 3}
	w := &watcher{at: func(n int) {
		if n == 4*12+2*7-1 {
			cancel() // in round 10, after one of its two blocks
		}
	}}
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now, Chooser: first}).Run(ctx); err == nil {
		t.Fatal("the first start was not interrupted")
	}
	w = &watcher{}
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now,
		Chooser: second}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if want := []int{4, 6, 9}; !slices.Equal(first.rounds, want) {
		t.Errorf("the first start asked after %v rounds, want %v", first.rounds, want)
	}
	if want := []int{4, 6, 9, 14}; !slices.Equal(second.rounds, want) {
		t.Errorf("the second start asked after %v rounds, want %v", second.rounds, want)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	done, err := run.Done(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		want := 4
		if c.M == 3 {
			want = 20
		}
		if len(done[c.ID]) != want {
			t.Errorf("%v has %d samples, want %d", c, len(done[c.ID]), want)
		}
	}
	if w.last.Done != w.last.Planned || w.last.Done != 10*4+2*20 {
		t.Errorf("progress ended at %d of %d", w.last.Done, w.last.Planned)
	}
}
