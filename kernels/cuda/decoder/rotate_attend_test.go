//go:build cuda

package decoder

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func rotatedCases(d kernels.DType, dim int) []kernels.AttentionCase {
	var cases []kernels.AttentionCase
	for _, c := range kernels.AttentionCases(d, dim) {
		if c.Rows == 1 && c.Position < 1<<16 {
			cases = append(cases, c)
		}
	}
	if testing.Short() {
		return cases[3:4]
	}
	return cases
}

func rotatedPlans(d gputest.GPU) map[string]rotatedPlan {
	all := map[string]rotatedPlan{"plan": attention.PlanRotated}
	if d.Arch().CC != 90 {
		return all
	}
	for name, of := range map[string]struct{ bulk, long bool }{"bulk": {bulk: true}, "bulk, long": {true, true}, "loads": {}} {
		all[name] = func(a planning.Arch, p attention.Problem, r attention.Rotation) planning.Plan[attention.Addresses] {
			plans := attention.RotatedPlans(a, p, r)
			if some := slices.DeleteFunc(slices.Clone(plans), func(p planning.Plan[attention.Addresses]) bool {
				return strings.HasPrefix(p.Label, "bulk_") != of.bulk
			}); len(some) > 0 {
				plans = some
			}
			if of.long {
				return plans[0]
			}
			return planning.Fastest(plans)
		}
	}
	return all
}

// TestRotateAttendGate runs the fused launch past attention's gate with angles of 0. NaN replaces the newest
// key and value in the cache, and the launch must write them back.
func TestRotateAttendGate(t *testing.T) {
	d := gputest.First(t)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		for _, dim := range []int{64, 80, 128} {
			t.Run(fmt.Sprintf("%s/%d", dt, dim), func(t *testing.T) {
				if reason := planning.TypeReason(d.Arch(), dt); reason != "" {
					t.Skip(reason)
				}
				for _, c := range rotatedCases(dt, dim) {
					c.LDQ = max(c.LDQ, c.Heads.Width())
					check, err := kernels.NewAttentionCheck(c, 1)
					if err != nil {
						t.Fatal(err)
					}
					for name, plan := range rotatedPlans(d) {
						attend := func(o kernels.Attention) (kernels.Launch, error) { return rotateLevel(t, d, o, c.Position, plan) }
						// Rotation by 0 turns a finite number next to NaN into NaN.
						if _, err := check.Finite().Margin(context.Background(), d, attend); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
					}
				}
			})
		}
	}
}

func rotateLevel(t *testing.T, d gputest.GPU, o kernels.Attention, position int, plan rotatedPlan) (kernels.Launch, error) {
	size, h := o.DType.Size(), o.Heads
	row := make([]byte, h.Width()*size)
	if err := o.Q.Buffer.Download(int64(o.Q.Offset*size), row[:h.Query*h.Dim*size]); err != nil {
		return nil, err
	}
	at := h.Query * h.Dim * size
	for _, cache := range []kernels.Operand{o.Cache.Keys, o.Cache.Values} {
		for kv := range h.KV {
			slot := int64(cache.Offset+(kv*o.Cache.Capacity+position%o.Cache.Capacity)*h.Dim) * int64(size)
			if err := cache.Buffer.Download(slot, row[at:at+h.Dim*size]); err != nil {
				return nil, err
			}
			at += h.Dim * size
			if err := cache.Buffer.Upload(slot, bytes.Repeat([]byte{0xff}, h.Dim*size)); err != nil {
				return nil, err
			}
		}
	}
	qkv := gputest.Buffer(t, d, int64(len(row)))
	if err := qkv.Upload(0, row); err != nil {
		return nil, err
	}
	angles := make([]float64, (position+1)*h.Dim)
	for i := 0; i < len(angles); i += 2 {
		angles[i] = 1
	}
	raw := make([]byte, 4*len(angles))
	if err := kernels.Encode(kernels.FP32, angles, raw); err != nil {
		return nil, err
	}
	table := gputest.Buffer(t, d, int64(len(raw)))
	if err := table.Upload(0, raw); err != nil {
		return nil, err
	}
	o.Q, o.LDQ = kernels.Operand{Buffer: qkv}, h.Width()
	return Operations{d.Device}.rotateAttend(kernels.Rotation{
		Rows: 1, Heads: h, DType: o.DType, QKV: o.Q, Position: o.Position, Table: kernels.Operand{Buffer: table}, Positions: position + 1,
		Cache: o.Cache,
	}, o, plan)
}

// The fused launch equals rotation followed by attention, after a launch that advances the position.
func TestRotateAttend(t *testing.T) {
	d := gputest.First(t)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		t.Run(dt.String(), func(t *testing.T) {
			if reason := planning.TypeReason(d.Arch(), dt); reason != "" {
				t.Skip(reason)
			}
			for _, h := range []kernels.Heads{{Query: 32, KV: 8, Dim: 128}, {Query: 12, KV: 1, Dim: 64}, {Query: 3, KV: 3, Dim: 30}} {
				for name, plan := range rotatedPlans(d) {
					compareRotateAttend(t, d, dt, h, name, plan)
				}
			}
		})
	}
}

func compareRotateAttend(t *testing.T, d gputest.GPU, dt kernels.DType, h kernels.Heads, name string, plan rotatedPlan) {
	t.Helper()
	const capacity, position = 512, 700
	slots := h.KV * capacity * h.Dim
	var results [2][2][]float64
	for i := range results {
		filled := func(n int, d2 kernels.DType, seed uint64) kernels.Buffer {
			b := gputest.Buffer(t, d, int64(n*d2.Size()))
			if err := b.Fill(kernels.Normal, d2, int64(n), seed); err != nil {
				t.Fatal(err)
			}
			return b
		}
		qkv := kernels.Operand{Buffer: filled(h.Width(), dt, 1)}
		where, token := gputest.Buffer(t, d, 4), gputest.Buffer(t, d, 4)
		stand := func(at int) {
			if err := where.Upload(0, []byte{byte(at), byte(at >> 8), 0, 0}); err != nil {
				t.Fatal(err)
			}
		}
		stand(position)
		choice := kernels.TokenChoice{
			Vocab: 1 << 18, DType: dt, Logits: kernels.Operand{Buffer: filled(1<<18, dt, 6)},
			Token: kernels.Operand{Buffer: token}, Position: kernels.Operand{Buffer: where},
		}
		out := filled(h.Query*h.Dim, dt, 4)
		r := kernels.Rotation{
			Rows: 1, Heads: h, DType: dt, QKV: qkv, Position: kernels.Operand{Buffer: where},
			Table: kernels.Operand{Buffer: filled(1000*h.Dim, kernels.FP32, 5)}, Positions: 1000,
			Cache: kernels.KVCache{Capacity: capacity, Keys: kernels.Operand{Buffer: filled(slots, dt, 2)},
				Values: kernels.Operand{Buffer: filled(slots, dt, 3)}},
		}
		o := kernels.Attention{
			Rows: 1, Heads: h, DType: dt, Window: 400, Scale: 0.1, Q: qkv, LDQ: h.Width(), Position: r.Position, Length: 1000,
			Cache: r.Cache, Out: kernels.Operand{Buffer: out},
		}
		var launches []kernels.Launch
		add := func(l kernels.Launch, err error) {
			if err != nil {
				t.Fatal(err)
			}
			launches = append(launches, l)
		}
		add(Operations{d.Device}.Choose(choice))
		if i == 0 {
			add(Operations{d.Device}.Rotate(r))
			add(attention.Ladder{Device: d.Device}.Attend(o))
		} else {
			add(Operations{d.Device}.rotateAttend(r, o, plan))
			o.Window++
			r.Rows++
			if _, err := (Operations{d.Device}).RotateAttend(r, o); err == nil {
				t.Error("two rows and one were taken for the same")
			}
		}
		// Runs alone first, because the first launch of a plan runs once more. Then the choice advances the
		// position, while overlapping launches still read the old value.
		if _, err := d.Prime(context.Background(), launches[len(launches)-1]); err != nil {
			t.Fatal(err)
		}
		stand(position - 1)
		if _, err := d.Execute(context.Background(), launches, len(launches)); err != nil {
			t.Fatal(err)
		}
		for j, b := range []kernels.Buffer{out, r.Cache.Keys.Buffer} {
			raw := make([]byte, b.Bytes())
			if err := b.Download(0, raw); err != nil {
				t.Fatal(err)
			}
			results[i][j] = make([]float64, len(raw)/dt.Size())
			if err := kernels.Decode(dt, raw, results[i][j]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for j, left := range []string{"output", "keys"} {
		var diff, norm float64
		for i, v := range results[0][j] {
			diff, norm = diff+math.Pow(v-results[1][j][i], 2), norm+v*v
		}
		if !(math.Sqrt(diff/norm) < 4*dt.UnitRoundoff()) {
			t.Errorf("%s %+v %s: %s differ by %.2g", dt, h, name, left, math.Sqrt(diff/norm))
		}
	}
}
