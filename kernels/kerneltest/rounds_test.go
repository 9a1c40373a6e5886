package kerneltest

import "testing"

func TestInterval(t *testing.T) {
	x := make([]float64, 15)
	for i := range x {
		x[i] = float64(15 - i)
	}
	// Of 15 samples the 4th and the 12th: 96.5 %.
	if mid, low, high := Interval(x); mid != 8 || low != 4 || high != 12 {
		t.Errorf("interval of 1..15: %g [%g, %g], want 8 [4, 12]", mid, low, high)
	}
	if mid, low, high := Interval([]float64{7}); mid != 7 || low != 7 || high != 7 {
		t.Errorf("interval of one sample: %g [%g, %g]", mid, low, high)
	}
	if m := Median([]float64{4, 1, 2, 3}); m != 2.5 {
		t.Errorf("median of 1..4: %g, want 2.5", m)
	}
}
