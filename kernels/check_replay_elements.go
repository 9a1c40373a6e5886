package kernels

import "context"

// elementReplay is the [replayCase] of an operation that is checked element by element.
type elementReplay struct {
	run   elementRun // its error texts
	blank []byte
	// draw returns a case with the input of one set and what is stored of another.
	draw  func(operandSets) (elementCase, error)
	cases map[operandSets]elementCase
}

// checkElements is [runElements] with the check of recorded launches before it, whose operands draw returns.
func checkElements(ctx context.Context, d Device, k Kernel, t Task, cases []elementCase, blank []byte, runs int,
	draw func(operandSets) (elementCase, error)) (margin float64, err error) {
	err = replayFirst(k, draw != nil, func(r Recorder) (bool, error) {
		of := &elementReplay{run: elementRun{device: d, kernel: k, t: t, outType: t.OutputType()}, blank: blank, draw: draw,
			cases: map[operandSets]elementCase{}}
		return checkReplay(ctx, d, r, t, of)
	}, func() error {
		var err error
		margin, err = runElements(ctx, d, k, t, cases, blank, runs)
		return err
	})
	return margin, err
}

func (e *elementReplay) of(of operandSets) (elementCase, error) {
	if c, ok := e.cases[of]; ok {
		return c, nil
	}
	c, err := e.draw(of)
	if err == nil {
		e.cases[of] = c
	}
	return c, err
}

func (e *elementReplay) content(set int) (in, stored []byte, err error) {
	c, err := e.of(operandSets{set, set})
	return c.in, c.stored, err
}

func (e *elementReplay) names() (in, stored string) {
	if !e.run.t.Operation.Stores() {
		return "the input", ""
	}
	return "the input", e.run.t.Operation.Stored()
}

func (e *elementReplay) output() (blank []byte, d DType) { return e.blank, e.run.outType }

func (e *elementReplay) starts() (in, out int) {
	return guardOf(int(e.run.t.InputElements(1))), guardOf(int(e.run.t.OutputElements(1)))
}

func (e *elementReplay) written(got []byte) written {
	_, guard := e.starts()
	size := e.run.outType.Size()
	return written{got: got, poison: e.blank[:size], from: guard * size, to: len(got) - guard*size}
}

func (e *elementReplay) outside(got []byte) int {
	if at, n := e.written(got).outside(); n > 0 {
		return at
	}
	return -1
}

func (e *elementReplay) wrong(of operandSets, got []byte) (wrong []int, err error) {
	c, err := e.of(of)
	if err != nil {
		return nil, err
	}
	w, d := e.written(got), e.run.outType
	values := make([]float64, len(c.want))
	if err := Decode(d, got[w.from:w.to], values); err != nil {
		return nil, err
	}
	for i := range values {
		if _, _, n := judgeElements(d, values[i:i+1], c.want[i:i+1], c.bound[i:i+1]); n > 0 {
			wrong = append(wrong, w.from+i*d.Size())
		}
	}
	return wrong, nil
}

func (e *elementReplay) fits(of operandSets, got []byte, at []int) (bool, error) {
	c, err := e.of(of)
	if err != nil {
		return false, err
	}
	w, d := e.written(got), e.run.outType
	for _, at := range at {
		i := (at - w.from) / d.Size()
		v := []float64{valueAt(d, got, at)}
		if _, _, n := judgeElements(d, v, c.want[i:i+1], c.bound[i:i+1]); n > 0 {
			return false, nil
		}
	}
	return true, nil
}

func (e *elementReplay) failure(of operandSets, got []byte, at, wrong int, detail string) error {
	c, err := e.of(of)
	if err != nil {
		return err
	}
	w, size := e.written(got), e.run.outType.Size()
	run := e.run
	run.of = c
	f := run.output(CheckReplay, (at-w.from)/size, got)
	f.Wrong, f.Detail = wrong, detail
	if at < w.from || at >= w.to {
		f.Check = CheckPadding
		return f
	}
	f.Want, f.Bound = c.want[(at-w.from)/size], c.bound[(at-w.from)/size]
	return f
}
