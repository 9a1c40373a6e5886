package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// patient is a device that waits for another process, with signs of life.
type patient struct {
	*simulated.Device
	waiting func()
}

func (p *patient) WhileWaiting(f func()) { p.waiting = f }

func (p *patient) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	for range 10 {
		time.Sleep(hangTime / 5)
		p.waiting()
	}
	return p.Device.Execute(ctx, launches, n)
}

func TestWaitingIsNoHang(t *testing.T) {
	d := &patient{Device: declared(nil)}
	b, err := newRig(d, kernels.Normal, 1, time.Millisecond, 1, hangTime)
	if err != nil {
		t.Fatal(err)
	}
	c := simCase(8)
	err = b.dog.guard(func() error {
		if _, err := b.load(t.Context(), demands([]results.Case{c}, b.spec.LastLevelCacheBytes)); err != nil {
			return err
		}
		if err := b.reserve(t.Context(), []results.Case{c}); err != nil {
			return err
		}
		_, err := b.block(t.Context(), &station{c: c}, 1)
		return err
	})
	if err != nil {
		t.Errorf("a call of %v with signs of life: %v", 2*hangTime, err)
	}
}
