//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func init() { scenarios["copies"] = copiesScenario }

func copiesScenario() {
	devices, _ := Provider{}.Open()
	d := devices[0].(*Device)
	b, err := d.Alloc(8192)
	report(err)
	want := make([]byte, 8192)
	for i := range want {
		want[i] = byte(i * 7)
	}
	report(b.Upload(0, want))
	for _, c := range []struct{ to, from, n int64 }{{4096, 0, 4096}, {4098, 2, 1002}} {
		l, err := d.BindCopy(b, c.to, b, c.from, c.n)
		report(err)
		fmt.Println("bound", l.Label())
		_, err = d.Execute(context.Background(), []kernels.Launch{l}, 2)
		report(err)
	}
	copy(want[4098:], want[2:1004])
	got := make([]byte, 8192)
	report(b.Download(0, got))
	fmt.Println("copied", bytes.Equal(got, want))
	for _, c := range []struct{ to, from, n int64 }{{0, 4096, 4097}, {0, 8, 16}, {-16, 0, 16}, {0, 16, 0}, {0, 8192, 16}} {
		_, err := d.BindCopy(b, c.to, b, c.from, c.n)
		fmt.Println("refused", err)
	}
	report(b.Close())
	_, err = d.BindCopy(b, 0, b, 16, 16)
	fmt.Println("refused", err)
	report(d.Close())
}

func TestCopyLaunches(t *testing.T) {
	out, trace := child(t, "copies", fakeDriver(t), "FAKE_CUDA_TRACE=1")
	for _, want := range []string{"bound copy\nbound driver's copy\ncopied true\n", "bytes 4096 to 8193 of", "they overlap",
		"it is closed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "refused "); n != 6 || strings.Contains(out, "refused <nil>") || strings.Contains(out, "error:") {
		t.Error(out)
	}
	// Once before the block and twice in it.
	if n := strings.Count(trace, "calls cuMemcpyDtoDAsync"); n != 3 {
		t.Errorf("the driver copied %d times", n)
	}
}

func TestCopiesArrive(t *testing.T) { kerneltest.CheckCopies(t, gpu(t)) }
