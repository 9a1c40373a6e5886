package kerneltest

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// CheckCopies checks a device's copy launches: the data arrives, nothing around it changes, and ranges
// outside a buffer are refused.
func CheckCopies(t *testing.T, d kernels.Device) {
	t.Helper()
	copier, ok := d.(kernels.LaunchCopier)
	if !ok {
		t.Fatalf("%s binds no copies", d.Spec().ID)
	}
	const size = 3 << 12
	for _, c := range []struct{ to, from, n int64 }{{0, size - 100, 100}, {4096, 0, 4096}, {8192, 0, 1}, {4096, 32, 2000},
		{6000, 2, 1998}} {
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
	for _, c := range []struct{ to, from, n int64 }{{-1, 0, 8}, {0, -8, 8}, {0, size - 4, 8}, {size - 4, 0, 8}, {0, 4, 8}, {8, 4, 8},
		{0, 64, 0}} {
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
