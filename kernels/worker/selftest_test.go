package worker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/selftest"
)

// The self-test has no line for each type that a kernel doesn't declare.
func TestSelftestOfDeclaredTypes(t *testing.T) {
	d, _, _, err := open(t, "right", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked, want []kernels.DType
		passes      bool
	}{
		{kernels.DTypes(), []kernels.DType{kernels.FP32}, true},
		{[]kernels.DType{kernels.BF16, kernels.FP16}, []kernels.DType{kernels.BF16}, false},
	} {
		checks, err := selftest.Checks(d, []string{"plain"}, c.asked, 1)
		if err != nil {
			t.Fatal(err)
		}
		var got []kernels.DType
		for _, check := range checks {
			got = append(got, check.DType)
		}
		if !slices.Equal(got, c.want) {
			t.Fatalf("asked for %v: checks of %v, expected %v", c.asked, got, c.want)
		}
		if c.passes {
			continue
		}
		if found, errs := checks[0].Run(context.Background()); errs[0] != nil || found[0].Passed != 0 || len(found[0].Skipped) == 0 {
			t.Errorf("a type that it doesn't take: %+v, %v", found, errs)
		}
	}
}
