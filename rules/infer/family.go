package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The rows of a series that one kernel runs are a family, wherever they lie in M. Their time at the common
// clock follows one line in the kernel's work. Residuals are alike for rows near each other, so a measured
// row improves the prediction of its neighbors.

// terms is the number of terms of a family's line: a constant, waves rounded up, tiles, and M. They include
// the memory floor: a product's bytes are a constant and a share of M.
const terms = 4

// The terms by position.
const (
	termLaunch = iota
	termWaves
	termTiles
	termRows
)

// FamilyKind is what the rows of one family share: the kernel, and where that is not enough, a range of M.
type FamilyKind struct {
	// Label, Tile and what follows are the launch's; see [results.LaunchKind].
	Label       string
	Tile        [3]int
	stages      int
	split       int
	cluster     [3]int
	orientation string
	// OwnM is the M of a row without a family. piece is the number of the stretch of a series whose kernels
	// are unknown. octave is the octave of M if the tile is unknown: time is then a line in M alone, at most
	// piecewise.
	OwnM, piece, octave int
}

func familyOf(k results.LaunchKind) FamilyKind {
	return FamilyKind{
		Label: kernels.KernelOf(k.Label), Tile: k.Tile, stages: k.Stages, split: k.Split, cluster: k.Cluster,
		orientation: k.Orientation,
	}
}

// AlikeLabels reports whether two labels name the same kernel, as far as each of them tells.
func AlikeLabels(a, b string) bool { return kernels.KernelOf(a) == kernels.KernelOf(b) }

// FamilyRow is one M of a family.
type FamilyRow struct {
	M    int
	kind *results.LaunchKind // shared by many rows, and not changed
	// Point is the row's index in the curve, -1 if it was not measured.
	Point int
	// check is true for a row that is measured to check the family's line, other for a row that ran another
	// kernel than guessed.
	check, Other bool
}

// Family is the rows of a series that one kernel runs, ascending in M.
type Family struct {
	Kind FamilyKind
	Rows []FamilyRow
	// n is the series' N. units is how many tiles the device computes at the same time if the kind does not
	// give it; 0 for unknown.
	n     int
	units float64
}

// layout is the assumed layout of a family's tiles if its kind leaves that open.
type layout struct {
	turned bool    // the first side of the tile lies along N
	slots  float64 // tiles at the same time, if the kind does not give it
	// padded is the number of tiles of a cluster along M and N, zeros for single tiles. A cluster that is
	// partly outside of C takes as many slots as any other. A library reports the cluster's shape among the
	// blocks of a launch, not in C.
	padded [2]int
}

func (f *Family) layouts() []layout {
	if f.Kind.Tile[0] == 0 || f.Kind.Tile[1] == 0 {
		return []layout{{}}
	}
	slots := []float64{f.units}
	if f.units > 0 && slices.ContainsFunc(f.Rows, func(r FamilyRow) bool { return r.kind.Slots <= 0 }) {
		slots = append(slots, 2*f.units)
	}
	padded := [][2]int{{}}
	if blocks := f.Kind.cluster[0] * f.Kind.cluster[1] * f.Kind.cluster[2]; blocks > 1 {
		padded = append(padded, [2]int{blocks, 1}, [2]int{1, blocks})
	}
	var out []layout
	for _, s := range slots {
		for _, p := range padded {
			out = append(out, layout{slots: s, padded: p})
			if f.Kind.orientation == kernels.OrientationUnknown && f.Kind.Tile[0] != f.Kind.Tile[1] {
				out = append(out, layout{true, s, p})
			}
		}
	}
	return out
}

// terms are the values that a row's time is a linear combination of.
func (f *Family) terms(r FamilyRow, l layout) (x [terms]float64) {
	x[termLaunch], x[termRows] = 1, float64(r.M)
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
		clusters := float64(wide.Tiles(r.M, f.n) * max(1, l.padded[0]) * max(1, l.padded[1]))
		x[termWaves] = math.Ceil(clusters/slots - 1e-6)
	}
	x[termTiles] = float64(kind.Tiles(r.M, f.n))
	return x
}

func (f *Family) measured() int {
	n := 0
	for _, r := range f.Rows {
		if r.Point >= 0 {
			n++
		}
	}
	return n
}

// combine finds the factors of the terms, all at least 0, by weighted least squares on the relative error.
// With so few terms it tries all subsets. x are terms ÷ time.
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
		// Σ w (Σ b x − 1)²; another term must be worth its price.
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
	// ridge separates collinear terms; its bias is below rounding.
	ridge = 1e-9
	// termPrice is the squared relative error that a term must save: (0.01 %)².
	termPrice = 1e-8
)

// mostSystem is the size of the largest system of equations.
const mostSystem = 2 * nearRows

// matrix is symmetric positive definite; factor turns it into a lower triangle.
type matrix [mostSystem][mostSystem]float64

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
