package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

var fleetKit = pageKit{pageStyles[1:], []string{"base.js", "draw.js", "fleet.js"}, "fleet.html"}

// fleetData is the JSON data of the fleet page. Cells are stored separately, in columns.
type fleetData struct {
	Models []fleetModel `json:"models"`

	cells []fleetCells
}

// fleetModel holds the cards of one model. A case refers to its series by index.
type fleetModel struct {
	Name   string      `json:"name"`
	Series []string    `json:"series"`
	Cases  []fleetCase `json:"cases"`
	Cards  []fleetCard `json:"cards"`
	All    int         `json:"all"` // all cards, including those not in the page
}

type fleetCase struct {
	Series int      `json:"series"`
	M      int      `json:"m"`
	US     *float64 `json:"us"`
}

type fleetCard struct {
	Card      string  `json:"card"`
	Host      string  `json:"host"`
	Device    string  `json:"device"`
	Labels    string  `json:"labels"`
	Verdict   string  `json:"verdict"`
	Kind      string  `json:"kind"`
	Reason    string  `json:"reason"`
	Loss      float64 `json:"loss"`
	Runs      int     `json:"runs"`
	Since     string  `json:"since"`
	Common    string  `json:"common"`
	Sustained string  `json:"sustained"`
	Clock     string  `json:"clock"`
	Power     string  `json:"power"`
	Temp      string  `json:"temp"`
	Throttled string  `json:"throttled"`
}

// fleetCells holds the cells of one model by card and case: logarithms of ratios, in units of cellUnit.
type fleetCells struct{ common, sustained []int16 }

const (
	// cellUnit is the unit of a cell; noCell marks a missing one. fleet.js repeats both.
	cellUnit = 1e-4
	noCell   = math.MinInt16
	// mostCells limits the cells of a model in a page: 8 MB per kind of time in base64.
	mostCells = 3 << 20
)

// newFleetData gathers the data of the fleet page. If there are too many cards, it drops the last ones, which
// match their peers.
func newFleetData(r *fleet.Result) *fleetData {
	d := &fleetData{Models: []fleetModel{}}
	for _, h := range r.Heat {
		m := fleetModel{Name: Clean(h.Model), Series: []string{}, Cases: []fleetCase{}, Cards: []fleetCard{}, All: len(h.Cards)}
		place := map[string]int{}
		for _, c := range h.Cases {
			name := Clean(c.Series.TextOfAny())
			at, ok := place[name]
			if !ok {
				at = len(m.Series)
				place[name] = at
				m.Series = append(m.Series, name)
			}
			x := fleetCase{Series: at, M: c.M}
			if IsFinite(c.US) {
				x.US = &c.US
			}
			m.Cases = append(m.Cases, x)
		}
		row := make([]int, len(r.Cards)) // heatmap row by card; -1 for other models
		for i := range row {
			row[i] = -1
		}
		for k, i := range h.Cards {
			row[i] = k
		}
		var cells fleetCells
		for i := range r.Cards {
			if row[i] < 0 || (len(m.Cards)+1)*len(m.Cases) > mostCells && len(m.Cards) > 0 {
				continue
			}
			m.Cards = append(m.Cards, newFleetCard(&r.Cards[i]))
			cells.common = appendCells(cells.common, h.Common[row[i]])
			cells.sustained = appendCells(cells.sustained, h.Sustained[row[i]])
		}
		d.Models, d.cells = append(d.Models, m), append(d.cells, cells)
	}
	return d
}

func appendCells(to []int16, logs []float32) []int16 {
	for _, x := range logs {
		v := math.Round(float64(x) / cellUnit)
		switch {
		case v != v:
			to = append(to, noCell)
		default:
			to = append(to, int16(math.Max(noCell+1, math.Min(math.MaxInt16, v))))
		}
	}
	return to
}

func newFleetCard(c *fleet.Card) fleetCard {
	out := fleetCard{Card: Clean(c.Card), Host: Clean(c.Host), Device: Clean(c.Device), Labels: Clean(results.Labels(c.Labels).String()),
		Verdict: string(c.Verdict),
		Kind:    string(c.Kind), Reason: Clean(c.Reason), Loss: c.Loss.Mid, Runs: len(c.Runs), Common: bounds{c.Common, Factor}.Text(),
		Sustained: bounds{c.Sustained, Factor}.Text()}
	if c.Since != nil {
		out.Since = minuteText(c.Since.Time)
	}
	both := func(own, peers float64, unit string) string {
		if own <= 0 {
			return ""
		}
		return fmt.Sprintf("%.0f %s, %.0f", own, unit, peers)
	}
	o, p := c.Conditions, c.PeerConditions
	out.Clock, out.Power, out.Temp = both(o.ClockMHz, p.ClockMHz, "MHz"), both(o.PowerW, p.PowerW, "W"), both(o.TempC, p.TempC, "°C")
	if o.Throttled > 0 || p.Throttled > 0 {
		out.Throttled = fmt.Sprintf("%.0f %%, %.0f", 100*o.Throttled, 100*p.Throttled)
	}
	return out
}

func (p *page) fleetHTML(out io.Writer, d *fleetData) error { return p.with(out, fleetKit, d.write) }

// write writes the data as elements that no browser executes. JSON escapes < and & there.
func (d *fleetData) write(w *bufio.Writer) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "<script type=\"application/json\" id=\"data\">%s</script>\n", text)
	for i, c := range d.cells {
		for _, of := range []struct {
			name   string
			values []int16
		}{{"common", c.common}, {"sustained", c.sustained}} {
			if err := writeColumn(w, fmt.Sprintf("cells-%d-%s", i, of.name), "Int16", of.values); err != nil {
				return err
			}
		}
	}
	return nil
}
