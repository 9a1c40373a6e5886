package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The checked part of a result: whole rows, and groups of neighboring columns, which share a tile. The
// float64 reference covers only these and takes milliseconds.
const (
	numericRows    = 16
	numericGroups  = 4
	numericColumns = 16
)

// Algorithm returns the library's own choice for a case. ok is false if the library does not report it or
// can't be told to run it.
func (m *Measurer) Algorithm(c results.Case) (a kernels.Algorithm, ok bool) {
	l := m.rigs[c.Device]
	if l == nil || len(ms(c)) != 1 {
		return a, false
	}
	k, err := l.kernel(c)
	if err != nil {
		return a, false
	}
	choice, err := kernels.ChoiceOf(k, task(c, ms(c)[0]))
	if err != nil || choice.Algorithm.Validate() != nil {
		return a, false
	}
	named := c
	base, _ := kernels.SplitCandidate(c.Kernel)
	named.Kernel = kernels.AlgorithmName(base, choice.Algorithm)
	k, err = l.kernel(named)
	if err != nil || k.Supports(task(named, ms(c)[0])) != nil {
		return a, false // the attributes give another algorithm than the heuristic's
	}
	return choice.Algorithm, true
}

// Numerics checks the results of a request's remedies, in order. ok is false if no check is possible: the
// device computes nothing, the direct product writes nothing, or it is no single product. err is the device's
// error; a remedy's own error is in [results.Numerics].Failed.
func (m *Measurer) Numerics(ctx context.Context, r results.ResultRequest) (out []results.Numerics, ok bool, err error) {
	if len(r.Direct) == 0 {
		return nil, false, errors.New("numerics: no product")
	}
	direct := r.Direct[0]
	l := m.rigs[direct.Device]
	if l == nil || !direct.IsOneProduct() {
		return nil, false, nil
	}
	if t, is := l.device.(kernels.TimesOnly); is && t.TimesOnly() {
		return nil, false, nil
	}
	cases := slices.Clone(r.Direct)
	for _, remedy := range r.Remedies {
		cases = append(cases, remedy...)
	}
	for _, c := range cases {
		if err := checkCase(c); err != nil {
			return nil, false, err
		}
	}
	if m.fault != nil {
		return nil, false, m.fault
	}
	for _, c := range cases {
		if err := m.skip(c); err != nil {
			return nil, false, fmt.Errorf("numerics of %v: %v: %w", direct, c, err)
		}
	}
	err = m.deal(cases, nil, func(l *lab, ds []demand, _ []int) error {
		if err := l.land(); err != nil {
			return err
		}
		failed, err := l.bring(ctx, ds, cases)
		if err == nil {
			err = failed[matrixOf(direct)]
		}
		if err != nil {
			return err
		}
		look := resultLook{lab: l, ctx: ctx}
		if out, ok, err = look.compare(r); err != nil {
			return fmt.Errorf("numerics of %v: %w", direct, err)
		}
		return nil
	})
	if hung(err) {
		return nil, false, err
	}
	return out, ok, err
}

type resultLook struct {
	*lab
	ctx     context.Context
	copy    int // of the weights
	rows    []int
	columns []int
	weights [][][]float64 // as kernels take them, by column of [multiplied]: see exactElement
	exact   []exactElement
}

// exactElement is an element of C in float64 with its accepted error. Quantized weights give two values: with
// rounded weights, and as a [kernels.SumScaler] uses them. The parts of a remedy may use either.
type exactElement struct {
	row, column int
	sums        []exactSum
}

// exactSum allows half more where partial sums may be rounded to 16 bits, and rounded more where activations may be to 8.
type exactSum struct{ value, bound, half, rounded float64 }

func (e exactElement) nearest(x float64) exactSum {
	best := e.sums[0]
	for _, s := range e.sums[1:] {
		if math.Abs(x-s.value) < math.Abs(x-best.value) {
			best = s
		}
	}
	return best
}

func (k *resultLook) compare(r results.ResultRequest) ([]results.Numerics, bool, error) {
	direct := r.Direct[0]
	k.rows = lookedRows(direct, r.Remedies)
	base, err := k.run(direct)
	if err != nil {
		return nil, false, err
	}
	if unwritten(base) {
		return nil, false, nil
	}
	if err := k.reference(direct); err != nil {
		return nil, false, err
	}
	var common results.Numerics
	common.Rows, common.Columns = len(k.rows), len(k.columns)
	if common.DirectError, _, err = k.errors(direct, base); err != nil {
		return nil, false, err
	}
	others := map[int][][]byte{}
	common.DirectBatchInvariant = true
	for _, c := range r.Direct[1:] {
		if others[c.M], err = k.run(c); err != nil {
			return nil, false, err
		}
		common.DirectBatchInvariant = common.DirectBatchInvariant && sameRows(base, others[c.M])
	}
	out := make([]results.Numerics, len(r.Remedies))
	for i, remedy := range r.Remedies {
		out[i] = common
		if err := k.remedy(&out[i], base, remedy); err != nil {
			if deviceLost(err) || k.ctx.Err() != nil {
				return nil, false, err
			}
			out[i] = results.Numerics{Failed: err.Error()}
		}
	}
	return out, true, nil
}

func (k *resultLook) remedy(n *results.Numerics, base [][]byte, cases []results.Case) error {
	own, err := k.run(cases[0])
	if err != nil {
		return err
	}
	if unwritten(own) {
		return fmt.Errorf("%v: a row of the result was not written", cases[0])
	}
	if n.RemedyError, n.Wrong, err = k.errors(cases[0], own); err != nil {
		return err
	}
	n.SameBits, n.BatchInvariant = sameRows(base, own), true
	for _, c := range cases[1:] {
		rows, err := k.run(c)
		if err != nil {
			return err
		}
		n.OtherMs = append(n.OtherMs, c.M)
		n.BatchInvariant = n.BatchInvariant && sameRows(own, rows)
	}
	return nil
}

// lookedRows selects the first and last rows, the two at each boundary between a remedy's parts, and some in
// between.
func lookedRows(direct results.Case, remedies [][]results.Case) []int {
	rows := []int{0, direct.M - 1}
	for _, r := range remedies {
		at := 0
		for _, part := range r[0].Parts[:max(0, len(r[0].Parts)-1)] {
			at += part
			rows = append(rows, at-1, at)
		}
	}
	for i := 1; len(rows) < numericRows; i++ {
		rows = append(rows, i*(direct.M-1)/numericRows)
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	if len(rows) <= numericRows {
		return rows
	}
	spread := make([]int, numericRows)
	for i := range spread {
		spread[i] = rows[i*(len(rows)-1)/(numericRows-1)]
	}
	return spread
}

func (k *resultLook) run(c results.Case) ([][]byte, error) {
	s := &station{c: c}
	defer func() { k.bound -= len(s.launches) }()
	return k.runStation(s)
}

func (k *resultLook) runStation(s *station) (_ [][]byte, err error) {
	c := s.c
	k.dog.enter(0, "", c)
	defer func() {
		err = k.lost(err, s)
		k.dog.leave()
	}()
	if err := k.ready(k.ctx, s); err != nil {
		return nil, err
	}
	var launches []kernels.Launch
	for step := range launchesOf(c) {
		l, err := k.launch(s, k.copy, step)
		if err != nil {
			return nil, err
		}
		launches = append(launches, l)
	}
	line := int(c.OutputElements(1)) * c.OutputType().Size()
	place := int64(k.copy%k.slots(c)) * outputBytes(c)
	poison := bytes.Repeat([]byte{poisonByte}, line)
	var at []int
	for _, row := range k.rows {
		if row < c.M {
			at = append(at, row)
		}
	}
	for _, row := range at {
		if err := s.operands.c.Upload(place+int64(row)*int64(line), poison); err != nil {
			return nil, err
		}
	}
	if _, err := k.device.Execute(k.ctx, launches, len(launches)); err != nil {
		return nil, err
	}
	out := make([][]byte, len(at))
	for i, row := range at {
		out[i] = make([]byte, line)
		if err := s.operands.c.Download(place+int64(row)*int64(line), out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// poisonByte fills rows before they are computed. No valid result consists of it alone.
const poisonByte = 0xff

func unwritten(rows [][]byte) bool {
	return slices.ContainsFunc(rows, func(row []byte) bool {
		return !slices.ContainsFunc(row, func(b byte) bool { return b != poisonByte })
	})
}

func sameRows(a, b [][]byte) bool {
	n := min(len(a), len(b))
	return slices.EqualFunc(a[:n], b[:n], bytes.Equal)
}

// reference computes the looked elements of a case in float64.
func (k *resultLook) reference(c results.Case) error {
	k.columns = lookedColumns(c.OutputColumns())
	k.dog.enter(0, "read operands")
	defer k.dog.leave()
	var err error
	if k.weights, err = k.readWeights(c); err != nil {
		return err
	}
	return k.multiply(c)
}

// readWeights reads the columns of [multiplied].
func (k *resultLook) readWeights(c results.Case) (out [][][]float64, err error) {
	subjects := []kernels.Subject{c.Subject}
	if c.Weights != (kernels.WeightFormat{}) {
		unrounded := c.Subject
		unrounded.DType = kernels.FP32
		subjects = append(subjects, unrounded)
	}
	for _, s := range subjects {
		weights, err := kernels.WeightColumns(k.sets[matrixOf(c)].raw[k.copy], s, multiplied(c, k.columns))
		if err != nil {
			return nil, err
		}
		out = append(out, weights)
	}
	return out, nil
}

func (k *resultLook) multiply(c results.Case) error {
	line := make([]byte, c.K*c.DType.Size())
	a := make([]float64, c.K)
	place := int64(k.copy%k.slots(c)) * inputBytes(c)
	finish, err := k.finisher(c)
	if err != nil {
		return err
	}
	for i, row := range k.rows {
		k.dog.beat()
		if err := k.activations[c.DType].a.Download(place+int64(row)*int64(len(line)), line); err != nil {
			return err
		}
		if err := kernels.Decode(c.DType, line, a); err != nil {
			return err
		}
		if c.Scaled() {
			for l := range a {
				a[l] *= float64(float32(sweptScale))
			}
		}
		sums := k.sums(c, a)
		if finish != nil {
			if sums, err = finish(row, sums); err != nil {
				return err
			}
		}
		for j := range k.columns {
			k.exact = append(k.exact, exactElement{row: i, column: j, sums: sums[j]})
		}
	}
	return nil
}

// sums multiplies a row by the columns that were read.
func (k *resultLook) sums(c results.Case, a []float64) [][]exactSum {
	p := kernels.Task{Subject: kernels.Product(c.DType, c.N, c.K), M: c.M}
	steps := kernels.RoundingSteps(a)
	out := make([][]exactSum, len(k.weights[0]))
	for j := range out {
		for _, columns := range k.weights {
			var sum, magnitude float64
			for l, x := range a {
				sum += x * columns[j][l]
				magnitude += math.Abs(x * columns[j][l])
			}
			bound := math.Inf(1)
			if c.DType != kernels.TF32 { // TF32 rounds its operands on input
				bound = kernels.ErrorBound(p, sum, magnitude)
			}
			half, rounded := kernels.HalfSumBound(p, sum, magnitude), kernels.RoundedBound(steps, columns[j])
			out[j] = append(out[j], exactSum{sum, bound, half, rounded})
		}
	}
	return out
}

func lookedColumns(n int) []int {
	var out []int
	each := numericColumns / numericGroups
	for g := range numericGroups {
		from := g * max(0, n-each) / (numericGroups - 1)
		for j := from; j < min(n, from+each); j++ {
			out = append(out, j)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (k *resultLook) errors(c results.Case, rows [][]byte) (relative float64, wrong int, err error) {
	size := c.OutputType().Size()
	var of, all float64
	var one [1]float64
	free := k.latitude(c)
	for _, e := range k.exact {
		at := k.columns[e.column] * size
		if err := kernels.Decode(c.OutputType(), rows[e.row][at:at+size], one[:]); err != nil {
			return 0, 0, err
		}
		exact := e.nearest(one[0])
		diff := one[0] - exact.value
		of, all = of+diff*diff, all+exact.value*exact.value
		if !(math.Abs(diff) <= exact.allowed(free)) {
			wrong++
		}
	}
	switch {
	case math.IsNaN(of) || math.IsInf(of, 0):
		return 0, wrong, fmt.Errorf("%v: the result is not finite", c)
	case all == 0:
		return 0, wrong, nil
	}
	return math.Sqrt(of / all), wrong, nil
}
