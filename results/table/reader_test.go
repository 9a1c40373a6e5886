package table

import (
	"strings"
	"testing"
)

// TestMostOfAList: a list has as many elements as it may, and not one more.
func TestMostOfAList(t *testing.T) {
	for text, fine := range map[string]bool{"[]": true, "[1]": true, "[1,2,3]": true, "[1,2,3,4]": false} {
		r := &reader{data: []byte(text)}
		var got []int
		r.list("numbers", 3, func() { got = append(got, r.whole("a number")) })
		if (r.err == nil) != fine || !fine && !strings.Contains(r.err.Error(), "more than 3 elements in numbers") {
			t.Errorf("%s: %v, %v", text, got, r.err)
		}
	}
}
