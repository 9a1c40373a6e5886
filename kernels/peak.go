package kernels

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The limits of a user-supplied peak in operations per second. A smaller value probably lacks its unit.
const (
	leastGivenPeak = 1e9
	mostGivenPeak  = 1e18
)

var peakUnits = []struct {
	suffix string
	flops  float64
}{{"pflop/s", 1e15}, {"tflop/s", 1e12}, {"gflop/s", 1e9}, {"pflops", 1e15}, {"tflops", 1e12}, {"gflops", 1e9}, {"flop/s", 1},
	{"tops", 1e12}}

// ParsePeak reads a data type's peak in FLOP/s or with a unit: "bf16=989e12", "bf16=989TFLOP/s". The origin
// is [Given].
func ParsePeak(s string) (Peak, error) {
	name, value, ok := strings.Cut(s, "=")
	if !ok {
		return Peak{}, fmt.Errorf("%q: expected DTYPE=RATE, as in bf16=989e12 or bf16=989TFLOP/s", s)
	}
	d, err := ParseDType(name)
	if err != nil {
		return Peak{}, fmt.Errorf("%q: %w", s, err)
	}
	number, scale := strings.ToLower(strings.TrimSpace(value)), 1.0
	for _, u := range peakUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, scale = strings.TrimSpace(rest), u.flops
			break
		}
	}
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(rate) || rate <= 0 {
		return Peak{}, fmt.Errorf("%q: the rate %q is no positive number, expected FLOP/s as in 989e12, or a unit as in 989TFLOP/s", s,
			strings.TrimSpace(value))
	}
	if rate *= scale; rate < leastGivenPeak || rate > mostGivenPeak {
		return Peak{}, fmt.Errorf("%q: %g FLOP/s, expected %g to %g; a unit may follow the number, as in 989TFLOP/s", s, rate,
			leastGivenPeak, mostGivenPeak)
	}
	return Peak{DType: d, FLOPS: rate, Origin: Given}, nil
}
