package producer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// operators are the operators that compute products, with the positions of their two operands. aten::linear
// and aten::matmul call one of them and are ignored.
var operators = map[string][2]int{
	"aten::mm": {0, 1}, "aten::addmm": {1, 2}, "aten::bmm": {0, 1}, "aten::baddbmm": {1, 2}, "aten::_scaled_mm": {0, 1},
	"aten::_int_mm": {0, 1},
}

// event is the relevant part of a trace event.
type event struct {
	Name string `json:"name"`
	Args struct {
		Dims    []json.RawMessage `json:"Input Dims"`
		Strides []json.RawMessage `json:"Input Strides"`
		Types   []json.RawMessage `json:"Input type"`
	} `json:"args"`
}

var errTrace = errors.New("it is no trace: expected a JSON object with traceEvents")

// readTrace reads a PyTorch profiler trace event by event.
func readTrace(in io.Reader, take taker) error {
	d := json.NewDecoder(in)
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errTrace
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("read the trace: %w", err)
		}
		if key != "traceEvents" {
			if err := pass(d); err != nil {
				return fmt.Errorf("read the trace: %w", err)
			}
			continue
		}
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return errTrace
		}
		for n := 1; d.More(); n++ {
			if err := readEvent(d, n, take); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return fmt.Errorf("read the trace: %w", err)
		}
		return nil // the rest after the events is irrelevant
	}
	return errTrace
}

func pass(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func readEvent(d *json.Decoder, n int, take taker) error {
	var e event
	err := d.Decode(&e)
	var wrong *json.UnmarshalTypeError
	if err != nil && !errors.As(err, &wrong) {
		return fmt.Errorf("read event %d of the trace: %w", n, err)
	}
	places, ok := operators[e.Name]
	if !ok {
		return nil // an event of another form
	}
	r, err := e.row(places)
	return take.row(n, r, err)
}

func (e *event) row(places [2]int) (Row, error) {
	r, err := e.product(places)
	if err != nil {
		return r, err
	}
	types := [2]string{}
	for i, at := range places {
		if at < len(e.Args.Types) {
			_ = json.Unmarshal(e.Args.Types[at], &types[i]) // other values are not type names
		}
	}
	if r.Subject.DType, err = dtypeOf(types[0]); err != nil {
		return r, err
	}
	if types[0] != types[1] {
		return r, errMixed
	}
	return r, nil
}

func (e *event) product(places [2]int) (Row, error) {
	r := Row{Kernel: "pytorch"}
	if len(e.Args.Dims) <= places[1] {
		return r, errors.New("the trace has no shapes: record it with record_shapes=True")
	}
	a, b := numbersOf(e.Args.Dims, places[0]), numbersOf(e.Args.Dims, places[1])
	if len(a) != len(b) || len(a) != 2 && len(a) != 3 {
		return r, errors.New("its operands are no matrices")
	}
	for _, v := range append(a, b...) {
		if v < 1 || v > maxSize {
			return r, errors.New("a size of it is 0")
		}
	}
	if n := len(a); n == 3 {
		if a[0] != b[0] {
			return r, errShared
		}
		if a[0] > 1 {
			r.Subject.Products = a[0]
		}
		a, b = a[1:], b[1:]
	}
	if a[1] != b[0] {
		return r, errSizes
	}
	r.M, r.Subject.N, r.Subject.K = a[0], b[1], a[1]
	// Linear layers pass the transposed view of a weight [N,K].
	r.Subject.Layout = kernels.Transposed
	if s := numbersOf(e.Args.Strides, places[1]); len(s) >= 2 && b[0] > 1 && b[1] > 1 {
		r.LayoutKnown = true
		if s[len(s)-1] == 1 {
			r.Subject.Layout = kernels.RowMajor
		} else if s[len(s)-2] != 1 {
			return r, errPadded
		}
	}
	if s := numbersOf(e.Args.Strides, places[0]); len(s) >= 2 && a[0] > 1 && a[1] > 1 && s[len(s)-1] != 1 {
		return r, errTransposed
	}
	return r, nil
}

// numbersOf reads one list of sizes; nil for other values.
func numbersOf(lists []json.RawMessage, at int) (out []int) {
	if at >= len(lists) || json.Unmarshal(lists[at], &out) != nil {
		return nil
	}
	return out
}
