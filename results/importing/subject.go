package importing

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// subjectColumns are the columns of a line's computation. Without the last four it is a product of
// unquantized operands with weights [K,N].
type subjectColumns struct {
	dtype, n, k                       column
	operation, layout, dims, operands column

	givenDType kernels.DType // by options
	givenN     sizeColumn
	givenK     sizeColumn
	layoutWord string

	cells  [7]string // of the previous line
	before kernels.Subject
	dtypes map[string]kernels.DType // by cell
}

func newSubjectColumns(f *csvFile, opt Options, to *kernels.Subject) subjectColumns {
	return subjectColumns{
		dtype: f.column("dtype"), n: f.column("n"), k: f.column("k"),
		operation: f.column("operation"), layout: f.column("layout"), dims: f.column("dims"), operands: f.column("operands"),
		givenDType: opt.DType, layoutWord: opt.Layout,
		givenN: sizeColumn{column: f.column("n"), to: &to.N, least: 1, given: opt.N},
		givenK: sizeColumn{column: f.column("k"), to: &to.K, least: 1, given: opt.K},
		dtypes: map[string]kernels.DType{},
	}
}

func (l *sampleLine) subject() error {
	f, x, to := l.f, &l.subjects, &l.rec.c.Subject
	cells := [...]string{f.in(x.dtype), f.in(x.n), f.in(x.k), f.in(x.operation), f.in(x.layout), f.in(x.dims), f.in(x.operands)}
	if cells == x.cells && x.before.DType != "" {
		*to = x.before
		return nil
	}
	*to = kernels.Subject{}
	if err := l.readSubject(to); err != nil {
		return err
	}
	for i := range cells {
		x.cells[i] = strings.Clone(cells[i])
	}
	x.before = *to
	return nil
}

func (l *sampleLine) readSubject(to *kernels.Subject) (err error) {
	f, x := l.f, &l.subjects
	if cell := f.in(x.operation); cell != "" {
		if to.Operation, err = kernels.ParseOperation(cell); err != nil {
			return f.fail("operation", "%v", err)
		}
	}
	if err := l.dataType(to); err != nil {
		return err
	}
	if to.Operation.IsProduct() {
		for _, d := range []*sizeColumn{&x.givenN, &x.givenK} {
			if err := l.size(d); err != nil {
				return err
			}
		}
	}
	if err := l.dimensions(to); err != nil {
		return err
	}
	if err := l.layout(to); err != nil {
		return err
	}
	if cell := f.in(x.operands); cell != "" {
		dtype := to.DType
		if err := results.ReadOperands(cell, to); err != nil {
			return f.fail("operands", "is not a JSON object of operands")
		}
		if to.DType != dtype {
			return f.fail("operands", "has activations of type %q, the line is of dtype %s", to.DType, dtype)
		}
		if results.OperandsText(*to) != cell {
			return f.fail("operands", "is not a set of operands that is known: expected %s for plain ones",
				results.OperandsText(kernels.Product(dtype, 1, 1)))
		}
	}
	if err := to.Validate(); err != nil {
		return &Error{Path: f.path, Line: f.line, Reason: err.Error()}
	}
	return nil
}

func (l *sampleLine) dimensions(to *kernels.Subject) error {
	f, cell := l.f, l.f.in(l.subjects.dims)
	if cell == "" {
		return nil
	}
	var dims map[string]int
	if err := json.Unmarshal([]byte(cell), &dims); err != nil {
		return f.fail("dims", "is not a JSON object of whole numbers")
	}
	n, k := to.N, to.K
	for _, d := range to.Operation.Dims() {
		v := dims[d.Name]
		if v < 0 || v > results.MaxDimension {
			return f.fail("dims", "has a %s of %d: expected 1 to %d", d.Name, v, int64(results.MaxDimension))
		}
		*d.In(&to.Dims) = v
		delete(dims, d.Name)
	}
	for name := range dims {
		return f.fail("dims", "has a dimension %.40q that %v has not", name, to.Operation)
	}
	if to.Operation.IsProduct() && (n != to.N || k != to.K) {
		return f.fail("dims", "contradicts columns n and k, which say n%d k%d", n, k)
	}
	return nil
}

// layout reads the weights' layout: from an option, the column, or kn.
func (l *sampleLine) layout(to *kernels.Subject) (err error) {
	f, x := l.f, &l.subjects
	cell := f.in(x.layout)
	if cell != "" {
		if to.Layout, err = kernels.ParseLayout(cell); err != nil {
			return f.fail("layout", "%v", err)
		}
	}
	if x.layoutWord == "" || !to.Operation.HasWeights() {
		return nil
	}
	given, err := kernels.ParseLayout(x.layoutWord)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if cell != "" && given != to.Layout {
		return f.contradicts("layout", "--layout", x.layoutWord)
	}
	to.Layout = given
	return nil
}

func (l *sampleLine) dataType(to *kernels.Subject) error {
	f, x := l.f, &l.subjects
	cell := f.in(x.dtype)
	if cell == "" {
		if to.DType = x.givenDType; to.DType == "" {
			return f.fail("dtype", "is missing")
		}
		return nil
	}
	d, known := x.dtypes[cell]
	if !known {
		var err error
		if d, err = kernels.ParseDType(cell); err != nil {
			return f.fail("dtype", "is not a data type: expected one of %v", kernels.DTypes())
		}
		x.dtypes[strings.Clone(cell)] = d
	}
	if x.givenDType != "" && d != x.givenDType {
		return f.contradicts("dtype", "--dtype", string(x.givenDType))
	}
	to.DType = d
	return nil
}
