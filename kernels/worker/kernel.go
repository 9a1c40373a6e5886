package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Kernel is a worker's kernel.
type Kernel struct {
	kernels.TellsNothing
	worker    *Worker
	text      kernelText
	operation kernels.Operation
	dtypes    []kernels.DType
	layouts   []kernels.Layout
	halves    []kernels.DType
	answers   map[kernels.Task]error // of supports
}

// Name implements [kernels.Kernel].
func (k *Kernel) Name() string { return k.text.Name }

// Describe implements [kernels.Kernel].
func (k *Kernel) Describe() string {
	if k.text.Description != "" {
		return k.text.Description
	}
	return fmt.Sprintf("%s, in %s", k.worker.runtime, k.path())
}

func (k *Kernel) path() string {
	for _, f := range k.worker.files {
		if slices.Contains(f.kernels, k) {
			return filepath.Base(f.path)
		}
	}
	return k.worker.name
}

// Process implements [kernels.Elsewhere].
func (k *Kernel) Process() string { return k.worker.name }

// DTypes implements [kernels.Typed].
func (k *Kernel) DTypes() []kernels.DType { return k.dtypes }

// HalfSums implements [kernels.HalfSummer].
func (k *Kernel) HalfSums(t kernels.Task) bool { return slices.Contains(k.halves, t.DType) }

// Packs implements [kernels.Packer].
func (k *Kernel) Packs(kernels.Task) bool { return k.text.Packs }

// mostAnswers bounds the remembered answers.
const mostAnswers = 1 << 16

// Supports implements [kernels.Kernel].
func (k *Kernel) Supports(t kernels.Task) error {
	n, err := k.check(t)
	if err != nil {
		return err
	}
	if err, ok := k.answers[n]; ok {
		return err
	}
	if err := k.worker.start(); err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name(), err)
	}
	err = k.worker.ask("supports", supportsParams{k.text.Name, k.task(n)}, nil)
	var failed *failure
	switch {
	case errors.As(err, &failed) && failed.Kind == unsupportedFailure:
		err = t.Unsupported(k.Name(), oneLine(failed.Message))
	case err != nil:
		return fmt.Errorf("kernel %s: %v: supports: %w", k.Name(), n, err)
	}
	if k.answers == nil || len(k.answers) >= mostAnswers {
		k.answers = map[kernels.Task]error{}
	}
	k.answers[n] = err
	return err
}

// check returns the normalized task if its type, layout and format are the kernel's.
func (k *Kernel) check(t kernels.Task) (kernels.Task, error) {
	no := func(format string, args ...any) (kernels.Task, error) {
		return t, t.Unsupported(k.Name(), fmt.Sprintf(format, args...))
	}
	if t.Operation != k.operation {
		return no("it computes %v", k.operation)
	}
	var extras kernels.Extras
	if k.text.Batched {
		extras |= kernels.Batches
	}
	if len(k.text.Weights) > 0 {
		extras |= kernels.QuantizedWeights | kernels.LevelWeights | kernels.ScaledWeights
	}
	n, err := t.Supported(k.Name(), extras)
	switch {
	case err != nil:
		return t, err
	case !slices.Contains(k.dtypes, n.DType):
		return no("it takes %s", strings.Join(k.text.DTypes, ", "))
	case t.Operation.HasWeights() && len(k.layouts) > 0 && !slices.Contains(k.layouts, n.Layout):
		return no("it takes weights in layout %s", strings.Join(k.text.Layouts, " or "))
	case n.Quantized() && n.Groups > 0:
		return no("grouped products of another process take plain weights")
	case n.Quantized() != (len(k.text.Weights) > 0) || n.Quantized() && !k.takesWeights(n):
		return no("it takes weights %s", k.formats())
	case n.PackInside:
		return no("another process packs weights before launches, not inside")
	case n.Threads != 0 && n.Threads != k.worker.set.host.Threads:
		e := t.Unsupported(k.Name(), fmt.Sprintf("kernels of another process run on all %d threads", k.worker.set.host.Threads))
		e.Option = fmt.Sprintf("--threads %d", n.Threads)
		return t, e
	}
	n.Threads = 0
	return n, nil
}

func (k *Kernel) formats() string {
	if len(k.text.Weights) == 0 {
		return "without quantization"
	}
	return strings.Join(k.text.Weights, " or ")
}

// takesWeights reports whether a format is listed: "int4:128", or "int4" for any group.
func (k *Kernel) takesWeights(t kernels.Task) bool {
	request, ok := t.Weights.Requested(t.K)
	return ok && slices.ContainsFunc(k.text.Weights, func(word string) bool {
		return word == request.String() || word == t.Weights.Type
	})
}

func (k *Kernel) task(t kernels.Task) taskText {
	out := taskText{
		Operation: t.Operation.String(), DType: string(t.DType), Output: string(t.OutputType()), Accumulator: string(t.AccumulatorType()),
		M: t.M, Dims: t.Dims, LDA: t.LDA, LDB: t.LDB, LDC: t.LDC, StrideA: t.StrideA, StrideB: t.StrideB, StrideC: t.StrideC,
		Scale: t.Scale,
	}
	switch {
	case t.Operation.HasWeights():
		out.Layout = t.Layout.String()
	case t.HeadDim > 0:
		out.Capacity = t.Capacity(t.M)
	}
	if t.Groups > 0 {
		out.GroupRows, _ = t.GroupRows(t.M) // the task is normalized
	}
	if t.Epilogue != 0 {
		out.Epilogue, out.ResidualAt = t.Epilogue.String(), t.ResidualAt
	}
	if t.Quantized() {
		request, _ := t.Weights.Requested(t.K)
		raw := t.Raw()
		out.Weights = &weightsText{
			Format: request.String(), Bits: t.Weights.Bits, Group: t.Weights.GroupK, Scale: string(t.Weights.Scale),
			ScalesAt: raw.Scales, ZeroBits: t.Weights.ZeroPointBits, ZerosAt: raw.Zeros,
		}
		if t.Weights.GroupN > 1 {
			out.Weights.Columns = t.Weights.GroupN
		}
	}
	if of, ok := t.ActivationScales(); ok {
		out.Scales = &scalesText{Type: string(of.Type), At: of.At, LD: of.LD, Groups: of.Groups, Group: of.Group}
	}
	return out
}

// Weights is a stored operand in a worker, packed there or as it is.
type Weights struct {
	kernel     *Kernel
	task       kernels.Task
	raw        kernels.Buffer
	id         int64
	generation int
	told       prepareResult
}

// Prepare implements [kernels.Kernel].
func (k *Kernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	// Other M share the weights: code that fails to answer for this one must not cost them.
	var failed *failure
	if err := k.Supports(t); err != nil && !(errors.As(err, &failed) && failed.Kind == caseFailure) {
		return nil, err
	}
	n, err := k.check(t)
	if err != nil {
		return nil, err
	}
	w := &Weights{kernel: k, task: n, raw: raw}
	if raw == nil || !k.text.Packs {
		return w, nil // the worker sees them with the first launch
	}
	if err := k.worker.start(); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k.Name(), err)
	}
	if err := k.worker.together(w.ensure); err != nil {
		return nil, fmt.Errorf("kernel %s: %v: prepare: %w", k.Name(), n, err)
	}
	return w, nil
}

// ensure needs a started worker, and makes steps of its set-up.
func (w *Weights) ensure() error {
	if w.raw == nil {
		return nil
	}
	in := w.kernel.worker
	buffer, err := in.open(kernels.Operand{Buffer: w.raw})
	if err != nil || w.id != 0 && w.generation == in.generation {
		return err
	}
	w.id, w.generation = in.id(), in.generation
	params := prepareParams{w.id, w.kernel.text.Name, w.kernel.task(w.task), buffer}
	return in.setup.add(in, "prepare", params, &w.told, func() { w.Close() })
}

// Bytes implements [kernels.Weights].
func (w *Weights) Bytes() int64 {
	switch {
	case w.told.Bytes > 0:
		return w.told.Bytes
	case w.raw != nil:
		return w.raw.Bytes()
	}
	return 0
}

// Packing implements [kernels.Packed].
func (w *Weights) Packing() (seconds float64, ok bool) {
	return w.told.Seconds, w.kernel.text.Packs && w.told.Bytes > 0
}

// Close implements [kernels.Weights].
func (w *Weights) Close() error {
	if in := w.kernel.worker; w.id != 0 && w.generation == in.generation {
		id := w.id
		in.closing.add(func(c *closeParams) { c.Weights = append(c.Weights, id) })
	}
	w.id = 0
	return nil
}

// Bind implements [kernels.Kernel]. The worker sees the launch when it first runs.
func (k *Kernel) Bind(t kernels.Task, in kernels.Operand, w kernels.Weights, out kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	n, err := k.check(t)
	if err != nil {
		return nil, err
	}
	own, ok := w.(*Weights)
	if !ok || own.kernel != k {
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", n, w, k.Name())
	}
	a, _, c := n.Extents()
	for _, o := range []struct {
		name     string
		operand  kernels.Operand
		elements int64
		size     int
	}{{"in", in, a, n.DType.Size()}, {"out", out, c, n.OutputType().Size()}} {
		end := (int64(o.operand.Offset) + o.elements) * int64(o.size)
		if o.operand.Buffer == nil || o.operand.Offset < 0 || end > o.operand.Buffer.Bytes() {
			return nil, fmt.Errorf("%v: operand %s: %d elements at offset %d do not fit in its buffer", n, o.name, o.elements,
				o.operand.Offset)
		}
	}
	return &Launch{kernel: k, task: n, in: in, weights: own, out: out, state: &launchState{}}, nil
}

// Record implements [kernels.Recorder].
func (k *Kernel) Record(ctx context.Context, launches []kernels.Launch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, all, err := k.worker.set.resolve(launches)
	if err != nil {
		return err
	}
	w.set.turn(w)
	ids, err := w.ready(all)
	if err != nil {
		return err
	}
	if err := w.ask("record", recordParams{ids}, nil); err != nil {
		return fmt.Errorf("kernel %s: record: %w", k.Name(), err)
	}
	return nil
}

// Launch is a launch in a worker.
type Launch struct {
	kernel  *Kernel
	task    kernels.Task
	in, out kernels.Operand
	weights *Weights
	state   *launchState
	label   string
}

// launchState outlives its launch, for the cleanup.
type launchState struct {
	id         int64
	generation int
}

// Label implements [kernels.Launch]. It is empty before the launch has run.
func (l *Launch) Label() string { return l.label }

func (l *Launch) written() Buffer {
	b, _ := l.out.Buffer.(Buffer)
	return b
}

func (l *Launch) ensure(w *Worker) (int64, error) {
	in, err := w.open(l.in)
	if err != nil {
		return 0, fmt.Errorf("operand in: %w", err)
	}
	out, err := w.open(l.out)
	if err != nil {
		return 0, fmt.Errorf("operand out: %w", err)
	}
	if err := l.weights.ensure(); err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	if l.state.id != 0 && l.state.generation == w.generation {
		return l.state.id, nil
	}
	if l.state.id == 0 {
		runtime.AddCleanup(l, func(s *launchState) {
			w.closing.add(func(c *closeParams) { c.Launches = append(c.Launches, s.id) })
		}, l.state)
	}
	state, id := l.state, w.id()
	state.id, state.generation = id, w.generation
	params := bindParams{
		Launch: id, Kernel: l.kernel.text.Name, Task: l.kernel.task(l.task), Part: l.task.Part,
		In: operandText{in, int64(l.in.Offset)}, Weights: l.weights.id, Out: operandText{out, int64(l.out.Offset)},
	}
	return id, w.setup.add(w, "bind", params, nil, func() {
		state.generation = 0
		w.closing.add(func(c *closeParams) { c.Launches = append(c.Launches, id) })
	})
}
