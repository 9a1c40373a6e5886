package table

import (
	"strings"
	"testing"
)

func TestLongestWord(t *testing.T) {
	table := example()
	table.Validators.Device = strings.Repeat("x", maxWord)
	if err := table.Validate(); err != nil {
		t.Errorf("%d bytes: %v", maxWord, err)
	}
	table.Validators.Device += "x"
	if err := table.Validate(); err == nil {
		t.Errorf("%d bytes were taken", maxWord+1)
	}
}
