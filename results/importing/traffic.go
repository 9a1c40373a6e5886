package importing

import "github.com/gemmaudit/gemmaudit/results"

// ReadTraffic reads a CSV with the columns m and weight, lines in any order. Without a header the first
// column is m. An error of the content is an [*Error] with the line.
func ReadTraffic(path string) (results.Traffic, error) {
	loads, err := trafficCSV.open(path)
	return results.Traffic(loads), err
}

var trafficCSV = byM[results.Load]{
	columns: []string{"m", "weight"}, headless: true,
	what: "the columns m and weight", lines: "lines of m,weight", known: "m and weight",
	valid: func(f *csvFile) bool { return f.has("weight") },
	line:  (*csvFile).load, m: func(l results.Load) int { return l.M },
	check: func(loads []results.Load) error { return results.Traffic(loads).Validate() },
}

func (f *csvFile) load() (results.Load, error) {
	m, err := f.rows()
	if err != nil {
		return results.Load{}, err
	}
	weight, err := f.number(f.column("weight"))
	if err == nil && weight > results.MostWeight {
		err = f.fail("weight", "is above %g", float64(results.MostWeight))
	}
	return results.Load{M: m, Weight: weight}, err
}
