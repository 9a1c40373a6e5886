package rules

import "testing"

func TestWordsOfExplanations(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{percent(0), "0.00 %"},
		{percent(0.00871), "0.87 %"},
		{percent(0.1224), "12.2 %"},
		{percent(1.5), "150.0 %"},
		{plural(1, "wave"), "1 wave"},
		{plural(0, "row"), "0 rows"},
		{rates(9.098e10, 4.666e11), "90.98 of 466.6 GFLOP/s"},
		{rates(1e13, 1e14), "10.00 of 100.0 TFLOP/s"},
		{rates(9.9e11, 1e12), "0.9900 of 1.000 TFLOP/s"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
