package lazymemory

import (
	"bytes"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestMemory(t *testing.T) {
	m := New(8)
	filled := 0
	ones := func(b []byte) error {
		filled++
		for i := range b {
			b[i] = 1
		}
		return nil
	}
	if err := m.FillWith(ones); err != nil || filled != 0 {
		t.Errorf("filled %d times before anybody looked: %v", filled, err)
	}
	got := make([]byte, 4)
	if err := m.Upload(2, []byte{7}); err != nil {
		t.Fatal(err)
	}
	if err := m.Download(1, got); err != nil || !bytes.Equal(got, []byte{1, 7, 1, 1}) || filled != 1 {
		t.Errorf("%v, filled %d times: %v", got, filled, err)
	}
	if err := m.FillWith(ones); err != nil || filled != 2 {
		t.Errorf("filled %d times: %v", filled, err)
	}
	for _, c := range []struct {
		off int64
		n   int
	}{{-1, 1}, {8, 1}, {9, 0}, {5, 4}} {
		if m.Download(c.off, make([]byte, c.n)) == nil || m.Upload(c.off, make([]byte, c.n)) == nil {
			t.Errorf("%d bytes at %d of 8", c.n, c.off)
		}
	}
	if m.CheckFill(kernels.FP32, 2) != nil || m.CheckFill(kernels.FP32, 3) == nil || m.CheckFill(kernels.FP32, -1) == nil ||
		m.CheckFill("none", 1) == nil {
		t.Error("what fits is not what can be filled")
	}
	if m.Close() != nil || m.Close() == nil {
		t.Error("freed twice")
	}
}
