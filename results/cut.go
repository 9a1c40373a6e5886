package results

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Cut is how much a deadline took from a request before the sweep. It is part of the plan.
type Cut struct {
	// Asked counts the cases that were requested, Planned those that are kept.
	Asked   int `json:"asked"`
	Planned int `json:"planned"`
	// Products counts the requested products, of any data type; in a recorded workload, each M is one.
	Products int `json:"products"`
	// LeftOut are the products without a planned case.
	LeftOut []CutProduct `json:"left_out,omitempty"`
}

// CutProduct is a requested product that is not planned.
type CutProduct struct {
	// Name is the weight matrix, "llama3-8b:o_proj"; empty for a bare shape.
	Name string `json:"name,omitempty"`
	// Size is "n4096 k4096 nk", with M for a product of a recorded workload.
	Size string `json:"size"`
}

// String returns "llama3-8b:o_proj n4096 k4096 nk".
func (p CutProduct) String() string { return strings.TrimSpace(p.Name + " " + p.Size) }

// CutTo compares the series of a request with those that are kept. Rows that a recorded workload does not have are no products.
func CutTo(kept, requested []PlannedSeries, recorded Recorded) *Cut {
	type product struct {
		kernels.Subject // of any data type
		m               int
	}
	each := func(series []PlannedSeries, do func(product, PlannedSeries)) {
		for _, s := range series {
			of := product{Subject: s.Subject}
			of.DType = ""
			if len(recorded) == 0 {
				do(of, s)
				continue
			}
			traffic := recorded.Traffic(s.Subject)
			for _, m := range s.Ms {
				if of.m = m; traffic.Weight(m) > 0 {
					do(of, s)
				}
			}
		}
	}
	c := &Cut{}
	counted := map[product]bool{}
	each(kept, func(p product, _ PlannedSeries) { counted[p] = true })
	c.Products = len(counted)
	each(requested, func(p product, s PlannedSeries) {
		if counted[p] {
			return
		}
		counted[p] = true
		c.Products++
		left := CutProduct{Name: s.Name, Size: s.Size() + s.Traits()}
		if p.m > 0 {
			left.Size = s.Coordinate(p.m) + " " + left.Size
		}
		if !s.Operation.IsDefault() {
			left.Size = s.Operation.String() + " " + left.Size
		}
		c.LeftOut = append(c.LeftOut, left)
	})
	return c
}

// String continues a sentence about the deadline: "too short for all 368 cases: 6 are planned".
func (c *Cut) String() string {
	text := fmt.Sprintf("too short for all %d cases: %d are planned", c.Asked, c.Planned)
	if n := len(c.LeftOut); n > 0 {
		text += fmt.Sprintf("; %d of %d products are left out, such as %v", n, c.Products, c.LeftOut[0])
	}
	return text
}
