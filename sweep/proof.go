package sweep

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// provenColumns is the number of compared columns. With [numericRows] rows a proof takes 1 ms at K 4096.
const provenColumns = 8

// mostCopies limits the copies of weights that explain a wrong result.
const mostCopies = 16

// wrongCase reports a case with a wrong result.
type wrongCase struct {
	row, column      int
	got, want, bound float64
	wrong, looked    int    // elements
	detail           string // what is known of the reason
}

// WrongResult implements [kernels.WrongResult].
func (*wrongCase) WrongResult() {}

func (e *wrongCase) Error() string {
	s := fmt.Sprintf("wrong result: element (%d,%d) is %g, expected %g", e.row, e.column, e.got, e.want)
	if !math.IsInf(e.bound, 0) {
		s += fmt.Sprintf(" ± %.3g", e.bound)
	}
	if e.detail != "" {
		s += ": " + e.detail
	}
	return s + fmt.Sprintf(" (%d of %d compared elements)", e.wrong, e.looked)
}

// prove compares some elements of a single product by another process with float64, once before its first sample: the
// correctness check has other sizes, and a kernel that is specialized for each M may be wrong at some. It runs the last
// copy of the weights, which finds one that is taken for another. Blocks in flight must have landed.
func (b *rig) prove(ctx context.Context, s *station) error {
	if s.proven || !s.c.IsOneProduct() || b.process(s.c) == "" {
		return nil
	}
	if t, ok := b.device.(kernels.TimesOnly); ok && t.TimesOnly() {
		return nil
	}
	if err := b.ready(ctx, s); err != nil {
		return err
	}
	look := resultLook{lab: &lab{rig: b}, ctx: context.WithoutCancel(ctx), copy: b.turns(s) - 1}
	look.rows = lookedRows(s.c, [][]results.Case{{s.c}})
	for i, all := 0, lookedColumns(s.c.OutputColumns()); i < min(provenColumns, len(all)); i++ {
		look.columns = append(look.columns, all[i*len(all)/min(provenColumns, len(all))])
	}
	got, err := look.runStation(s)
	if err == nil {
		err = look.multiplyBy(b.sets[matrixOf(s.c)], s.c)
	}
	if err != nil {
		return err
	}
	if failed, err := look.judge(s.c, got); failed != nil || err != nil {
		if err == nil {
			err = look.explain(s.c, got, failed)
		}
		return err
	}
	s.proven = true
	return nil
}

// multiplyBy is multiply with columns that are read once for all cases of a matrix.
func (k *resultLook) multiplyBy(set *weightSet, c results.Case) (err error) {
	k.dog.enter(0, "read operands", c)
	defer k.dog.leave()
	if set.looked == nil {
		if set.looked, err = k.readWeights(c); err != nil {
			return err
		}
	}
	k.weights = set.looked
	return k.multiply(c)
}

// judge compares the rows of a result.
func (k *resultLook) judge(c results.Case, rows [][]byte) (failed *wrongCase, err error) {
	var one [1]float64
	size, free := c.OutputType().Size(), k.latitude(c)
	for _, e := range k.exact {
		element := rows[e.row][k.columns[e.column]*size:][:size]
		if err := kernels.Decode(c.OutputType(), element, one[:]); err != nil {
			return nil, err
		}
		exact := e.nearest(one[0])
		if math.Abs(one[0]-exact.value) <= exact.allowed(free) {
			continue
		}
		if failed == nil {
			failed = &wrongCase{row: k.rows[e.row], column: k.columns[e.column], got: one[0], want: exact.value,
				bound: exact.allowed(free), looked: len(k.exact)}
			if !slices.ContainsFunc(element, func(b byte) bool { return b != poisonByte }) {
				failed.detail = "it was not written"
			}
		}
		failed.wrong++
	}
	return failed, nil
}

// explain adds that a wrong result is right for another copy of the weights.
func (k *resultLook) explain(c results.Case, rows [][]byte, failed *wrongCase) error {
	for copy := range min(k.copy, mostCopies) {
		from, other := *k, *k
		from.copy = copy
		var err error
		if other.weights, err = from.readWeights(c); err != nil {
			return err
		}
		other.exact = nil
		if err := other.multiply(c); err != nil {
			return err
		}
		if wrong, err := other.judge(c, rows); err == nil && wrong == nil {
			failed.detail = "it was computed with the weights of another launch: packed or cached by shape"
			break
		}
	}
	return failed
}

// latitude is what a kernel may do beside rounding its sums in fp32 and its output.
type latitude struct{ half, rounded bool }

// latitude returns what a case's kernel may round.
func (k *resultLook) latitude(c results.Case) latitude {
	if k.lab == nil {
		return latitude{}
	}
	g, err := k.kernel(c)
	if err != nil {
		return latitude{}
	}
	t := task(c, c.M)
	return latitude{kernels.HalfSumsOf(g, t) != "", kernels.RoundsActivations(g, t)}
}

// allowed returns the error that a case may have at an element.
func (s exactSum) allowed(free latitude) float64 {
	bound := s.bound
	if free.half {
		bound += s.half
	}
	if free.rounded {
		bound += s.rounded
	}
	return bound
}
