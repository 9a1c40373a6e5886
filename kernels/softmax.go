package kernels

import "fmt"

// SoftmaxOperation returns [Softmax], or [LogSoftmax] for its logarithm.
func SoftmaxOperation(log bool) Operation {
	if log {
		return LogSoftmax
	}
	return Softmax
}

// Log reports whether a softmax returns logarithms.
func (s Subject) Log() bool { return s.Operation == LogSoftmax }

// Seen returns the number of leading columns that a row of a softmax sees, at least 1.
func (s Subject) Seen(row int) int {
	if s.Queries == 0 {
		return s.Columns
	}
	return row%s.Queries + s.Columns - s.Queries + 1
}

// maxScale keeps Scale·x finite for the larger half of a type's exponents.
const maxScale = 0x1p63

// normalizeSoftmax sets the default Scale. The error names the invalid field.
func normalizeSoftmax(t Task) (Task, error) {
	switch {
	case t.M < 1 || t.Columns < 1:
		return t, fmt.Errorf("%v: expected at least 1 row and 1 column", t)
	case t.DType != FP32 && t.DType != FP16 && t.DType != BF16:
		return t, fmt.Errorf("%v: expected fp32, fp16 or bf16", t)
	case t.Queries < 0 || t.Queries > t.Columns:
		return t, fmt.Errorf("%v: %d queries, expected 0 to the %d columns", t, t.Queries, t.Columns)
	case !(t.Scale >= 0 && t.Scale <= maxScale):
		return t, fmt.Errorf("%v: scale %g, expected 0 to %g", t, t.Scale, float32(maxScale))
	}
	if t.Scale == 0 {
		t.Scale = 1
	}
	return t, nil
}

// Softmax returns the normalized task if it is a softmax or its logarithm that a kernel on all threads of a
// device may compute, otherwise the reason as an [*Unsupported]. A device without threads has 0.
func (t Task) Softmax(kernel string, threads int) (Task, error) {
	switch {
	case t.Operation != Softmax && t.Operation != LogSoftmax:
		return t, t.Unsupported(kernel, "it computes softmax")
	case threads > 0 && t.Threads != 0 && t.Threads != threads:
		return t, t.Unsupported(kernel, fmt.Sprintf("softmax runs on all %d threads of the device", threads))
	}
	return t.Supported(kernel, 0)
}

// StoresNothing is the Prepare of kernels of an operation without stored operand, which embed it.
type StoresNothing struct{}

// Prepare implements [Kernel].
func (StoresNothing) Prepare(Task, Buffer) (Weights, error) { return NothingStored{}, nil }

// NothingStored are the weights of an operation without stored operand.
type NothingStored struct{}

// Bytes is 0.
func (NothingStored) Bytes() int64 { return 0 }

// Close has no effect.
func (NothingStored) Close() error { return nil }

// Detached implements [Detached]: there is no raw operand.
func (NothingStored) Detached() bool { return true }
