package kernels

// Choice is what a kernel would launch for a problem, told without running it. What is not
// known is zero.
type Choice struct {
	// Label names the kernel exactly as [Launch].Label would, once the launch has run.
	Label string `json:"label"`
	// Tiling is what [TilingTeller] would tell of the launch.
	Tiling
	// Stages is how many steps along K are in flight at the same time.
	Stages int `json:"stages,omitempty"`
	// Cluster is the shape of a cluster in blocks of the launch's grid: zeros for none.
	Cluster [3]int `json:"cluster,omitzero"`
	// Slots is how many tiles the device computes at the same time.
	Slots float64 `json:"slots,omitempty"`
	// Grid is the shape of the launch in blocks.
	Grid [3]int `json:"grid,omitzero"`
	// Algorithm is what the library is to be told to launch this whatever its heuristic says.
	Algorithm Algorithm `json:"algorithm,omitzero"`
}

// Sides says how the tile of a choice for m by n lies in C, by how many blocks are launched: 1
// where its first side lies along M, as it is told, -1 where that is its second side, and 0
// where the blocks don't tell. Kernels whose blocks walk over the tiles launch fewer.
func (c Choice) Sides(m, n int) int {
	blocks := c.Grid[0] * c.Grid[1] * c.Grid[2]
	if blocks < 1 || !c.Tiled() {
		return 0
	}
	told, turned := c.covers(c.Tile[0], c.Tile[1], m, n, blocks), c.covers(c.Tile[1], c.Tile[0], m, n, blocks)
	switch {
	case told && !turned:
		return 1
	case turned && !told:
		return -1
	}
	return 0
}

// covers says whether so many blocks cover m by n with tiles of a by b: a block for each tile,
// or for each part along K of it, whole clusters of them.
func (c Choice) covers(a, b, m, n, blocks int) bool {
	tiles := (m + a - 1) / a * ((n + b - 1) / b)
	if c.Split > 1 { // how many parts is mostly not told
		return blocks > tiles && blocks%tiles == 0 && blocks/tiles <= mostParts
	}
	cluster := max(1, c.Cluster[0]*c.Cluster[1]*c.Cluster[2])
	return blocks == tiles || blocks == (tiles+cluster-1)/cluster*cluster
}

// mostParts is more parts along K than libraries make.
const mostParts = 64

// Untold is the error of an implementation that has no way of saying what it would run.
type Untold struct{ Kernel string }

func (e *Untold) Error() string {
	return "kernel " + e.Kernel + " has no interface that tells what it would run"
}

// ChoiceOf is what an implementation would run for a task. The error is an [*Unsupported]
// where the task is not supported, an [*Untold] where the implementation can't be asked, and
// else says why nothing can be told.
func ChoiceOf(i Implementation, t Task) (Choice, error) {
	p, ok := i.(product)
	if !ok {
		return Choice{}, &Untold{i.Name()}
	}
	teller, ok := p.Gemm.(ChoiceTeller)
	if !ok || t.Products > 0 {
		return Choice{}, &Untold{i.Name()}
	}
	if t.Weights != (WeightFormat{}) || t.Output != "" || t.Accumulator != "" {
		if err := p.Supports(t); err != nil {
			return Choice{}, err
		}
		return Choice{}, &Untold{i.Name()}
	}
	return teller.Choice(t.problem())
}

// Tellers are up to n implementations that tell what i does, the first being i itself, and that
// goroutines can ask at once, each by one of them: see [ManyTellers].
func Tellers(i Implementation, n int) ([]Implementation, error) {
	p, ok := i.(product)
	if !ok {
		return []Implementation{i}, nil
	}
	many, ok := p.Gemm.(ManyTellers)
	if !ok {
		return []Implementation{i}, nil
	}
	tellers, err := many.Tellers(n)
	if err != nil {
		return nil, err
	}
	out := make([]Implementation, len(tellers))
	for k, t := range tellers {
		out[k] = product{t}
	}
	return out, nil
}
