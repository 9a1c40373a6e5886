package decoder

import (
	"errors"
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Constants of experts.cu.
const (
	expertChoiceThreads = 512
	mostExperts         = 32
)

// Layout of [kernels.FusedExperts].Choice: the addresses of all experts' weights, then struct Chosen of chosen.cuh.
const (
	expertTableBytes = 16 // of an expert
	chosenBytes      = 24
)

// expertRole is the product of the chosen experts: that of their units or of their outputs.
type expertRole struct {
	name  string // of the kernels
	count int    // chosen experts
	// sideBySide is the number of experts whose rows make one product.
	sideBySide int
}

func unitRole(topK int) expertRole   { return expertRole{"units", topK, topK} }
func outputRole(topK int) expertRole { return expertRole{"outputs", topK, 1} }

// expertProducts returns both products of one expert.
func expertProducts(o kernels.FusedExperts) (units, outputs kernels.FusedProduct) {
	return kernels.FusedProduct{N: 2 * o.Inner, K: o.Hidden, DType: o.DType, Norm: true, Epsilon: o.Epsilon, Gated: true, X: o.X,
			Weight: o.Weight},
		kernels.FusedProduct{N: o.Hidden, K: o.Inner, DType: o.DType, Add: true, X: o.X}
}

// checkExperts returns an error for invalid sizes, and a [*kernels.Unsupported] for valid ones that have no fused kernels.
// format is zero for plain weights.
func checkExperts(a planning.Arch, o kernels.FusedExperts, format [2]kernels.WeightFormat) error {
	experts := len(o.Units)
	if err := checkSizes(namedSize{"hidden", o.Hidden}, namedSize{"inner", o.Inner}, namedSize{"experts", experts},
		namedSize{"experts per row", o.TopK}); err != nil {
		return err
	}
	if o.TopK > experts {
		return fmt.Errorf("%d experts per row of %d", o.TopK, experts)
	}
	if err := errors.Join(checkPairs(o), checkEpsilon(o.Epsilon)); err != nil {
		return err
	}
	reason := ""
	if experts > mostExperts {
		reason = fmt.Sprintf("a choice is among at most %d experts, not %d", mostExperts, experts)
	}
	units, outputs := expertProducts(o)
	for i, p := range []kernels.FusedProduct{units, outputs} {
		role := []expertRole{unitRole(o.TopK), outputRole(o.TopK)}[i]
		switch {
		case reason != "":
		case float64(p.N)*float64(role.sideBySide) > math.MaxInt32/2:
			reason = fmt.Sprintf("%d experts with %d rows are too many", role.sideBySide, p.N)
		case format[i] == (kernels.WeightFormat{}):
			reason = fusedReason(a, p)
		default:
			if reason = quantizedReason(a, p, format[i]); reason == "" {
				reason = role.quantizedReason(a, p, format[i])
			}
		}
	}
	if reason != "" {
		return notFused{&kernels.Unsupported{Kernel: "fuse experts", DType: o.DType, Reason: reason}}
	}
	return nil
}

func checkPairs(o kernels.FusedExperts) error {
	if len(o.Units) == len(o.Outputs) {
		return nil
	}
	return fmt.Errorf("weights of %d units and %d outputs: expected as many", len(o.Units), len(o.Outputs))
}

// quantizedReason limits the format, and the rows of outputs: sums of all experts stay in shared memory.
func (e expertRole) quantizedReason(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat) string {
	if f.Bits != 4 {
		return fmt.Sprintf("experts have weights of 4 bits, not %d", f.Bits)
	}
	if e.sideBySide > 1 || e.count == 1 {
		return ""
	}
	c, _ := quantizedPlan(a, p, f, fusedAddresses{})
	if most := c.Grid.X * quantizedBatch * quantizedRows; p.N > most {
		return fmt.Sprintf("outputs of %d experts have at most %d rows, not %d", e.count, most, p.N)
	}
	return ""
}

// plan returns the launch of a product for addresses of one expert, and its label. chosen is the address of the choice.
func (e expertRole) plan(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses,
	chosen uint64) (c planning.Call, label string) {
	if f != (kernels.WeightFormat{}) {
		return e.quantizedPlan(a, p, f, at, chosen)
	}
	if r, ok := ringFor(a, p); ok {
		return e.ringCall(a, p, at, chosen, r), fmt.Sprintf("%d experts, ring of %d stages", e.count, r.stages)
	}
	return e.call(a, p, at, chosen), fmt.Sprintf("%d experts, %d warps", e.count, fusedWarps(a, p))
}

func (e expertRole) ringCall(a planning.Arch, p kernels.FusedProduct, at fusedAddresses, chosen uint64, r ring) planning.Call {
	c := r.call(a, p, at)
	c.Grid.X = min(r.blocks*a.SMs, ringPairs(p)*e.sideBySide)
	if p.Gated {
		c.Grid.X = min(r.blocks*a.SMs, p.N/2*e.sideBySide)
	}
	return e.chosen(c, fmt.Sprintf("ga_%s_ring_%s", e.name, p.DType), chosen)
}

func (e expertRole) call(a planning.Arch, p kernels.FusedProduct, at fusedAddresses, chosen uint64) planning.Call {
	c := fusedCall(a, p, at)
	c.Grid.X *= e.sideBySide
	return e.chosen(c, fmt.Sprintf("ga_%s_%s", e.name, p.DType), chosen)
}

func (e expertRole) quantizedPlan(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses,
	chosen uint64) (planning.Call, string) {
	c, _ := quantizedPlan(a, p, f, at)
	units := planning.DivideUp(p.N, quantizedRows) * e.sideBySide
	if p.Gated {
		units /= 2
	}
	c.Grid.X = min(quantizedResident(a, p, f)*a.SMs, units)
	kernel := fmt.Sprintf("ga_%s_%s", e.name, quantizedName(p, f))
	return e.chosen(c, kernel, chosen), fmt.Sprintf("%d experts, %d blocks of %v", e.count, c.Grid.X, f)
}

// chosen completes struct ExpertParams.
func (e expertRole) chosen(c planning.Call, kernel string, at uint64) planning.Call {
	c.Kernel = kernel
	c.Args.Pointer(at).Int32(e.count)
	return c
}

// expertAddresses are the operands of an expert choice.
type expertAddresses struct {
	x, weight, router, choice uint64
	ldb                       int // of the router
}

func (at expertAddresses) chosen(experts int) uint64 {
	return at.choice + uint64(expertTableBytes*experts)
}

func expertChoiceCall(a planning.Arch, o kernels.FusedExperts, at expertAddresses) planning.Call {
	experts := len(o.Units)
	warps := planning.DivideUp(planning.DivideUp(o.Hidden, pieceOf(o.DType)), 32)
	c := planning.Call{Kernel: "ga_expert_choice_" + string(o.DType), Grid: planning.Dim3{X: 1},
		Block: planning.Dim3{X: min(32*max(warps, 2), expertChoiceThreads)}}
	c.Args.Pointer(at.x).Pointer(at.weight).Pointer(at.router).Pointer(at.choice).Pointer(at.chosen(experts)).Int64(int64(at.ldb))
	c.Args.Float32(o.Epsilon).Int32(o.Hidden, experts, o.TopK)
	return overlapping(a, c)
}

// choiceReason is the reason why the choice can't read operands at these addresses, empty if it can.
func choiceReason(o kernels.FusedExperts, at expertAddresses) string {
	if wholeIf(o.DType, o.Hidden, at.x, at.weight) == 1 {
		return ""
	}
	return fmt.Sprintf("the choice reads pieces of 16 bytes: hidden is %d, X at %#x, the norm's weight at %#x", o.Hidden, at.x, at.weight)
}

func expertRowsCall(a planning.Arch, o kernels.ExpertRows, at transformerAddresses) (planning.Call, error) {
	if err := checkSizes(namedSize{"rows", o.Count}, namedSize{"columns", o.Columns},
		namedSize{"rows to copy from", o.FromRows}); err != nil {
		return planning.Call{}, err
	}
	if err := transformerType(a, "copy of rows", o.DType); err != nil {
		return planning.Call{}, err
	}
	pieces := planning.DivideUp(o.Columns, pieceOf(o.DType))
	items := int64(pieces) * int64(o.Count)
	c, err := itemCall("ga_expert_rows_"+string(o.DType), items)
	c.Args.Pointer(at.x).Pointer(at.out).Pointer(at.tokens).Int64(items)
	c.Args.Int32(o.Columns, pieces, wholeIf(o.DType, o.Columns, at.x, at.out))
	return overlapping(a, c), err
}

func expertSumsCall(a planning.Arch, o kernels.ExpertSums, at transformerAddresses) (planning.Call, error) {
	if err := checkSizes(namedSize{"rows", o.Count}, namedSize{"columns", o.Columns}, namedSize{"experts per row", o.TopK}); err != nil {
		return planning.Call{}, err
	}
	if float64(o.Count)*float64(o.TopK) > planning.LargestExtent {
		return planning.Call{}, fmt.Errorf("%d rows of %d experts are too many", o.Count, o.TopK)
	}
	if err := transformerType(a, "sum of rows", o.DType); err != nil {
		return planning.Call{}, err
	}
	pieces := planning.DivideUp(o.Columns, pieceOf(o.DType))
	items := int64(pieces) * int64(o.Count)
	c, err := itemCall("ga_expert_sums_"+string(o.DType), items)
	c.Args.Pointer(at.x).Pointer(at.out).Pointer(at.tokens).Pointer(at.weight).Int64(items)
	c.Args.Int32(o.Columns, o.TopK, pieces, wholeIf(o.DType, o.Columns, at.x, at.out))
	return overlapping(a, c), err
}
