package kernels

import "testing"

func TestKindOf(t *testing.T) {
	for name, want := range map[string]Kind{
		"cuda:0": CUDA, "NVIDIA A100": CUDA, "nvidia xeon": CUDA, "cpu": CPU, "Intel Xeon": CPU, "AMD EPYC": CPU, "H200": "", "": "",
	} {
		if got := KindOf(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestKindFacts(t *testing.T) {
	for _, f := range kindTable {
		if f.Kind.Facts().Kind != f.Kind || f.Name == "" || f.Unit == "" || f.Host == f.Card || KindOf(string(f.Kind)) != f.Kind {
			t.Errorf("%+v", f)
		}
	}
	if f := Kind("tpu").Facts(); f.Host || f.Card || f.Unit != "core" || f.Name != "tpu device" {
		t.Errorf("an unknown kind: %+v", f)
	}
}
