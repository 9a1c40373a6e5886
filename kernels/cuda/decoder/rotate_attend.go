//go:build cuda

package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// RotateAttend binds Rotate and Attend for one row in one launch: it rotates the input row, which stays
// unchanged, and appends the newest key and value to the cache. Both arguments must have the same row, heads,
// type, position and cache. The error names a difference, or an invalid operand or size.
func (d Operations) RotateAttend(r kernels.Rotation, o kernels.Attention) (kernels.Launch, error) {
	l, err := d.rotateAttend(r, o, attention.PlanRotated)
	if err != nil {
		return nil, err
	}
	return l, nil
}

type rotatedPlan func(planning.Arch, attention.Problem, attention.Rotation) planning.Plan[attention.Addresses]

func (d Operations) rotateAttend(r kernels.Rotation, o kernels.Attention, decide rotatedPlan) (*driver.Launch, error) {
	fail := func(err error) (*driver.Launch, error) { return nil, fmt.Errorf("rotation and attention: %w", err) }
	if err := unnormalized(r); err != nil {
		return fail(err)
	}
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
	p, at, err := attention.Ladder{Device: d.Device}.Operands(o)
	if err != nil {
		return fail(err)
	}
	if err := checkRotation(d.Arch(), r); err != nil {
		return fail(err)
	}
	var rotated transformerAddresses
	if err := d.placeOperands(rotationOperands(r, &rotated)...); err != nil {
		return fail(err)
	}
	reason := (attention.Decode{}).Supports(d.Arch(), p)
	if reason == "" && rotated.table%8 != 0 {
		reason = fmt.Sprintf("takes pairs of cosine and sine at multiples of 8 bytes, the table is at %#x", rotated.table)
	}
	if reason != "" {
		return nil, &kernels.Unsupported{Kernel: "decode", DType: p.DType, Reason: reason}
	}
	plan := decide(d.Arch(), p, attention.Rotation{Table: rotated.table, Positions: r.Positions})
	if at.Flags, err = d.Flags(plan.Flags); err != nil {
		return fail(err)
	}
	label := planning.JoinLabel("decode", plan.Label+" rotated")
	key := fmt.Sprintf("%s %+v", label, p)
	l, err := d.NewLaunch(label, key, driver.Steps(plan.Bind(at)), o.Q.Buffer, o.Position.Buffer, r.Table.Buffer, o.Cache.Keys.Buffer,
		o.Cache.Values.Buffer, o.Out.Buffer)
	if err != nil {
		return fail(err)
	}
	return l, nil
}
