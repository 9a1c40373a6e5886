package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestShareable(t *testing.T) {
	for _, c := range []struct {
		settings map[string]string
		want     string // part of the error
	}{
		{map[string]string{"compute mode": "default", "mig": "off"}, ""},
		{nil, ""},
		{map[string]string{"compute mode": "exclusive process"}, "admits one process"},
		{map[string]string{"mig": "on"}, "whole GPU"},
	} {
		err := shareable(kernels.Spec{ID: "cuda:0", Settings: c.settings})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, expected %q", c.settings, err, c.want)
		}
	}
}

func TestUnderMPS(t *testing.T) {
	folder := t.TempDir()
	env := func(string) string { return folder }
	if underMPS(env) {
		t.Error("an empty folder counts as the service")
	}
	if err := os.WriteFile(filepath.Join(folder, "control"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !underMPS(env) {
		t.Error("the service's pipe is not seen")
	}
}
