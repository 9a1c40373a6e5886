package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Routing is how the rows of grouped products are divided among the groups.
type Routing struct {
	// Even divides them equally. Otherwise they are drawn with Skew and the seed Draw, unless they are Recorded.
	Even       bool
	Skew, Draw int
	// Recorded is a table of the rows, with the hash that stands for it; zero for none.
	Recorded kernels.RecordedRouting
	Hash     int
}

// DefaultRouting is skew:100.
func DefaultRouting() Routing { return Routing{Skew: 100, Draw: 1} }

const (
	routingExpected = "even, skew:S as in skew:100, skew:S:SEED, or a CSV file with the columns m, group and rows"
	defaultTopK     = 2
)

// ParseRouting reads "even", "skew:100" or "skew:100:7", with a seed. ok is false for anything else: the path of a file.
func ParseRouting(s string) (r Routing, ok bool, err error) {
	word := strings.ToLower(strings.TrimSpace(s))
	if word == "even" {
		return Routing{Even: true}, true, nil
	}
	rest, found := strings.CutPrefix(word, "skew:")
	if !found {
		return r, false, nil
	}
	skew, seed, seeded := strings.Cut(rest, ":")
	bad := func(reason string) (Routing, bool, error) {
		return r, true, &SyntaxError{"routing", s, reason, routingExpected}
	}
	r.Draw = 1
	if r.Skew, err = strconv.Atoi(skew); err != nil || r.Skew < 0 || r.Skew > kernels.MaxSkew {
		return bad(fmt.Sprintf("the skew is %q, expected 0 to %d", skew, kernels.MaxSkew))
	}
	if seeded {
		if r.Draw, err = strconv.Atoi(seed); err != nil || r.Draw < 1 || r.Draw > MaxDimension {
			return bad(fmt.Sprintf("the seed is %q, expected 1 to %d", seed, MaxDimension))
		}
	}
	return r, true, nil
}

// routed returns a target once for each routing. A target that is no grouped product, or whose shape has its routing, is
// returned once.
func (o *Options) routed(t Target) ([]Target, error) {
	routings := o.Routings
	if len(routings) == 0 {
		routings = []Routing{DefaultRouting()}
	}
	var out []Target
	for _, r := range routings {
		with, err := r.route(t, o.TopK)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, with) {
			out = append(out, with)
		}
	}
	return out, nil
}

// route gives a target of a grouped product its routing, unless its shape has one. Other targets are returned unchanged.
// The error says that the routing has other groups, or fewer than topK.
func (r Routing) route(t Target, topK int) (Target, error) {
	d := &t.Further
	if d.Groups == 0 {
		return t, nil
	}
	topK = cmp.Or(d.TopK, t.Active, topK, min(defaultTopK, d.Groups))
	switch {
	case topK > d.Groups:
		return t, fmt.Errorf("%d experts per token, expected at most the %d groups", topK, d.Groups)
	case d.Draw != 0 || d.Routing != 0:
	case r.Hash != 0 && r.Recorded.Groups != d.Groups:
		return t, fmt.Errorf("the recorded routing has %d groups, the product %d", r.Recorded.Groups, d.Groups)
	case r.Hash != 0:
		d.Routing, d.TopK = r.Hash, 0
	case r.Even:
		d.TopK = 0
	default:
		d.TopK, d.Skew, d.Draw = topK, r.Skew, r.Draw
	}
	t.RowsPerToken = topK
	return t, nil
}

// tables returns the recorded tables.
func tables(routings []Routing) []kernels.RecordedRouting {
	var out []kernels.RecordedRouting
	for _, r := range routings {
		if r.Hash != 0 {
			out = append(out, r.Recorded)
		}
	}
	return out
}

// rowsFor returns the Ms of a target on a grid, of tokens if its rows come from tokens.
func (t Target) rowsFor(grid Batches, tokens bool) Batches {
	if d := t.Further; d.Routing != 0 {
		table, ok := kernels.RoutingOf(d.Routing)
		if !ok {
			return nil
		}
		return table.Ms()
	}
	if !tokens || t.RowsPerToken < 2 {
		return grid
	}
	rows := make(Batches, len(grid))
	for i, m := range grid {
		rows[i] = m * t.RowsPerToken
	}
	return rows
}
