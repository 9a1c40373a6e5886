package kernels

import (
	"strings"
	"testing"
)

type noDevices []Missing

func (n noDevices) Open() ([]Device, []Missing) { return nil, n }

// A machine on which nothing can be used says why.
func TestSelectWithoutDevices(t *testing.T) {
	r := NewRegistry(noDevices{{Name: "cpu", Reason: "no threads"}}, noDevices{{Name: "cuda", Reason: "no driver"}})
	for _, selector := range []string{"", "auto", "cpu", "cuda:all"} {
		_, err := r.Select(selector)
		if err == nil || !strings.Contains(err.Error(), "cpu: no threads; cuda: no driver") {
			t.Errorf("%q: %v", selector, err)
		}
	}
}
