package main

import (
	"context"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// softmaxKernel is what softmax and its logarithm are called among the kernels. One of several ways
// in which a device computes them is called "softmax:auto".
const softmaxKernel = "softmax"

// isSoftmax says whether a name of --kernel is one of softmax.
func isSoftmax(name string) bool {
	return name == softmaxKernel || strings.HasPrefix(name, softmaxKernel+":")
}

// softmaxes are the ways in which a device computes softmax, of those that were asked for.
func (o *selftestOptions) softmaxes(d kernels.Device) (names []string, ways []kernels.SoftmaxKernel) {
	for _, k := range kernels.SoftmaxKernels(d) {
		name := softmaxKernel + ":" + k.Name()
		brought := bringsSoftmax(d, k.Name()) && slices.Contains(o.kernels, k.Name())
		if len(o.kernels) == 0 || brought || slices.Contains(o.kernels, softmaxKernel) || slices.Contains(o.kernels, name) {
			names, ways = append(names, name), append(ways, k)
		}
	}
	return names, ways
}

// bringsSoftmax says whether a name is that of a softmax which was brought as a file: such a file
// is asked for by itself.
func bringsSoftmax(d kernels.Device, name string) bool {
	return slices.Contains(kernels.BroughtKernels(d.Spec().Versions), name) &&
		slices.ContainsFunc(kernels.SoftmaxKernels(d), func(k kernels.SoftmaxKernel) bool { return k.Name() == name })
}

// softmaxChecks are the checks of a device's softmax, one for each data type.
func (o *selftestOptions) softmaxChecks(d kernels.Device, dtypes []kernels.DType) []kernelChecks {
	names, ways := o.softmaxes(d)
	if len(ways) == 0 {
		return nil
	}
	var checks []kernelChecks
	for _, dtype := range dtypes {
		checks = append(checks, kernelChecks{names, dtype, func(ctx context.Context) ([]kernels.CheckSummary, []error) {
			return kernels.CheckSoftmaxes(ctx, d, ways, dtype, o.seed)
		}})
	}
	return checks
}

// checkSoftmax returns an error when softmax was asked for and no device has it.
func (o *selftestOptions) checkSoftmax(devices []kernels.Device) error {
	for _, name := range o.kernels {
		if !isSoftmax(name) {
			continue
		}
		var have []string
		found := false
		for _, d := range devices {
			all, _ := (&selftestOptions{}).softmaxes(d)
			have = append(have, all...)
			found = found || slices.Contains(all, name) || name == softmaxKernel && len(all) > 0
		}
		switch {
		case len(have) == 0:
			return usagef("--kernel: %s has no softmax", devices[0].Spec().ID)
		case !found:
			return usagef("--kernel: unknown kernel %q on %s: expected one of %s", name, devices[0].Spec().ID, strings.Join(have, ", "))
		}
	}
	return nil
}
