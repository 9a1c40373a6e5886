package driver

import "testing"

func TestKernelNames(t *testing.T) {
	if got := kernelNames([]string{"a", "_Z1bv"}); got != "a + b" {
		t.Errorf("two kernels are %q", got)
	}
}
