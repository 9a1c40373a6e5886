// Package selftest chooses the kernels of a device to compare with their references.
package selftest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Check compares one data type of one kernel with its reference, or of several kernels with shared operands and
// references.
type Check struct {
	Kernels []string
	DType   kernels.DType
	Run     func(context.Context) ([]kernels.CheckSummary, []error) // of each kernel
}

// member is a kernel of a family. alias is another name for it, or empty.
type member struct {
	name, alias string
	kernel      kernels.Kernel
}

// family is operations whose kernels share a check and are named after it: "attention:flash". Its own name
// selects all of them.
type family struct {
	name string
	of   kernels.Operation // one of the operations
}

// families lists those of the operations with a check, without the products, which are named alone.
func families() []family {
	var out []family
	for _, o := range kernels.Operations() {
		f := family{cmp.Or(o.Definition().Group, o.String()), o}
		known := slices.ContainsFunc(out, func(have family) bool { return have.name == f.name })
		if !known && !o.IsProduct() && o.Definition().Gate != nil {
			out = append(out, f)
		}
	}
	return out
}

// Families lists the names that select all kernels of an operation other than a matrix product.
func Families() []string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return names
}

// members lists the family's kernels on a device. Kernels that only take time have no check.
func (f family) members(d kernels.Device) (out []member) {
	if computes := f.of.Definition().Computes; computes != nil && !computes(d) {
		return nil
	}
	for _, k := range f.kernels(d) {
		m := member{name: f.name + ":" + k.Name(), kernel: k}
		if brought(d, k.Name()) {
			m.alias = k.Name()
		}
		out = append(out, m)
	}
	return out
}

// kernels lists a device's kernels of all the family's operations. Those of one name are one kernel, but in another
// process, where each computes one operation.
func (f family) kernels(d kernels.Device) (out []kernels.Kernel) {
	for _, o := range kernels.Operations() {
		if o != f.of && (f.of.Definition().Group == "" || o.Definition().Group != f.of.Definition().Group) {
			continue
		}
		for _, k := range d.Kernels(o) {
			known := slices.ContainsFunc(out, func(have kernels.Kernel) bool { return have.Name() == k.Name() })
			if !known || kernels.ProcessOf(k) != "" {
				out = append(out, k)
			}
		}
	}
	return out
}

// brought reports whether name is a kernel from a file, which has no prefix.
func brought(d kernels.Device, name string) bool {
	return slices.Contains(kernels.BroughtKernels(d.Spec().Versions), name)
}

func (f family) holds(name string) bool { return name == f.name || strings.HasPrefix(name, f.name+":") }

// chosen returns the family's kernels on a device that are asked for by name, or all if no kernel is named.
func (f family) chosen(d kernels.Device, asked []string) []member {
	return slices.DeleteFunc(f.members(d), func(m member) bool {
		return len(asked) > 0 && !slices.ContainsFunc(asked, func(name string) bool {
			return name == f.name || name == m.name || m.alias != "" && name == m.alias
		})
	})
}

// Validate rejects names of families or of their kernels that no device has.
func Validate(devices []kernels.Device, asked []string) error {
	for _, f := range families() {
		for _, name := range asked {
			if !f.holds(name) {
				continue
			}
			var have []string
			found := false
			for _, d := range devices {
				for _, m := range f.members(d) {
					have = append(have, m.name)
				}
				found = found || len(f.chosen(d, []string{name})) > 0
			}
			switch {
			case len(have) == 0:
				return fmt.Errorf("%s has no %s", devices[0].Spec().ID, f.name)
			case !found:
				return fmt.Errorf("unknown kernel %q on %s: expected one of %s", name, devices[0].Spec().ID, strings.Join(have, ", "))
			}
		}
	}
	return nil
}

// Products returns a device's kernels of matrix products by name, or all of them.
func Products(d kernels.Device, asked []string) ([]kernels.Kernel, error) {
	if len(asked) == 0 {
		return kernels.Products(d), nil
	}
	var out []kernels.Kernel
	for _, name := range asked {
		if slices.ContainsFunc(families(), func(f family) bool { return f.holds(name) }) {
			continue
		}
		k, err := kernels.FindProduct(d, name)
		if err == nil {
			out = append(out, k)
			continue
		}
		// A file may have a kernel of another operation only.
		if !slices.ContainsFunc(families(), func(f family) bool {
			return slices.ContainsFunc(f.members(d), func(m member) bool { return m.alias == name })
		}) {
			return nil, err
		}
	}
	return out, nil
}

// Checks are those of a device's kernels by name, or of all of them.
func Checks(d kernels.Device, asked []string, dtypes []kernels.DType, seed uint64) ([]Check, error) {
	products, err := Products(d, asked)
	if err != nil {
		return nil, err
	}
	var checks []Check
	for _, k := range products {
		for _, dtype := range declared(k, dtypes) {
			checks = append(checks, Check{[]string{k.Name()}, dtype, func(ctx context.Context) ([]kernels.CheckSummary, []error) {
				s, err := checkProduct(ctx, d, k, dtype, seed)
				return []kernels.CheckSummary{s}, []error{err}
			}})
		}
	}
	for _, f := range families() {
		of := f.chosen(d, asked)
		if len(of) == 0 {
			continue
		}
		for _, dtype := range dtypes {
			var names []string
			var ks []kernels.Kernel
			for _, m := range of {
				if slices.Contains(declared(m.kernel, dtypes), dtype) {
					names, ks = append(names, m.name), append(ks, m.kernel)
				}
			}
			if len(ks) == 0 {
				continue
			}
			checks = append(checks, Check{names, dtype, func(ctx context.Context) ([]kernels.CheckSummary, []error) {
				return f.of.Definition().Gate(ctx, d, ks, dtype, seed)
			}})
		}
	}
	return checks, nil
}

// declared returns those of dtypes that a kernel may take. If it takes none, it is the first, whose check says so.
func declared(k kernels.Kernel, dtypes []kernels.DType) []kernels.DType {
	typed, ok := k.(kernels.Typed)
	if !ok {
		return dtypes
	}
	own := slices.DeleteFunc(slices.Clone(dtypes), func(t kernels.DType) bool { return !slices.Contains(typed.DTypes(), t) })
	if len(own) == 0 {
		own = dtypes[:min(1, len(dtypes))]
	}
	return own
}

// checkProduct checks a kernel of matrix products, and what its rows' bits depend on, even if a result was wrong.
func checkProduct(ctx context.Context, d kernels.Device, k kernels.Kernel, dtype kernels.DType, seed uint64) (kernels.CheckSummary, error) {
	summary, err := kernels.CheckKernel(ctx, d, k, dtype, seed)
	var wrong *kernels.CheckError
	if err != nil && !errors.As(err, &wrong) || summary.Passed == 0 {
		return summary, err
	}
	rows, failed := kernels.RowBitsOf(ctx, d, k, dtype, seed)
	summary.Rows = rows
	if err == nil {
		err = failed
	}
	return summary, err
}
