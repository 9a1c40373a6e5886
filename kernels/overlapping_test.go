package kernels

import "testing"

func TestOverlappingHasNoPeers(t *testing.T) {
	for _, c := range []struct {
		a, b              string
		peers, comparable bool
	}{
		{"auto", "mine", true, true},
		{"mine", "mine", true, true},
		{Overlapping, Overlapping, true, true},
		{Overlapping, "mine", false, false},
		{Overlapping, "cublas", false, false},
		{Overlapping, "auto", false, true},
	} {
		for range 2 {
			if got := Peers(c.a, c.b); got != c.peers {
				t.Errorf("%s and %s are peers: %v", c.a, c.b, got)
			}
			if got := Comparable(c.a, c.b); got != c.comparable {
				t.Errorf("%s and %s are comparable: %v", c.a, c.b, got)
			}
			c.a, c.b = c.b, c.a
		}
	}
	if why := GEMM.OnRequest(Overlapping); why != "" {
		t.Errorf("%s is measured on request: %s", Overlapping, why)
	}
}
