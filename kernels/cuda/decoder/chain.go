package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Constants of fused_chain.cu.
const (
	chainWarps   = 32
	chainRoom    = 108 << 10                 // bytes of the rings, at most
	chainSlot    = chainWarps * (16 + 1) * 4 // bytes of the sums of 16 rows
	chainMost    = 4                         // products
	chainProduct = 80                        // bytes of struct FusedParams
)

// chain is several products of one row in one launch.
type chain struct {
	products []kernels.FusedProduct
	formats  []kernels.WeightFormat
	at       []fusedAddresses
}

// chainBlocks is at most one on each multiprocessor, because they wait for each other, and a multiple of the times that a record
// has 16 rows.
func chainBlocks(a planning.Arch) int {
	const perRecord = support.RecordRows / quantizedRows
	return a.SMs / perRecord * perRecord
}

// chainRounds returns how many times 16 rows of a product all blocks have, and how many blocks have them once more; of a gated
// unit, pairs.
func chainRounds(a planning.Arch, p kernels.FusedProduct) (all, more int) {
	n := planning.DivideUp(p.N, quantizedRows)
	if p.Gated {
		n /= 2
	}
	return n / chainBlocks(a), n % chainBlocks(a)
}

// most is how many times 16 rows of one product a block has.
func (c chain) most(a planning.Arch) (most int) {
	for _, p := range c.products {
		n, more := chainRounds(a, p)
		if more > 0 {
			n++
		}
		if p.Gated {
			n *= 2
		}
		most = max(most, n)
	}
	return most
}

// row is the bytes of the longest row, in whole steps.
func (c chain) row() (row int) {
	for _, p := range c.products {
		row = max(row, quantizedLDB(p)*p.DType.Size())
	}
	return row
}

func (c chain) shared(a planning.Arch) int {
	rings := quantizedRings(c.products[0], c.formats[0], chainWarps, chainRoom)
	return rings + c.row() + c.most(a)*(chainSlot+quantizedRows*4) + chainWarps*4
}

// reason is why the products, each of which has a fused kernel, have none together; empty if they do.
func (c chain) reason(a planning.Arch) string {
	if len(c.products) < 2 || len(c.products) > chainMost {
		return fmt.Sprintf("chains are of 2 to %d products, not %d", chainMost, len(c.products))
	}
	name := quantizedName(c.products[0], c.formats[0])
	for i, p := range c.products {
		f := c.formats[i]
		if f.Bits != 4 {
			return "chains are of products with weights of 4 bits"
		}
		switch group := support.RecordGroup(f.GroupK, p.K); {
		case group < 64:
			return fmt.Sprintf("chains have groups of 64 or 128, not %d", group)
		case quantizedName(p, f) != name:
			return fmt.Sprintf("weights of a chain are %s, then %s", name, quantizedName(p, f))
		case p.Gated && p.N/2%support.RecordRows != 0:
			return fmt.Sprintf("the up rows of a gated unit in a chain begin at a multiple of %d, not at %d", support.RecordRows, p.N/2)
		}
	}
	if need := c.shared(a); need > a.SharedMax {
		return fmt.Sprintf("a chain takes %d bytes of shared memory, a block has %d", need, a.SharedMax)
	}
	return ""
}

// call returns the launch of a chain without a reason against it. words are zero between launches.
func (c chain) call(a planning.Arch, words uint64) planning.Call {
	k := planning.Call{
		Kernel: "ga_chain_" + quantizedName(c.products[0], c.formats[0]),
		Grid:   planning.Dim3{X: chainBlocks(a)}, Block: planning.Dim3{X: 32 * chainWarps},
		Shared: c.shared(a), Overlap: true, Cooperative: true,
	}
	for i, p := range c.products {
		all, more := chainRounds(a, p)
		args := fusedArgs(p, c.at[i], ring{stages: all, early: more})
		k.Args.Bytes = append(k.Args.Bytes, args.Bytes...)
		k.Args.Align(8)
	}
	k.Args.Bytes = append(k.Args.Bytes, make([]byte, chainProduct*(chainMost-len(c.products)))...)
	k.Args.Int32(len(c.products), c.most(a), c.row()).Pointer(words)
	return k
}
