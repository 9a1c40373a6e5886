package kernels

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// hostScaled multiplies fp8 operands with scales as tensor cores do, with one fault.
type hostScaled struct {
	hostGemm
	fault scaledFault
}

type scaledFault struct {
	late         bool // scales of A of the group before
	lateRow      bool // scales of the row before
	neighbor     bool // scales of B of the block of columns before
	transposedA  bool // scales of A lie by row
	tightA       bool // groups of scales of A lie M apart
	transposedB  bool // scales of B lie by column
	noPromotion  bool // all sums in tensor cores
	onlyA        bool // no scales of B
	halfSums     bool // sums promoted to bf16
	keepsGroup   bool // the last group is left out
	writesScales bool
	pastScales   bool
}

func (g *hostScaled) Supports(q Task) error {
	_, err := q.Product("host", ScaledWeights)
	return err
}

func (g *hostScaled) Prepare(q Task, raw Buffer) (Weights, error) {
	return hostWeights{Operand{Buffer: raw}}, nil
}

// chunk is the K of one instruction, fraction the bits that its sums keep below the largest term.
const (
	chunk    = 32
	fraction = 13
)

// tensorCore adds an instruction's products to a sum.
func tensorCore(sum float64, products []float64) float64 {
	_, most := math.Frexp(sum)
	for _, x := range products {
		if _, e := math.Frexp(x); x != 0 && (sum == 0 || e > most) {
			most = e
			if sum == 0 {
				sum = math.Copysign(0, x)
			}
		}
	}
	unit := math.Ldexp(1, most-1-fraction)
	out := math.Trunc(sum / unit)
	for _, x := range products {
		out += math.Trunc(x / unit)
	}
	return out * unit
}

func (g *hostScaled) Bind(q Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	f, of := g.fault, ActivationScales{}
	of, _ = q.ActivationScales()
	raw, at, groups := w.(hostWeights).Buffer.(*hostBuffer).mem, q.Raw(), of.Groups
	blocks := ceilDiv(q.N, q.Weights.GroupN)
	base := a.Buffer.(*hostBuffer).mem[a.Offset:]
	number := func(mem []byte, i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(mem[4*i:])))
	}
	scaleA := func(i, g int) float64 {
		switch {
		case f.late && g > 0:
			g--
		case f.lateRow && i > 0:
			i--
		case f.transposedA:
			return number(base[of.At:], i*groups+g)
		case f.tightA:
			return number(base[of.At:], g*q.M+i)
		}
		return number(base[of.At:], g*of.LD+i)
	}
	scaleB := func(j, g int) float64 {
		j /= q.Weights.GroupN
		switch {
		case f.onlyA:
			return 1
		case f.neighbor && j > 0:
			j--
		case f.transposedB:
			return number(raw[at.Scales:], g*blocks+j)
		}
		return number(raw[at.Scales:], j*groups+g)
	}
	return hostLaunch(func() error {
		if f.writesScales {
			base[of.At] ^= 1
		}
		for i := range q.M {
			for j := range q.N {
				sum := float32(0)
				if f.pastScales {
					sum += float32(number(base[of.At:], of.Extent(q.M))) * 0
				}
				for g := range groups {
					if f.keepsGroup && g == groups-1 && g > 0 {
						continue
					}
					part, scale := 0.0, scaleA(i, g)*scaleB(j, g)
					for k0 := g * of.Group; k0 < min(q.K, (g+1)*of.Group); k0 += chunk {
						products := make([]float64, min(chunk, q.K-k0, (g+1)*of.Group-k0))
						for k := range products {
							products[k] = e4m3Values[base[i*q.LDA+k0+k]] * e4m3Values[raw[j*q.K+k0+k]]
						}
						if f.noPromotion { // in one register, as if it were scaled there
							for k := range products {
								products[k] *= scale
							}
							sum = float32(tensorCore(float64(sum), products))
							continue
						}
						if part = tensorCore(part, products); (k0/chunk)%4 == 3 || of.Group <= 128 {
							continue
						}
						sum, part = sum+float32(part*scale), 0
					}
					if sum += float32(part * scale); f.halfSums {
						sum = float32(roundTo(BF16, float64(sum)))
					}
				}
				c.put(BF16, i*q.LDC+j, float64(sum))
			}
		}
		return nil
	}), nil
}

func smallScaled() (out []Task) {
	for _, q := range QuantizedCheckProblems(FP8) {
		if q.M*q.N*q.K < 8_000_000 {
			out = append(out, q)
		}
	}
	return out
}

func TestGatePassesScaled(t *testing.T) {
	most := 0.0
	for i, q := range smallScaled() {
		if testing.Short() && i%3 != 0 {
			continue
		}
		check, err := NewGemmCheck(q, 1)
		if err != nil {
			t.Fatal(err)
		}
		margin, err := check.Margin(t.Context(), &hostDevice{}, &hostScaled{})
		if err != nil {
			t.Error(err)
		}
		most = max(most, margin)
	}
	if most == 0 || most > 0.5 {
		t.Errorf("a right kernel uses %.2f of the bound", most)
	}
}

func TestGateShowsFaultsOfScales(t *testing.T) {
	for name, f := range map[string]scaledFault{
		"the scale of the group before": {late: true}, "the scale of the row before": {lateRow: true},
		"the scale of the neighboring block": {neighbor: true},
		"transposed scales of A":             {transposedA: true},
		"tight scales of A":                  {tightA: true}, "transposed scales of B": {transposedB: true},
		"no promotion": {noPromotion: true}, "no scales of B": {onlyA: true}, "sums in bf16": {halfSums: true},
		"the last group left out": {keepsGroup: true}, "writes scales": {writesScales: true}, "reads past the scales": {pastScales: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, q := range smallScaled() {
				if f.noPromotion != (q.K >= promotedFrom) { // this one must show
					continue
				}
				check, err := NewGemmCheck(q, 1)
				if err != nil {
					t.Fatal(err)
				}
				_, err = check.Margin(t.Context(), &hostDevice{}, &hostScaled{fault: f})
				var wrong *CheckError
				if errors.As(err, &wrong) {
					if f.noPromotion && wrong.Check != CheckOneSign {
						t.Logf("shown by %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Error("the gate passes it")
		})
	}
}
