//go:build cuda

package driver

import "testing"

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		of   []string
		want string
	}{
		{[]string{"", ""}, ""},
		{[]string{"b"}, "b, in sequence"},
		{[]string{"a", "b", "", "b"}, "b, a, in sequence"},
		{[]string{"a", "b", "c", "d", "e", "e", "c"}, "c, e, a, 2 more, in sequence"},
	} {
		var parts []*Launch
		for _, label := range c.of {
			parts = append(parts, &Launch{label: label})
		}
		if got := labels(parts, "in sequence"); got != c.want {
			t.Errorf("labels of %q are %q, expected %q", c.of, got, c.want)
		}
	}
}
