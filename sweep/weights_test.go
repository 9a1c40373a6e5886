package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

type allocator struct {
	*simulated.Device
	count int
	at    func(n int)
}

func (d *allocator) Alloc(bytes int64) (kernels.Buffer, error) {
	d.count++
	d.at(d.count)
	return d.Device.Alloc(bytes)
}

// A cancellation or deadline takes effect between the six copies of a matrix.
func TestFillingWeightsIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration
		status   string
	}{{"cancelled", 0, StatusInterrupted}, {"late", time.Second, StatusDeadline}} {
		t.Run(c.name, func(t *testing.T) {
			d := declared(nil)
			p := planned(t, d, "1:10", func(o *Options) { o.Deadline = c.deadline })
			run := newRun(t, p)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			filling := &allocator{Device: d, at: func(n int) {
				switch {
				case n != 3:
				case c.deadline > 0:
					d.Advance(2 * c.deadline)
				default:
					cancel()
				}
			}}
			sum, err := (&Runner{Plan: p, Devices: []kernels.Device{filling}, Out: run, Now: d.Now}).Run(ctx)
			var interrupted *InterruptedError
			if errors.As(err, &interrupted) != (c.status == StatusInterrupted) || !errors.As(err, &interrupted) && err != nil {
				t.Errorf("error %v", err)
			}
			if sum.Status != c.status || sum.Samples != 0 || sum.Failures != 0 {
				t.Errorf("summary %+v", sum)
			}
			if filling.count != 3 {
				t.Errorf("%d buffers were allocated, expected none after the third", filling.count)
			}
			if d.Used() != 0 {
				t.Errorf("%d bytes are still allocated", d.Used())
			}
			if failures, err := run.Failures(); err != nil || len(failures) != 0 {
				t.Errorf("it was held against cases: %v, %v", failures, err)
			}
			p.Deadline = 0
			if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			complete(t, p, run)
		})
	}
}

func TestPackingStopsBetweenCopies(t *testing.T) {
	d := declared(nil)
	b := testRig(t, d, kernels.Normal, 1, time.Millisecond, 1)
	c := simCase(8)
	c.Kernel = "theirs"
	if failed, err := b.load(context.Background(), demands([]results.Case{c}, b.spec.LastLevelCacheBytes)); err != nil || failed != nil {
		t.Fatal(failed, err)
	}
	raw := d.Used()
	g, err := b.kernel(c)
	if err != nil {
		t.Fatal(err)
	}
	set, asked := b.sets[matrixOf(c)], 0
	_, err = set.form(g, c, func() error {
		if asked++; asked == 4 {
			return errHalted
		}
		return nil
	})
	if !errors.Is(err, errHalted) || len(set.forms) != 0 || d.Used() != raw {
		t.Errorf("after three of six copies: error %v, %d forms, %d bytes more than before", err, len(set.forms), d.Used()-raw)
	}
	f, err := set.form(g, c, func() error { return nil })
	if err != nil || len(f.copies) != 6 {
		t.Errorf("afterwards: %v", err)
	}
	if err := b.close(); err != nil || d.Used() != 0 {
		t.Errorf("%d bytes are still allocated, %v", d.Used(), err)
	}
}

// packless is a kernel that fails to pack weights, at most so many times.
type packless struct {
	kernels.Kernel
	process string
	fails   *int
}

func (l packless) Process() string { return l.process }

func (l packless) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if *l.fails > 0 {
		*l.fails--
		return nil, kernels.ErrProcessLost
	}
	return l.Kernel.Prepare(t, raw)
}

// Packing that ends another process costs the case that packs, not the others with the same weights; unless it always does.
func TestPackingLosesItsProcess(t *testing.T) {
	for _, tc := range []struct {
		process       string
		fails, failed int // of so many cases
	}{{"python", 1, 1}, {"python", 2, 2}, {"python", 9, 6}, {"", 1, 6}} {
		d := declared(nil)
		b := testRig(t, d, kernels.Normal, 1, time.Millisecond, 1)
		c := simCase(8)
		c.Kernel = "theirs"
		failing, err := b.load(context.Background(), demands([]results.Case{c}, b.spec.LastLevelCacheBytes))
		if err != nil || failing != nil {
			t.Fatal(failing, err)
		}
		g, err := b.kernel(c)
		if err != nil {
			t.Fatal(err)
		}
		left, failed := tc.fails, 0
		for range 6 {
			if _, err := b.sets[matrixOf(c)].form(packless{g, tc.process, &left}, c, func() error { return nil }); err != nil {
				failed++
			}
		}
		attempts := tc.fails - left
		if failed != tc.failed || attempts > mostAttempts {
			t.Errorf("%+v: %d cases failed after %d attempts", tc, failed, attempts)
		}
		if err := b.close(); err != nil || d.Used() != 0 {
			t.Errorf("%d bytes are still allocated, %v", d.Used(), err)
		}
	}
}

func TestSmallMatricesRotatePastTheCache(t *testing.T) {
	const llc = 32 << 20
	for _, bytes := range []int64{6 << 10, 8 << 10, 23 << 10, 1 << 20, 200 << 20} {
		for _, regime := range []results.Regime{results.Engine, results.Cold} {
			n := copiesFor(regime, bytes, llc)
			if int64(n)*bytes < kernels.RotationFactor*llc || n < 2 || n > 1<<14 {
				t.Errorf("%s: %d copies of %d bytes", regime, n, bytes)
			}
		}
	}
	if n := copiesFor(results.Engine, 64, llc); n != 1<<14 {
		t.Errorf("%d copies of 64 bytes", n)
	}
}

// No number of copies forces the cold regime to use a place of A and C per copy.
func TestPlacesOfAAndCStayFew(t *testing.T) {
	for bytes := int64(6 << 10); bytes < 1<<20; bytes += 511 {
		n := copiesFor(results.Cold, bytes, 32<<20)
		for _, need := range []int64{2, 3, 5, 11, 50} {
			if got := slotsOf(n, need); int64(got) < need || n%got != 0 || int64(got) > 2*need {
				t.Errorf("%d places where %d are needed, of %d copies", got, need, n)
			}
		}
	}
}

func TestLeastMemory(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.MemoryBytes = 1 << 30 })
	c := simCase(100)
	// Two copies of 128 KiB, raw and packed with its margin, A of 50 KiB and C of 100.
	if need, free := LeastMemory(d, c); need != 2*(128<<10)+277872+(52<<10)+(100<<10) || free != 1<<30 {
		t.Errorf("%d of %d bytes", need, free)
	}
	c.Regime, c.N, c.K = results.Hot, MaxDimension, MaxDimension
	if need, _ := LeastMemory(d, c); need < 4*MaxDimension*MaxDimension*2 {
		t.Errorf("%d bytes for the largest matrix", need)
	}
}

func TestPackingIsTold(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.Gemms[1].PackTime = 3 * time.Millisecond })
	p := planned(t, d, "1:10", nil)
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var rotations []Rotation
	if err := json.Unmarshal([]byte(state(t, run, StateRotation)), &rotations); err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, r := range rotations {
		told[r.Kernel]++
		if r.Kernel == "ours" {
			if r.Packing != nil {
				t.Errorf("ours packs nothing: %+v", r.Packing)
			}
			continue
		}
		if r.Packing == nil || math.Abs(r.Packing.Seconds-0.003) > 1e-9 || r.Packing.Bytes*int64(r.Copies) != r.Bytes {
			t.Errorf("%s of %s: packing %+v, expected 3 ms and %d bytes in %d copies", r.Weights, r.Kernel, r.Packing, r.Bytes, r.Copies)
		}
	}
	if told["ours"] == 0 || told["theirs"] == 0 {
		t.Errorf("rotations %+v", rotations)
	}
}
