package table

import (
	"fmt"
	"strings"
	"testing"
)

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

func TestMostLibraries(t *testing.T) {
	for n, fine := range map[int]bool{1: true, maxFeatures: true, maxFeatures + 1: false} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`"lib%d":"1"`, i))
		}
		r := &reader{data: []byte("{" + strings.Join(names, ",") + "}"), words: map[string]string{}}
		libraries := map[string]string{}
		r.libraries(libraries)
		if (r.err == nil) != fine || fine && len(libraries) != n || !fine && !strings.Contains(r.err.Error(), "more than ") {
			t.Errorf("%d libraries: %d are read, %v", n, len(libraries), r.err)
		}
	}
}
