package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Rows of a series that one kernel runs, wherever they lie in M, are a family: their time at
// the common clock follows one line in what the kernel does for them. What the line leaves is
// alike for rows that lie near each other, so that a measured row tells something of its
// neighbours beyond the line.

// terms is how many there are of a family's line: a constant, waves rounded up, tiles, and M.
// Memory's floor is in them: a product's bytes are a constant and a share of M.
const terms = 4

// The terms by position.
const (
	termLaunch = iota
	termWaves
	termTiles
	termRows
)

// familyKind is what the rows of a family have in common.
type familyKind struct {
	label       string
	tile        [3]int
	stages      int
	split       int
	cluster     [3]int
	orientation string
	// ownM is the M of a row that is of no family, piece the number of the stretch of a
	// series of which no kernel is known, and octave that of M where no tile is: time is a line
	// in M alone, if at all, over some stretch of it.
	ownM, piece, octave int
}

// familyOf is the family of a kind.
func familyOf(k results.LaunchKind) familyKind {
	return familyKind{
		label: kernels.KernelOf(k.Label), tile: k.Tile, stages: k.Stages, split: k.Split, cluster: k.Cluster,
		orientation: k.Orientation,
	}
}

// alikeLabels says whether two labels are of one kernel with the same tile.
func alikeLabels(a, b string) bool { return kernels.KernelOf(a) == kernels.KernelOf(b) }

// familyRow is an M that was asked for, with what would run.
type familyRow struct {
	m    int
	kind *results.LaunchKind // shared by many rows, and not changed
	// point is where the curve has the row, -1 where it was not measured.
	point int
	// check is true for a row that is measured to hold the family's line against it, other for
	// one that turned out to run another kernel than was guessed.
	check, other bool
}

// family is the rows of one kernel, M ascending.
type family struct {
	kind familyKind
	rows []familyRow
	// n is that of the series and units how many tiles the device computes at the same time
	// where the kind does not tell; 0 for unknown.
	n     int
	units float64
}

// layout is how the tiles of a family are taken to lie where its kind leaves that open.
type layout struct {
	turned bool    // the first side of the tile lies along N
	slots  float64 // tiles at the same time, where the kind does not tell
	// padded is of how many tiles along M and N a cluster is made up, zeros for single tiles: a
	// cluster of which tiles lie outside of C takes as many slots as any. What a library tells
	// of a cluster is its shape among the blocks of a launch, not how they lie in C.
	padded [2]int
}

// layouts are those that a family may have, the most likely first.
func (f *family) layouts() []layout {
	if f.kind.tile[0] == 0 || f.kind.tile[1] == 0 {
		return []layout{{}}
	}
	slots := []float64{f.units}
	if f.units > 0 && slices.ContainsFunc(f.rows, func(r familyRow) bool { return r.kind.Slots <= 0 }) {
		slots = append(slots, 2*f.units)
	}
	padded := [][2]int{{}}
	if blocks := f.kind.cluster[0] * f.kind.cluster[1] * f.kind.cluster[2]; blocks > 1 {
		padded = append(padded, [2]int{blocks, 1}, [2]int{1, blocks})
	}
	var out []layout
	for _, s := range slots {
		for _, p := range padded {
			out = append(out, layout{slots: s, padded: p})
			if f.kind.orientation == kernels.OrientationUnknown && f.kind.tile[0] != f.kind.tile[1] {
				out = append(out, layout{true, s, p})
			}
		}
	}
	return out
}

// terms are what a row's time is a combination of.
func (f *family) terms(r familyRow, l layout) (x [terms]float64) {
	x[termLaunch], x[termRows] = 1, float64(r.m)
	kind := *r.kind
	if l.turned {
		kind.Tile[0], kind.Tile[1] = kind.Tile[1], kind.Tile[0]
	}
	slots := kind.Slots
	if slots <= 0 {
		slots = l.slots
	}
	if slots > 0 {
		wide := kind // as if a cluster were one tile
		for i, n := range l.padded {
			wide.Tile[i] *= max(1, n)
		}
		clusters := float64(wide.Tiles(r.m, f.n) * max(1, l.padded[0]) * max(1, l.padded[1]))
		x[termWaves] = math.Ceil(clusters/slots - 1e-6)
	}
	x[termTiles] = float64(kind.Tiles(r.m, f.n))
	return x
}

// measured counts the rows of the family that are points of the curve.
func (f *family) measured() int {
	n := 0
	for _, r := range f.rows {
		if r.point >= 0 {
			n++
		}
	}
	return n
}

// combine finds the combination of terms without negative factors that comes nearest to
// one for every row, by weighted least squares: with so few terms all subsets are tried. x are
// terms ÷ time.
func combine(x [][terms]float64, weight []float64) (best [terms]float64) {
	var top [terms]float64
	for _, row := range x {
		for j, v := range row {
			top[j] = math.Max(top[j], v)
		}
	}
	var normal [terms][terms]float64
	var right [terms]float64
	var total float64
	for i, row := range x {
		w := weight[i]
		total += w
		for j := range terms {
			if top[j] == 0 {
				continue
			}
			right[j] += w * row[j] / top[j]
			for k := range terms {
				if top[k] > 0 {
					normal[j][k] += w * row[j] / top[j] * row[k] / top[k]
				}
			}
		}
	}
	least := math.Inf(1)
	for subset := 1; subset < 1<<terms; subset++ {
		var at []int
		for j := range terms {
			if subset>>j&1 == 1 {
				at = append(at, j)
			}
		}
		if slices.ContainsFunc(at, func(j int) bool { return top[j] == 0 }) {
			continue
		}
		var a matrix
		b := make([]float64, len(at))
		for p, j := range at {
			b[p] = right[j]
			for q, k := range at {
				a[p][q] = normal[j][k]
			}
			a[p][p] += ridge * normal[j][j]
		}
		if !a.factor(len(at)) {
			continue
		}
		a.solve(b)
		if slices.ContainsFunc(b, func(v float64) bool { return v < 0 || math.IsNaN(v) }) {
			continue
		}
		// Σ w (Σ b x − 1)²; a term more has to be worth it.
		rest := total
		for p, j := range at {
			rest -= 2 * b[p] * right[j]
			for q, k := range at {
				rest += b[p] * b[q] * normal[j][k]
			}
		}
		if rest = math.Max(rest, 0) + termPrice*total*float64(len(at)); rest < least {
			least, best = rest, [terms]float64{}
			for p, j := range at {
				best[j] = b[p] / top[j]
			}
		}
	}
	return best
}

const (
	// ridge keeps terms that say the same apart; it biases by less than rounding.
	ridge = 1e-9
	// termPrice is the squared relative error that a term has to save: (0.01 %)².
	termPrice = 1e-8
)

// mostSystem is the size of the largest system of equations that is solved here.
const mostSystem = 2 * nearRows

// matrix is a symmetric positive definite one, of which factor makes a lower triangle.
type matrix [mostSystem][mostSystem]float64

// factor is Cholesky's; false where the matrix has no such factor.
func (a *matrix) factor(n int) bool {
	for i := range n {
		for j := range i + 1 {
			sum := a[i][j]
			for k := range j {
				sum -= a[i][k] * a[j][k]
			}
			if i != j {
				a[i][j] = sum / a[j][j]
				continue
			}
			if !(sum > 0) {
				return false
			}
			a[i][i] = math.Sqrt(sum)
		}
	}
	return true
}

// solve puts the solution in the place of the right side.
func (a *matrix) solve(b []float64) {
	n := len(b)
	for i := range n {
		for k := range i {
			b[i] -= a[i][k] * b[k]
		}
		b[i] /= a[i][i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			b[i] -= a[k][i] * b[k]
		}
		b[i] /= a[i][i]
	}
}
