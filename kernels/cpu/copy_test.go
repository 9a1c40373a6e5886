package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func TestRowCopies(t *testing.T) {
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	kerneltest.CheckCopies(t, d)
}
