package kernels

// Choice describes the kernel launched for a problem, known without running it. Unknown fields are zero.
type Choice struct {
	// Label equals [Launch].Label after the launch.
	Label string `json:"label"`
	// Tiling is what [TilingTeller] returns for the launch.
	Tiling
	// Stages is the number of K steps in flight at once.
	Stages int `json:"stages,omitempty"`
	// Cluster is the cluster shape in blocks; zero if none.
	Cluster [3]int `json:"cluster,omitzero"`
	// Slots is the number of tiles that run at once on the device.
	Slots float64 `json:"slots,omitempty"`
	// Grid is the launch grid in blocks.
	Grid [3]int `json:"grid,omitzero"`
	// Algorithm makes the library launch this kernel regardless of its heuristic.
	Algorithm Algorithm `json:"algorithm,omitzero"`
}

// Sides infers the tile's orientation in an m by n output from the number of blocks: 1 if its first side lies
// along M, as reported, -1 if the second does, 0 if unknown. Persistent kernels launch fewer blocks.
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

// covers reports whether blocks blocks cover m by n with a by b tiles: one block per tile, or per split of K,
// in whole clusters.
func (c Choice) covers(a, b, m, n, blocks int) bool {
	tiles := (m + a - 1) / a * ((n + b - 1) / b)
	if c.Split > 1 { // usually the number of splits is unknown
		return blocks > tiles && blocks%tiles == 0 && blocks/tiles <= mostParts
	}
	cluster := max(1, c.Cluster[0]*c.Cluster[1]*c.Cluster[2])
	return blocks == tiles || blocks == (tiles+cluster-1)/cluster*cluster
}

const mostParts = 64

// Untold is the error of an implementation that can't report its choice.
type Untold struct{ Kernel string }

func (e *Untold) Error() string {
	return "kernel " + e.Kernel + " has no interface to report its kernels"
}

// ChoiceOf returns what a kernel would run for a task. The error is an [*Unsupported] if it refuses the task,
// an [*Untold] if it can't report its choice, or says why the choice is unknown.
func ChoiceOf(k Kernel, t Task) (Choice, error) {
	teller, ok := k.(ChoiceTeller)
	if !ok || t.Products > 0 {
		return Choice{}, &Untold{k.Name()}
	}
	if t.Quantized() {
		if err := k.Supports(t); err != nil {
			return Choice{}, err
		}
		return Choice{}, &Untold{k.Name()}
	}
	return teller.Choice(t)
}

// Tellers returns up to n kernels, k first, that report k's choices and may be used concurrently, one goroutine
// each: see [ManyTellers].
func Tellers(k Kernel, n int) ([]Kernel, error) {
	if many, ok := k.(ManyTellers); ok {
		return many.Tellers(n)
	}
	return []Kernel{k}, nil
}
