package importing

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

// ReadTraffic reads a CSV with the columns m and weight, lines in any order. Without a header the first
// column is m. An error of the content is an [*ImportError] with the line.
func ReadTraffic(path string) (results.Traffic, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err // names the file and the action
	}
	defer f.Close()
	return readTraffic(path, f)
}

// trafficColumns are a traffic CSV's columns, in their order without a header.
var trafficColumns = []string{"m", "weight"}

func readTraffic(path string, in io.Reader) (results.Traffic, error) {
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
				return nil, &ImportError{Path: path, Line: f.line,
					Reason: fmt.Sprintf("the header is %.200q, expected the columns m and weight", strings.Join(f.names, ","))}
			}
		}
		if ignored := f.ignored(trafficColumns); len(ignored) > 0 {
			return nil, &ImportError{Path: path, Line: f.line,
				Reason: fmt.Sprintf("unknown columns %.200s, expected m and weight", strings.Join(ignored, ", "))}
		}
		if more, err = f.next(); err != nil {
			return nil, err
		}
	}
	loads, err := linesByM(f, more, f.load, func(l results.Load) int { return l.M })
	if err != nil {
		return nil, err
	}
	out := results.Traffic(loads)
	if err := out.Validate(); err != nil {
		return nil, &ImportError{Path: path, Reason: err.Error()}
	}
	return out, nil
}

func (f *csvFile) load() (results.Load, error) {
	m, err := f.dimension("m", 1)
	if err == nil && m > results.MaxM {
		err = f.fail("m", "is above %d", results.MaxM)
	}
	if err != nil {
		return results.Load{}, err
	}
	weight, err := f.number(f.column("weight"))
	if err == nil && weight > results.MostWeight {
		err = f.fail("weight", "is above %g", float64(results.MostWeight))
	}
	return results.Load{M: m, Weight: weight}, err
}
