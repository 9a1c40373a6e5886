package kernels

import "errors"

// laid is a way to write C that a caller who knows its leading dimension does not expect.
type laid struct {
	row, column int // elements between neighbors
	text        string
}

// strided adds to the error of a wrong or badly placed C how it was written, if its values are right.
func (r *checkRun) strided(failed error, got []byte, kind *gemmKind) error {
	var e *CheckError
	p, out := r.p, r.p.DType.Output()
	if _, ok := r.kernel.(Recorder); !ok || p.Products > 0 || min(p.M, p.N) < 2 || !errors.As(failed, &e) {
		return failed
	}
	ref, first := kind.references(p)[0], r.output().first()
	for _, l := range []laid{
		{p.N, 1, "C was written without gaps between its rows"}, {1, p.M, "C was written transposed"},
		{1, p.LDC, "C was written transposed"},
	} {
		if l.row == p.LDC && l.column == 1 || first+(p.M-1)*l.row+(p.N-1)*l.column >= len(got)/out.Size() {
			continue
		}
		if r.fitsLaid(got, ref, l, first) {
			e.Detail = l.text
			return e
		}
	}
	return failed
}

func (r *checkRun) fitsLaid(got []byte, ref gemmReference, l laid, first int) bool {
	out := r.p.DType.Output()
	for i := range r.p.M {
		for j := range r.p.N {
			at := (first + i*l.row + j*l.column) * out.Size()
			if !ref.takes(out, i*r.p.N+j, valueAt(out, got, at)) {
				return false
			}
		}
	}
	return true
}
