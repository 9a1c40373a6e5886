package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var (
	_ kernels.LaunchCopier = (*Device)(nil)
	_ kernels.TimesOnly    = (*Device)(nil)
)

// TimesOnly implements kernels.TimesOnly.
func (d *Device) TimesOnly() bool {
	return !slices.ContainsFunc(d.cfg.Gemms, func(g GemmConfig) bool { return g.Arithmetic })
}

// BindCopy implements kernels.LaunchCopier: a copy takes what the bandwidth of copying says. Bytes
// move where kernels compute.
func (d *Device) BindCopy(to kernels.Buffer, toOffset int64, from kernels.Buffer, fromOffset, bytes int64) (kernels.Launch, error) {
	target, toOK := to.(*buffer)
	source, fromOK := from.(*buffer)
	if !toOK || !fromOK {
		return nil, fmt.Errorf("%s: a copy between buffers of another device", d.cfg.ID)
	}
	if err := errors.Join(target.Within(toOffset, bytes), source.Within(fromOffset, bytes)); err != nil {
		return nil, fmt.Errorf("%s: copy: %w", d.cfg.ID, err)
	}
	if to == from && toOffset < fromOffset+bytes && fromOffset < toOffset+bytes {
		return nil, fmt.Errorf("%s: copy %d bytes from byte %d to byte %d of one buffer: they overlap", d.cfg.ID, bytes, fromOffset, toOffset)
	}
	move := func() error {
		if d.TimesOnly() {
			return nil
		}
		content := make([]byte, bytes)
		if err := source.Download(fromOffset, content); err != nil {
			return err
		}
		return target.Upload(toOffset, content)
	}
	seconds := 2 * float64(bytes) / d.cfg.Ceilings.CopyBandwidth
	return &launch{device: d, cost: func() float64 { return seconds }, move: move, label: "copy", info: LaunchInfo{Kernel: "copy", Copied: bytes}}, nil
}

// CheckCopies runs copies of a device as launches: what is copied arrives, nothing beside it
// changes, and what does not lie inside its buffers is refused.
func CheckCopies(t *testing.T, d kernels.Device) {
	t.Helper()
	copier, ok := d.(kernels.LaunchCopier)
	if !ok {
		t.Fatalf("%s binds no copies", d.Spec().ID)
	}
	const size = 3 << 12
	for _, c := range []struct{ to, from, n int64 }{{0, size - 100, 100}, {4096, 0, 4096}, {8192, 0, 1}, {4096, 32, 2000}, {6000, 2, 1998}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			b, err := d.Alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			want := make([]byte, size)
			for i := range want {
				want[i] = byte(i*7 + i>>8)
			}
			if err := b.Upload(0, want); err != nil {
				t.Fatal(err)
			}
			l, err := copier.BindCopy(b, c.to, b, c.from, c.n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 2); err != nil {
				t.Fatal(err)
			}
			copy(want[c.to:], want[c.from:c.from+c.n])
			got := make([]byte, size)
			if err := b.Download(0, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%d bytes from %d to %d: the buffer is not what it should be", c.n, c.from, c.to)
			}
		})
	}
	b, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, from, n int64 }{{-1, 0, 8}, {0, -8, 8}, {0, size - 4, 8}, {size - 4, 0, 8}, {0, 4, 8}, {8, 4, 8}, {0, 64, 0}} {
		if _, err := copier.BindCopy(b, c.to, b, c.from, c.n); err == nil {
			t.Errorf("%d bytes from %d to %d of a buffer of %d were bound", c.n, c.from, c.to, size)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := copier.BindCopy(b, 0, b, 64, 8); err == nil {
		t.Error("a copy within a closed buffer was bound")
	}
}
