package reach

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Goal is the target over a range of M: the geometric mean of the peer's time ÷ ours, at the common clock and
// observed, and the lowest upper bound of a product. Zero means no target.
type Goal struct {
	From, To       int
	Geomean, Worst float64
}

// Goals are the targets for 16-bit types and for 8-bit types.
type Goals struct{ Halves, Bytes []Goal }

// GoalsOf returns the targets for a card. Other cards have the same ranges without targets.
func GoalsOf(card string) Goals {
	goals := func(eight Goal, geomeans, worst [3]float64) Goals {
		return Goals{Bytes: []Goal{eight},
			Halves: []Goal{{1, 16, geomeans[0], worst[0]}, {17, 511, geomeans[1], worst[1]}, {512, mostM, geomeans[2], worst[2]}}}
	}
	eight := Goal{1024, 16384, 1.00, 0.96}
	switch {
	case strings.Contains(card, "H200"):
		return goals(eight, [3]float64{1.12, 1.08, 1.02}, [3]float64{1.03, 0.98, 0.97})
	case strings.Contains(card, "H100"):
		return goals(eight, [3]float64{1.10, 1.06, 1.01}, [3]float64{0.97, 0.97, 0.97})
	}
	return goals(Goal{From: eight.From, To: eight.To}, [3]float64{}, [3]float64{})
}

// Line is a line of the table: the products of a type, a set and a range of M.
type Line struct {
	DType             kernels.DType
	Set               Set
	Against           string // which series are compared
	Goal              Goal
	Decides           bool
	Cells             []Cell // the worst first, without excused ones
	Excused           int
	Count             int
	Samples           [2]int // minimum and median per cell
	Common, Observed  float64
	MetMean, MetWorst bool
}

// Worst returns the cell with the lowest upper bound; ok is false without cells.
func (l Line) Worst() (c Cell, ok bool) {
	if len(l.Cells) == 0 {
		return Cell{}, false
	}
	return l.Cells[0], true
}

type comparison struct {
	against string
	ours    Series
	peers   []Series
	types   []kernels.DType
	decides bool
}

func comparisons() []comparison {
	halves := []kernels.DType{kernels.BF16, kernels.FP16}
	return []comparison{
		{"nk", Auto, []Series{Blas, BlasLt}, halves, true},
		{"cublaslt", Auto, []Series{BlasLt}, []kernels.DType{kernels.INT8}, true},
		{"cublaslt fast", Auto, []Series{BlasLtFP8}, []kernels.DType{kernels.FP8}, true},
		{"kn", Auto, []Series{BlasKN, BlasLtKN}, halves, false},
		{"no overlap", Serial, []Series{Blas, BlasLt}, halves, false},
		{"cublaslt slow", Auto, []Series{BlasLt}, []kernels.DType{kernels.FP8}, false},
	}
}

// Hardest returns the products with decisive series, those furthest behind their peer first.
func Hardest(rows []Row) []Product {
	all := timed(rows)
	var hard []Cell
	for _, c := range comparisons() {
		if !c.decides {
			continue
		}
		for _, x := range cells(all, c.ours, c.peers...) {
			if slices.Contains(c.types, x.DType) {
				hard = append(hard, x)
			}
		}
	}
	slices.SortStableFunc(hard, func(a, b Cell) int { return cmp.Compare(a.Common, b.Common) })
	products := make([]Product, len(hard))
	for i, c := range hard {
		products[i] = c.Product
	}
	return products
}

// Lines compares all rows of a file with the goals.
func Lines(h Header, rows []Row) []Line {
	all := timed(rows)
	goals := GoalsOf(h.Card)
	var out []Line
	for _, c := range comparisons() {
		compared := cells(all, c.ours, c.peers...)
		for _, t := range c.types {
			for _, set := range []Set{Named, Drawn} {
				ranges := goals.Halves
				if t.Size() == 1 {
					ranges = goals.Bytes
				}
				for _, g := range ranges {
					of := slices.DeleteFunc(slices.Clone(compared), func(x Cell) bool {
						return x.DType != t || x.Set != set || x.M < g.From || x.M > g.To
					})
					if len(of) > 0 {
						out = append(out, lineOf(Line{DType: t, Set: set, Against: c.against, Goal: g, Decides: c.decides}, of))
					}
				}
			}
		}
	}
	return out
}

func lineOf(l Line, of []Cell) Line {
	l.Count = len(of)
	var samples []float64
	for _, c := range of {
		l.Common += c.commonLog / float64(l.Count)
		l.Observed += c.observedLog / float64(l.Count)
		samples = append(samples, float64(c.Samples))
		if c.Excused() {
			l.Excused++
		} else {
			l.Cells = append(l.Cells, c)
		}
	}
	l.Common, l.Observed = math.Exp(l.Common), math.Exp(l.Observed)
	l.Samples = [2]int{int(slices.Min(samples)), int(stats.Median(samples))}
	slices.SortStableFunc(l.Cells, func(a, b Cell) int { return cmp.Compare(a.Upper, b.Upper) })
	l.MetMean = min(l.Common, l.Observed) >= l.Goal.Geomean
	worst, any := l.Worst()
	l.MetWorst = !any || worst.Upper >= l.Goal.Worst
	return l
}

const behind = 6

// Print writes the table. Each line begins with "reach".
func Print(w io.Writer, h Header, rows []Row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "reach %s, seed %d, %.0f s: %.0f %% of the products, %.0f %% of the products that are only shown", h.Card, h.Seed,
		h.Seconds, 100*h.Share, 100*h.Printed)
	if h.LeftOut > 0 {
		fmt.Fprintf(&b, ", without %d shapes that memory has no room for", h.LeftOut)
	}
	fmt.Fprintf(&b,
		"\nreach the peer's time ÷ ours: geometric means at the common clock and as observed; worst: the least upper 99 %% bound of a "+
			"product at the common clock\n")
	fmt.Fprintf(&b, "reach %-4s %-5s %-13s %-10s %8s %8s %7s %8s %13s %7s %13s  %s\n", "type", "set", "against", "m", "products", "samples",
		"common", "observed", "asked", "worst", "asked", "of")
	lines := Lines(h, rows)
	for _, l := range lines {
		worst, any := l.Worst()
		of := fmt.Sprintf("m%d n%d k%d", worst.M, worst.N, worst.K)
		if !any {
			of = "none"
		}
		if l.Excused > 0 {
			of += fmt.Sprintf(", %d below %d us aside", l.Excused, shortUS)
		}
		fmt.Fprintf(&b, "reach %-4s %-5s %-13s %-10s %8d %8s %7.3f %8.3f %13s %7.3f %13s  %s\n", l.DType, l.Set, l.Against,
			fmt.Sprintf("%d-%d", l.Goal.From, l.Goal.To),
			l.Count, fmt.Sprintf("%d..%d", l.Samples[0], l.Samples[1]), l.Common, l.Observed, l.asked(l.Goal.Geomean, l.MetMean),
			worst.Upper, l.asked(l.Goal.Worst, l.MetWorst), of)
	}
	for _, l := range lines {
		if !l.Decides || l.Goal.Worst == 0 || l.MetWorst {
			continue
		}
		missed := 0
		for missed < len(l.Cells) && l.Cells[missed].Upper < l.Goal.Worst {
			missed++
		}
		fmt.Fprintf(&b, "reach %s %s m %d-%d: %d of %d products are surely below %.2f\n", l.DType, l.Set, l.Goal.From, l.Goal.To, missed,
			l.Count, l.Goal.Worst)
		for _, c := range l.Cells[:min(missed, behind)] {
			fmt.Fprintf(&b, "reach   %.3f [.., %.3f] m%d n%d k%d  ours %.2f us (%s), %s %.2f us\n", c.Common, c.Upper, c.M, c.N, c.K, c.US,
				c.Label, c.Peer, c.PeerUS)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l Line) asked(goal float64, met bool) string {
	switch {
	case !l.Decides || goal == 0:
		return "-"
	case met:
		return fmt.Sprintf(">= %.2f met", goal)
	}
	return fmt.Sprintf(">= %.2f MISS", goal)
}
