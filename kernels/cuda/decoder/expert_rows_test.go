//go:build cuda

package decoder

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Rows copied to others, and added up by shares.
func TestExpertRows(t *testing.T) {
	d := gputest.First(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		if planning.TypeReason(d.Arch(), dt) != "" {
			continue
		}
		for _, c := range []struct{ rows, columns, topK, offset int }{{1, 8, 1, 0}, {5, 24, 2, 8}, {7, 33, 3, 1}, {300, 1024, 2, 0}} {
			visits := c.rows * c.topK
			from, fromAt := drawn(t, d, r, dt, c.rows*c.columns, c.offset, 1)
			_, toAt := drawn(t, d, r, dt, visits*c.columns, c.offset, math.NaN())
			_, sumAt := drawn(t, d, r, dt, c.rows*c.columns, c.offset, math.NaN())
			shares, sharesAt := drawn(t, d, r, kernels.FP32, visits, 0, 1)
			copied, summed := make([]int, visits), r.Perm(visits)
			var raw [2][]byte
			for i := range visits {
				copied[i] = r.IntN(c.rows)
				raw[0] = binary.LittleEndian.AppendUint32(raw[0], uint32(copied[i]))
				raw[1] = binary.LittleEndian.AppendUint32(raw[1], uint32(summed[i]))
			}
			var index [2]kernels.Operand
			for i := range index {
				index[i].Buffer = gputest.Buffer(t, d, int64(4*visits))
				if err := index[i].Buffer.Upload(0, raw[i]); err != nil {
					t.Fatal(err)
				}
			}
			o := Operations{d.Device}
			gather, err := o.CopyRows(kernels.ExpertRows{Count: visits, Columns: c.columns, DType: dt, From: fromAt, FromRows: c.rows,
				To: toAt, Rows: index[0]})
			if err != nil {
				t.Fatal(err)
			}
			scatter, err := o.SumRows(kernels.ExpertSums{Count: c.rows, Columns: c.columns, TopK: c.topK, DType: dt, From: toAt, To: sumAt,
				Rows: index[1], Shares: sharesAt})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Execute(context.Background(), []kernels.Launch{gather, scatter}, 2); err != nil {
				t.Fatal(err)
			}
			out := make([]byte, sumAt.Buffer.Bytes())
			got := make([]float64, len(out)/dt.Size())
			for _, err := range []error{sumAt.Buffer.Download(0, out), kernels.Decode(dt, out, got)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			for row := range c.rows {
				for j := range c.columns {
					want, all := 0.0, 0.0
					for i := row * c.topK; i < (row+1)*c.topK; i++ {
						term := shares[i] * from[copied[summed[i]]*c.columns+j]
						want, all = want+term, all+math.Abs(term)
					}
					off := math.Abs(got[sumAt.Offset+row*c.columns+j] - want)
					if !(off <= 2*dt.UnitRoundoff()*math.Abs(want)+0x1p-22*all+1e-7) {
						t.Fatalf("%s %+v: row %d column %d is off by %g", dt, c, row, j, off)
					}
				}
			}
		}
	}
}
