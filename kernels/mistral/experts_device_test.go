package mistral

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// graphing is a CPU with fused products and graphs, as GPUs have them.
type graphing struct {
	*cpu.Device
	graphs, fused *int
}

func (d graphing) Graph(ls []kernels.Launch) (kernels.Launch, error) {
	*d.graphs++
	return ls[0], nil
}

func (d graphing) Fuse(kernels.FusedProduct) (kernels.Launch, error) {
	*d.fused++
	return nil, &kernels.Unsupported{Kernel: "fused", Reason: "not here"}
}

func (d graphing) RotateAttend(kernels.Rotation, kernels.Attention) (kernels.Launch, error) {
	*d.fused++
	return nil, &kernels.Unsupported{Kernel: "fused", Reason: "not here"}
}

// choosing is a graphing device that could also choose experts.
type choosing struct{ graphing }

func (d choosing) FuseExperts(kernels.FusedExperts) ([]kernels.Launch, error) {
	*d.fused++
	return nil, &kernels.Unsupported{Kernel: "experts", Reason: "not here"}
}

// Where the host chooses experts between launches, a token with experts is neither one graph nor fused. A device that chooses
// experts is asked, and the host chooses if it supports too little.
func TestExpertsNeedTheHost(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, of := range []struct {
		name          string
		chooses       bool
		graphs, fused int
	}{{"mixtral-8x2", false, 0, 0}, {"mixtral-8x2", true, 0, 1}, {"mistral", false, 1, 1}, {"mistral", true, 1, 1}} {
		name, graphs := of.name, of.graphs
		c, err := checkpoint.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		as := graphing{d, new(int), new(int)}
		var device kernels.Device = as
		if of.chooses {
			device = choosing{as}
		}
		m, err := Load(t.Context(), device, c, Options{DType: kernels.BF16})
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.NewSession(SessionOptions{Positions: 8})
		if err != nil {
			t.Fatal(err)
		}
		if *as.graphs != graphs || (*as.fused > 0) != (of.fused > 0) || s.Fused() {
			t.Errorf("%s: %d graphs, %d fused launches tried", name, *as.graphs, *as.fused)
		}
		if graphs == 0 {
			if _, err := s.Step(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
		s.Close()
		m.Close()
		c.Close()
	}
}

// moving is a CPU with the operations of a rowMover, run by its Execute.
type moving struct{ *cpu.Device }

type movingLaunch func() error

func (movingLaunch) Label() string { return "rows moved" }

func (d moving) Execute(ctx context.Context, ls []kernels.Launch, n int) (total kernels.Span, err error) {
	for i := range n {
		switch l := ls[i%len(ls)].(type) {
		case movingLaunch:
			err = l()
		default:
			var span kernels.Span
			span, err = d.Device.Execute(ctx, []kernels.Launch{l}, 1)
			total = joined(total, span)
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func readInts(b kernels.Buffer, offset, n int) ([]int, error) {
	raw := make([]byte, 4*n)
	err := b.Download(int64(4*offset), raw)
	out := make([]int, n)
	for i := range out {
		out[i] = int(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out, err
}

func (d moving) CopyRows(o kernels.ExpertRows) (kernels.Launch, error) {
	return movingLaunch(func() error {
		rows, err := readInts(o.Rows.Buffer, o.Rows.Offset, o.Count)
		row := make([]byte, o.Columns*o.DType.Size())
		for i, at := range rows {
			err = errors.Join(err, o.From.Buffer.Download(int64(at*len(row)), row), o.To.Buffer.Upload(int64(i*len(row)), row))
		}
		return err
	}), nil
}

func (d moving) SumRows(o kernels.ExpertSums) (kernels.Launch, error) {
	return movingLaunch(func() error {
		rows, err := readInts(o.Rows.Buffer, o.Rows.Offset, o.Count*o.TopK)
		shares, err2 := readInts(o.Shares.Buffer, o.Shares.Offset, o.Count*o.TopK)
		err = errors.Join(err, err2)
		raw, values := make([]byte, o.Columns*o.DType.Size()), make([]float32, o.Columns)
		for row := range o.Count {
			sum := make([]float32, o.Columns)
			for i := row * o.TopK; i < (row+1)*o.TopK; i++ {
				err = errors.Join(err, o.From.Buffer.Download(int64(rows[i]*len(raw)), raw))
				decodeFloats(o.DType, raw, values)
				for j, v := range values {
					sum[j] += math.Float32frombits(uint32(shares[i])) * v
				}
			}
			encodeFloats(o.DType, sum, raw)
			err = errors.Join(err, o.To.Buffer.Upload(int64(row*len(raw)), raw))
		}
		return err
	}), nil
}

// A device that moves rows must give the logits of the host's copies and sums, bit for bit.
func TestRowsMovedByTheDevice(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"mixtral-8x2", "mixtral-6x3", "mixtral-4x1"} {
		c, err := checkpoint.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		tokens := RandomTokens(11, c.Config().Vocab, 3)
		var want []float32
		for _, device := range []kernels.Device{d, moving{d}} {
			for _, batch := range []int{1, 4, 11} {
				m, err := Load(t.Context(), device, c, Options{DType: kernels.BF16})
				if err != nil {
					t.Fatal(err)
				}
				s, err := m.NewSession(SessionOptions{Positions: len(tokens), Batch: batch})
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Prefill(t.Context(), tokens)
				if err != nil {
					t.Fatal(err)
				}
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %T, batches of %d: other logits", name, device, batch)
				}
				if err := errors.Join(s.Close(), m.Close()); err != nil {
					t.Error(err)
				}
			}
		}
		c.Close()
	}
}
