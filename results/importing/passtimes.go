package importing

// PassTime is the time of a model's pass, or of a part, over M tokens, measured elsewhere.
type PassTime struct {
	M       int
	Seconds float64
	// Low and High are a 95 % interval of Seconds; both 0 if unknown.
	Low, High float64
	// Count is the number of such parts per pass, at least 1.
	Count int
}

// Limits of a valid time in seconds: from a nanosecond to a day.
const leastSeconds, mostSeconds = 1e-9, 86400

const mostCount = 1 << 20

// ReadPassTimes reads a CSV with a header of m and seconds, and optionally low and high, and count, in any
// order. Lines are returned sorted by M; duplicate Ms are errors. An error of the content is an
// [*Error] with the line.
func ReadPassTimes(path string) ([]PassTime, error) { return passTimesCSV.open(path) }

var passTimesCSV = byM[PassTime]{
	columns: []string{"m", "seconds", "low", "high", "count"},
	what:    "the columns m and seconds", lines: "the columns m and seconds", known: "m, seconds, low, high, count",
	more:  ", optionally low and high, and count",
	valid: func(f *csvFile) bool { return f.has("seconds") && f.has("low") == f.has("high") },
	line:  (*csvFile).passTime, m: func(t PassTime) int { return t.M },
}

func (f *csvFile) passTime() (PassTime, error) {
	t := PassTime{Count: 1}
	var err error
	if t.M, err = f.rows(); err != nil {
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
