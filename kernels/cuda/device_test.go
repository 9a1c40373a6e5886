//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

func TestSpec(t *testing.T) {
	d := gpu(t)
	s := d.Spec()
	t.Logf("%+v", s)
	t.Logf("%+v", d.Arch())
	if s.Units < 1 || s.MemoryBytes < 1<<30 || s.LastLevelCacheBytes < 1<<20 || d.Arch().ClockMHz < 500 || d.Arch().Bandwidth < 1e11 ||
		d.Arch().SharedMax < 48<<10 {
		t.Errorf("implausible: %+v %+v", s, d.Arch())
	}
	free, ok := d.FreeMemory()
	if !ok || free < 1 || free > s.MemoryBytes {
		t.Errorf("%d of %d bytes are free", free, s.MemoryBytes)
	}
}

func TestGate(t *testing.T) {
	d := gpu(t)
	for _, g := range d.Kernels(kernels.GEMM) {
		for _, dt := range kernels.DTypes() {
			t.Run(g.Name()+"/"+dt.String(), func(t *testing.T) {
				s, err := kernels.CheckKernel(context.Background(), d, g, dt, 1)
				if err != nil {
					t.Fatal(err)
				}
				if s.Passed == 0 {
					t.Skip(s.Skipped[0])
				}
				t.Logf("%d passed, %d skipped, %.2f of the bound used, subnormals %s", s.Passed, len(s.Skipped), s.Margin, s.Subnormals)
			})
		}
	}
}

// Sums of int8 are exact, so a row's bits depend on nothing else. For other types kernels report the
// dependencies.
func TestRowBits(t *testing.T) {
	d := gpu(t)
	for _, g := range d.Kernels(kernels.GEMM) {
		for _, dt := range kernels.DTypes() {
			t.Run(g.Name()+"/"+dt.String(), func(t *testing.T) {
				found, err := kernels.RowBitsOf(t.Context(), d, g, dt, 1)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("of M %v these change bits: %v", found.Ms, found.ByM)
				if dt == kernels.INT8 && len(found.ByM) > 0 || len(found.Threads) > 0 {
					t.Errorf("%+v", found)
				}
			})
		}
	}
}

// Operands equal the CPU's bit for bit. Types that the CPU lacks are its fp32 values, rounded.
func TestFillEqualsCPU(t *testing.T) {
	d := gpu(t)
	host, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	const n = 1<<18 + 77 // several of the CPU's chunks and a tail
	for _, dt := range kernels.DTypes() {
		for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers, kernels.Zeros} {
			source := dt
			if dt == kernels.TF32 || dt == kernels.FP8 {
				source = kernels.FP32
			}
			size := int64(n * dt.Size())
			on := gputest.Buffer(t, d, size)
			want := make([]byte, n*source.Size())
			h := gputest.Buffer(t, host, int64(len(want)))
			for _, err := range []error{h.Fill(dist, source, n, 42), h.Download(0, want), on.Fill(dist, dt, n, 42)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if source != dt {
				values := make([]float64, n)
				if err := kernels.Decode(source, want, values); err != nil {
					t.Fatal(err)
				}
				want = make([]byte, size)
				if err := kernels.Encode(dt, values, want); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]byte, size)
			if err := on.Download(0, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s %s differs from the CPU's", dt, dist)
			}
		}
	}
}

func TestBufferBounds(t *testing.T) {
	d := gpu(t)
	b := gputest.Buffer(t, d, 1000)
	if err := b.Upload(990, []byte("0123456789")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 5)
	if err := b.Download(995, got); err != nil || string(got) != "56789" {
		t.Errorf("%q, %v", got, err)
	}
	for _, err := range []error{b.Upload(991, make([]byte, 10)), b.Download(-1, got), b.Fill(kernels.Normal, kernels.FP32, 251, 1)} {
		if err == nil || errors.Is(err, kernels.ErrDeviceLost) {
			t.Errorf("out of bounds: %v", err)
		}
	}
}

func bound(t testing.TB, d *Device, kernel string, p kernels.Task, copies int) []kernels.Launch {
	t.Helper()
	g, err := kernels.Find(d, kernels.GEMM, kernel)
	if err != nil {
		t.Skip(err)
	}
	if err := g.Supports(p); err != nil {
		t.Skip(err)
	}
	size, out := int64(p.DType.Size()), int64(p.DType.Output().Size())
	a := gputest.Buffer(t, d, int64(p.M)*int64(p.K)*size)
	c := gputest.Buffer(t, d, int64(p.M)*int64(p.N)*out)
	if err := a.Fill(kernels.Normal, p.DType, int64(p.M)*int64(p.K), 1); err != nil {
		t.Fatal(err)
	}
	var launches []kernels.Launch
	for i := range copies {
		b := gputest.Buffer(t, d, int64(p.N)*int64(p.K)*size)
		if err := b.Fill(kernels.Normal, p.DType, int64(p.N)*int64(p.K), uint64(i)); err != nil {
			t.Fatal(err)
		}
		w, err := g.Prepare(p, b)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		if err != nil {
			t.Fatal(err)
		}
		launches = append(launches, l)
	}
	return launches
}

// The time per launch is the same for one launch and for several chunks, at a clock that the card supports.
// Rotation over copies that exceed the cache takes longer.
func TestExecute(t *testing.T) {
	d := gpu(t)
	p := kernels.Task{Subject: kernels.Product(kernels.FP16, 1024, 1024), M: 64}
	launches := bound(t, d, "auto", p, 4)
	each := func(launches []kernels.Launch, n int) float64 {
		var times []float64
		for range 9 {
			span, err := d.Execute(context.Background(), launches, n)
			if err != nil {
				t.Fatal(err)
			}
			if span.Disturbance != (kernels.Disturbance{}) {
				t.Logf("%d launches: %s", n, span.Disturbance)
			}
			if span.Seconds > 100e-6 && (span.ClockMHz < 200 || span.ClockMHz > 1.05*d.Arch().ClockMHz) {
				t.Errorf("%d launches at %.0f MHz of %.0f", n, span.ClockMHz, d.Arch().ClockMHz)
			}
			times = append(times, span.Seconds/float64(n))
		}
		slices.Sort(times)
		return times[len(times)/2]
	}
	few, many := each(launches, 100), each(launches, 1700)
	t.Logf("%s: one %.2f us, 100 %.2f us, 1700 %.2f us each", launches[0].Label(), each(launches, 1)*1e6, few*1e6, many*1e6)
	if few > 1.1*many || many > 1.1*few {
		t.Errorf("a launch takes %.2f us of 100 and %.2f us of 1700", few*1e6, many*1e6)
	}
}

// A block's overhead beyond its launches should be at most 40 us on a quiet host.
func TestBlockOverhead(t *testing.T) {
	d := gpu(t)
	launches := bound(t, d, "auto", kernels.Task{Subject: kernels.Product(kernels.FP16, 4096, 4096), M: 512}, 2)
	var extra []float64
	for range 500 {
		start := time.Now()
		span, err := d.Execute(context.Background(), launches[:1], 1)
		if err != nil {
			t.Fatal(err)
		}
		extra = append(extra, time.Since(start).Seconds()-span.Seconds)
	}
	slices.Sort(extra)
	t.Logf("median %.1f us, 9 in 10 below %.1f us", extra[250]*1e6, extra[450]*1e6)
	if extra[250] > 100e-6 {
		t.Errorf("a block costs %.0f us beyond its launches", extra[250]*1e6)
	}
}

func TestOutOfMemory(t *testing.T) {
	d := gpu(t)
	_, err := d.Alloc(1 << 50)
	if err == nil || errors.Is(err, kernels.ErrDeviceLost) || !strings.Contains(err.Error(), "1125899906842624 bytes") {
		t.Errorf("a petabyte: %v", err)
	}
	b := gputest.Buffer(t, d, 1<<20)
	if err := b.Fill(kernels.Normal, kernels.FP32, 1<<18, 1); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestRefusedLaunch(t *testing.T) {
	d := gpu(t)
	b := gputest.Buffer(t, d, 1<<20).(*driver.Buffer)
	c := support.ZeroCall(d.Arch(), b.Address, 1<<20)
	c.Block = planning.Dim3{X: 2048}
	err := d.Run(c)
	if err == nil || errors.Is(err, kernels.ErrDeviceLost) || !strings.Contains(err.Error(), "launch ga_zero") {
		t.Errorf("a block of 2048 threads: %v", err)
	}
	if err := b.Fill(kernels.Normal, kernels.FP32, 1<<18, 1); err != nil {
		t.Errorf("after it: %v", err)
	}
}

func TestCeilings(t *testing.T) {
	d := gpu(t)
	c, err := d.Ceilings(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("read %.2f TB/s, copy %.2f TB/s of %.2f", c.ReadBandwidth*1e-12, c.CopyBandwidth*1e-12, d.Arch().Bandwidth*1e-12)
	for _, b := range []float64{c.ReadBandwidth, c.CopyBandwidth} {
		if b < 0.5*d.Arch().Bandwidth || b > 1.02*d.Arch().Bandwidth {
			t.Errorf("%.3g bytes a second of %.3g", b, d.Arch().Bandwidth)
		}
	}
}

// Every multiprocessor is stamped once, all at the same time.
func TestStamps(t *testing.T) {
	d := gpu(t)
	type stamp struct{ Entry, Clock, Time, Seen uint64 }
	const slots, stampBytes = 1024, 32
	b := gputest.Buffer(t, d, slots*stampBytes).(*driver.Buffer)
	if err := b.Fill(kernels.Zeros, kernels.FP32, slots*stampBytes/4, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.Run(support.StampCall(d.Arch(), b.Address, slots)); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, b.Bytes())
	if err := b.Download(0, raw); err != nil {
		t.Fatal(err)
	}
	var stamps [slots]stamp
	if _, err := binary.Decode(raw, binary.LittleEndian, &stamps); err != nil {
		t.Fatal(err)
	}
	var first, last uint64
	seen := 0
	for i, s := range stamps {
		if s.Seen == 0 {
			continue
		}
		if seen++; i >= 2*d.Arch().SMs {
			t.Errorf("multiprocessor %d of %d", i, d.Arch().SMs)
		}
		if first == 0 || s.Time < first {
			first = s.Time
		}
		last = max(last, s.Time)
	}
	t.Logf("%d of %d multiprocessors within %d ns", seen, d.Arch().SMs, last-first)
	if seen < d.Arch().SMs || last-first > 100_000 {
		t.Errorf("%d of %d multiprocessors within %d ns", seen, d.Arch().SMs, last-first)
	}
}

func init() {
	// An illegal address loses a real device, and every later call reports it.
	scenarios["illegal"] = func() {
		devices, missing := Provider{}.Open()
		if len(devices) == 0 {
			fmt.Println(missing)
			return
		}
		d := devices[0].(*Device)
		b, err := d.Alloc(1 << 20)
		report(err)
		report(d.Run(support.ZeroCall(d.Arch(), 0x100, 1<<20)))
		report(b.Upload(0, make([]byte, 16)))
		_, err = d.Alloc(1 << 20)
		report(err)
		report(b.Close(), d.Close())
		again, missing := Provider{}.Open()
		fmt.Println("opened again:", len(again), missing)
		if len(again) > 0 {
			_, err := again[0].Alloc(1 << 20)
			report(err)
		}
		fmt.Println("done")
	}
}

func TestIllegalAddress(t *testing.T) {
	gpu(t)
	out, _ := child(t, "illegal", "")
	t.Log(out)
	if n := strings.Count(out, "device lost: cuda:0: run ga_zero: "); n != 3 || !strings.Contains(out, "done") {
		t.Errorf("the loss is told %d times, want 3:\n%s", n, out)
	}
}
