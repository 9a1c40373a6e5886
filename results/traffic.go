package results

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// Traffic says how often each M is computed where a model is served: weights of listed Ms,
// ascending in M, each M once. Only ratios of weights matter. The weight of a listed M holds up to
// the next listed one; below the first and above the last there is no traffic.
type Traffic []Load

// Load is the weight of an M.
type Load struct {
	M      int     `json:"m"`
	Weight float64 `json:"weight"`
}

// mostWeight bounds a weight, so that sums over all Ms are finite and exact enough.
const mostWeight = 1e15

// Weight is the weight of m; 1 where nothing is known of the traffic.
func (t Traffic) Weight(m int) float64 {
	if len(t) == 0 {
		return 1
	}
	at, listed := slices.BinarySearchFunc(t, m, func(l Load, m int) int { return cmp.Compare(l.M, m) })
	if listed {
		return t[at].Weight
	}
	if at == 0 || at == len(t) {
		return 0
	}
	return t[at-1].Weight
}

// Validate says what is wrong with it; nil for none.
func (t Traffic) Validate() error {
	some := len(t) == 0
	for i, l := range t {
		if l.M < 1 || l.M > MaxM {
			return fmt.Errorf("traffic: m%d, expected 1 to %d", l.M, MaxM)
		}
		if i > 0 && l.M <= t[i-1].M {
			return fmt.Errorf("traffic: m%d follows m%d, expected ascending Ms", l.M, t[i-1].M)
		}
		if !(l.Weight >= 0 && l.Weight <= mostWeight) {
			return fmt.Errorf("traffic: m%d has weight %g, expected 0 to %g", l.M, l.Weight, float64(mostWeight))
		}
		some = some || l.Weight > 0
	}
	if !some {
		return fmt.Errorf("traffic: every weight is 0")
	}
	return nil
}

// ReadTraffic reads a CSV with the columns m and weight, in any order of lines. Without a header
// the first column is m. An error of the content is an [*ImportError] with the line.
func ReadTraffic(path string) (Traffic, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err // which names the file and what was tried
	}
	defer f.Close()
	return readTraffic(path, f)
}

// trafficColumns are those of a CSV of traffic, in their order without a header.
var trafficColumns = []string{"m", "weight"}

func readTraffic(path string, in io.Reader) (Traffic, error) {
	f, err := newRecords(path, in, "a CSV with the columns m and weight", "")
	if err != nil {
		return nil, err
	}
	more, err := f.next()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, &ImportError{Path: path, Reason: "the file is empty: expected lines of m,weight"}
	}
	if _, err := strconv.ParseFloat(strings.TrimSpace(f.record[0]), 64); err == nil {
		if len(f.record) != len(trafficColumns) {
			return nil, &ImportError{Path: path, Line: f.line, Reason: fmt.Sprintf("%d cells, expected m,weight", len(f.record))}
		}
		f.setHeader(trafficColumns)
	} else {
		if err := f.header(); err != nil {
			return nil, err
		}
		for _, name := range trafficColumns {
			if !f.has(name) {
				return nil, &ImportError{Path: path, Line: f.line, Reason: fmt.Sprintf("the header is %.200q, expected the columns m and weight", strings.Join(f.names, ","))}
			}
		}
		if ignored := f.ignored(trafficColumns); len(ignored) > 0 {
			return nil, &ImportError{Path: path, Line: f.line, Reason: fmt.Sprintf("unknown columns %.200s, expected m and weight", strings.Join(ignored, ", "))}
		}
		if more, err = f.next(); err != nil {
			return nil, err
		}
	}
	loads, err := linesByM(f, more, f.load, func(l Load) int { return l.M })
	if err != nil {
		return nil, err
	}
	out := Traffic(loads)
	if err := out.Validate(); err != nil {
		return nil, &ImportError{Path: path, Reason: err.Error()}
	}
	return out, nil
}

// load reads a line of traffic.
func (f *csvFile) load() (Load, error) {
	m, err := f.dimension("m", 1)
	if err == nil && m > MaxM {
		err = f.fail("m", "is above %d", MaxM)
	}
	if err != nil {
		return Load{}, err
	}
	weight, err := f.number(f.column("weight"))
	if err == nil && weight > mostWeight {
		err = f.fail("weight", "is above %g", float64(mostWeight))
	}
	return Load{M: m, Weight: weight}, err
}
