package synthetic

import "math"

// ManySlow is a time in microseconds, 30 % too long at every multiple of 64 above 128.
func ManySlow(m int) float64 {
	if m%64 == 0 && m > 128 {
		return float64(m) * 1.3
	}
	return float64(m)
}

type scenario struct {
	Name string
	US   func(m int) float64
	// slow is the interval in which the kernel was made slow, or 0.
	SlowFrom, SlowTo int
	Drift            func(seq, total float64) float64
}

// Scenarios are machines whose slow rows are known.
func Scenarios() []scenario {
	linear := func(m int) float64 { return 0.5 * float64(m) }
	withOverhead := func(m int) float64 { return 40 + 0.5*float64(m) }
	return []scenario{
		{Name: "flat MFU", US: linear},
		{Name: "time linear", US: withOverhead},
		{Name: "staircase of waves", US: func(m int) float64 { return 10 + 100*math.Ceil(float64(m)/216) }},
		{Name: "slow by 10 %", SlowFrom: 600, SlowTo: 700, US: func(m int) float64 {
			if m >= 600 && m <= 700 {
				return withOverhead(m) / 0.9
			}
			return withOverhead(m)
		}},
		{Name: "on the bound", SlowFrom: 800, SlowTo: 860, US: func(m int) float64 {
			// Most rows are exactly at the threshold, the worst case for false discoveries. Some lose 12 %.
			switch {
			case m <= 128:
				return linear(m)
			case m >= 800 && m <= 860:
				return linear(m) / 0.88
			}
			return linear(m) / (0.95 + 1e-9)
		}},
		{Name: "drift of 6 %", US: linear, Drift: func(seq, total float64) float64 { return 0.06 * seq / total }},
	}
}

// TrulyAnomalous reports, by M, which rows fall below threshold × the best rate at a smaller M.
func TrulyAnomalous(us func(int) float64, ms []int, threshold float64) map[int]bool {
	out := map[int]bool{}
	best := 0.0
	for _, m := range ms {
		rate := float64(m) / us(m)
		out[m] = rate < threshold*best*(1-1e-12)
		best = math.Max(best, rate)
	}
	return out
}

// Tally counts true and false flags over many runs.
type Tally struct {
	runs, Found      int
	FDP              float64
	FalseRows, Rows  int
	AnyFalse         int
	TrueRows, Caught int
}

// Add counts the flagged Ms of one run.
func (c *Tally) Add(flagged []int, truth map[int]bool, s scenario) {
	wrong, inside := 0, false
	for _, m := range flagged {
		if !truth[m] {
			wrong++
		}
		inside = inside || m >= s.SlowFrom && m <= s.SlowTo
	}
	c.runs++
	if wrong > 0 {
		c.FDP += float64(wrong) / float64(len(flagged))
		c.AnyFalse++
	}
	c.FalseRows += wrong
	c.Rows += len(truth)
	c.Caught += len(flagged) - wrong
	for _, is := range truth {
		if is {
			c.TrueRows++
		}
	}
	if inside {
		c.Found++
	}
}
