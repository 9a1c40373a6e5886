package worker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The gate passes a worker's grouped products, and rejects what ignores or mistakes the rows of each group.
func TestGroupedGate(t *testing.T) {
	for _, c := range []struct {
		how   string
		right bool
	}{
		{"grouped", true},
		{"grouped by the neighbours' weights", false},
		{"grouped evenly", false},
	} {
		t.Run(c.how, func(t *testing.T) {
			d, ks, _, err := open(t, c.how, 0)
			if err != nil {
				t.Fatal(err)
			}
			found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), d, ks, kernels.FP32, 1)
			var wrong *kernels.ElementError
			switch {
			case c.right && (errs[0] != nil || found[0].Passed == 0):
				t.Errorf("%+v, %v", found[0], errs[0])
			case !c.right && (!errors.As(errs[0], &wrong) || wrong.Kernel != "plain"):
				t.Errorf("%+v, %v, expected a wrong element", found[0], errs[0])
			}
		})
	}
}

func TestGroupedKernelIsListed(t *testing.T) {
	d, ks, _, err := open(t, "grouped", 0)
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, k := range d.Kernels(kernels.GroupedGEMM) {
		if k == ks[0] {
			listed++
		}
	}
	if listed != 1 {
		t.Errorf("it is listed %d times among the grouped products", listed)
	}
	nk := kernels.Linear(kernels.FP32, 8, 8)
	nk.Operation, nk.Groups = kernels.GroupedGEMM, 3
	routed, plain := nk, kernels.Linear(kernels.FP32, 8, 8)
	routed.TopK, routed.Draw = 2, 5
	for _, c := range []struct {
		of      kernels.Subject
		refused string
	}{
		{nk, ""}, {routed, ""}, {nk.In(kernels.RowMajor), "layout nk"}, {plain, "it computes grouped"},
	} {
		err := ks[0].Supports(kernels.Task{Subject: c.of, M: 4})
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%v: %v, expected %q", c.of, err, c.refused)
		}
	}
}

// A worker's task places the weights of one product: those of several groups are refused, also if the kernel takes their format.
func TestQuantizedGroupsAreRefused(t *testing.T) {
	for _, how := range []string{"grouped", "grouped scaled"} {
		_, ks, _, err := open(t, how, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := kernels.Linear(kernels.FP8, 256, 256)
		s.Operation, s.Groups = kernels.GroupedGEMM, 3
		if f, err := kernels.ParseWeights("fp8:128x128"); err != nil {
			t.Error(err)
		} else if s.Weights, err = f.For(kernels.FP8, s.K); err != nil {
			t.Error(err)
		}
		var no *kernels.Unsupported
		if err := ks[0].Supports(kernels.Task{Subject: s, M: 4}); !errors.As(err, &no) || !strings.Contains(no.Reason, "plain weights") {
			t.Errorf("%s: %v", how, err)
		}
	}
}
