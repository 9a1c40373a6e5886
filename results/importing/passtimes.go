package importing

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

// PassTime is the time of a model's pass, or of a part, over M tokens, measured elsewhere.
type PassTime struct {
	M       int
	Seconds float64
	// Low and High are a 95 % interval of Seconds; both 0 if unknown.
	Low, High float64
	// Count is the number of such parts per pass, at least 1.
	Count int
}

// passTimeColumns are the columns of a pass times CSV; the first two are required.
var passTimeColumns = []string{"m", "seconds", "low", "high", "count"}

// Limits of a valid time in seconds: from a nanosecond to a day.
const leastSeconds, mostSeconds = 1e-9, 86400

const mostCount = 1 << 20

// ReadPassTimes reads a CSV with a header of m and seconds, and optionally low and high, and count, in any
// order. Lines are returned sorted by M; duplicate Ms are errors. An error of the content is an
// [*ImportError] with the line.
func ReadPassTimes(path string) ([]PassTime, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err // names the file and the action
	}
	defer f.Close()
	return readPassTimes(path, f)
}

func readPassTimes(path string, in io.Reader) ([]PassTime, error) {
	f, err := newRecords(path, in, "a CSV with the columns m and seconds", "")
	if err != nil {
		return nil, err
	}
	more, err := f.next()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, &ImportError{Path: path, Reason: "the file is empty: expected the columns m and seconds"}
	}
	if err := f.header(); err != nil {
		return nil, err
	}
	if !f.has("m") || !f.has("seconds") || f.has("low") != f.has("high") {
		return nil,
			&ImportError{Path: path, Line: f.line,
				Reason: fmt.Sprintf("the header is %.200q, expected the columns m and seconds, optionally low and high, and count",
					strings.Join(f.names, ","))}
	}
	if ignored := f.ignored(passTimeColumns); len(ignored) > 0 {
		return nil, &ImportError{Path: path, Line: f.line,
			Reason: fmt.Sprintf("unknown columns %.200s, expected %s", strings.Join(ignored, ", "), strings.Join(passTimeColumns, ", "))}
	}
	if more, err = f.next(); err != nil {
		return nil, err
	}
	return linesByM(f, more, f.passTime, func(t PassTime) int { return t.M })
}

func (f *csvFile) passTime() (PassTime, error) {
	t := PassTime{Count: 1}
	var err error
	if t.M, err = f.dimension("m", 1); err == nil && t.M > results.MaxM {
		err = f.fail("m", "is above %d", results.MaxM)
	}
	if err != nil {
		return t, err
	}
	if t.Seconds, err = f.seconds("seconds"); err != nil {
		return t, err
	}
	if f.has("count") {
		if t.Count, err = f.dimension("count", 1); err == nil && t.Count > mostCount {
			err = f.fail("count", "is above %d", mostCount)
		}
		if err != nil {
			return t, err
		}
	}
	if !f.has("low") || f.cell("low") == "" && f.cell("high") == "" {
		return t, nil
	}
	if t.Low, err = f.seconds("low"); err != nil {
		return t, err
	}
	if t.High, err = f.seconds("high"); err != nil {
		return t, err
	}
	switch {
	case t.Low > t.Seconds:
		return t, f.fail("low", "is above seconds")
	case t.High < t.Seconds:
		return t, f.fail("high", "is below seconds")
	}
	return t, nil
}

// seconds reads a time within the limits.
func (f *csvFile) seconds(column string) (float64, error) {
	s, err := f.number(f.column(column))
	if err == nil && !(s >= leastSeconds && s <= mostSeconds) {
		err = f.fail(column, "is no time from %g to %d seconds", leastSeconds, mostSeconds)
	}
	return s, err
}
