//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// RotateAttend binds, for one row, what Rotate and Attend are bound to do one after the
// other, in one launch: the raw row, which stays as it is, is rotated on the way in, and the
// newest key and value go to the cache. Both
// descriptions are of the same row, heads, type, position and cache. The error names what
// differs, and else what is wrong, as theirs do.
func (d *Device) RotateAttend(r kernels.Rotation, o kernels.Attention) (kernels.Launch, error) {
	l, err := d.rotateAttend(r, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *Device) rotateAttend(r kernels.Rotation, o kernels.Attention) (*launch, error) {
	fail := func(err error) (*launch, error) { return nil, fmt.Errorf("rotation and attention: %w", err) }
	for _, same := range []struct {
		name             string
		rotation, attend any
	}{
		{"rows", r.Rows, o.Rows},
		{"heads", r.Heads, o.Heads},
		{"dtype", r.DType, o.DType},
		{"row of queries", r.QKV, o.Q},
		{"position", r.Position, o.Position},
		{"cache", r.Cache, o.Cache},
	} {
		if same.rotation != same.attend {
			return fail(fmt.Errorf("%s: %v is rotated, %v attends: expected the same", same.name, same.rotation, same.attend))
		}
	}
	p, at, err := d.attentionOperands(o)
	if err != nil {
		return fail(err)
	}
	rotated, err := d.rotationOperands(r)
	if err != nil {
		return fail(err)
	}
	reason := (decodeAttention{}).Supports(d.arch, p)
	if reason == "" && rotated.table%8 != 0 {
		reason = fmt.Sprintf("takes pairs of cosine and sine at multiples of 8 bytes, the table is at %#x", rotated.table)
	}
	if reason != "" {
		return nil, &kernels.Unsupported{Kernel: "decode", DType: p.dtype, Reason: reason}
	}
	plan := planRotated(d.arch, p, decodeRotation{table: rotated.table, positions: r.Positions})
	if at.flags, err = d.flags(plan.flags); err != nil {
		return fail(err)
	}
	label := joinLabel("decode", plan.label+" rotated")
	key := fmt.Sprintf("%s %+v", label, p)
	l, err := d.newLaunch(label, key, calls(plan.bind(at)), o.Q.Buffer, o.Position.Buffer, r.Table.Buffer, o.Cache.Keys.Buffer, o.Cache.Values.Buffer, o.Out.Buffer)
	if err != nil {
		return fail(err)
	}
	return l, nil
}
