package kernels

import (
	"strings"
	"testing"
)

type noDevices []Missing

func (n noDevices) Open() ([]Device, []Missing) { return nil, n }

func TestSelectWithoutDevices(t *testing.T) {
	r := NewRegistry(noDevices{{Name: "cpu", Reason: "no threads"}}, noDevices{{Name: "cuda", Reason: "no driver"}})
	for _, selector := range []string{"", "auto", "cpu", "cuda:all"} {
		_, err := r.Select(selector)
		if err == nil || !strings.Contains(err.Error(), "cpu: no threads; cuda: no driver") {
			t.Errorf("%q: %v", selector, err)
		}
	}
}

type lacking struct {
	hostDevice
	missing []Missing
}

func (d *lacking) Missing() []Missing { return d.missing }

func TestFind(t *testing.T) {
	d := &lacking{hostDevice{gemms: []Kernel{&hostGemm{}}}, []Missing{{Name: "cublas", Reason: "there is no libcublas.so"}}}
	if k, err := Find(d, GEMM, "host"); err != nil || k.Name() != "host" {
		t.Errorf("%v, %v", k, err)
	}
	for name, want := range map[string]string{
		"cublas": "there is no libcublas.so", "cublas:2": "there is no libcublas.so", "host:2": "host does not choose among algorithms",
		"other": "expected one of host",
	} {
		if _, err := Find(d, GEMM, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := Find(&computesNothing{}, Softmax, "host"); err == nil || !strings.Contains(err.Error(), "host has no kernel for softmax") {
		t.Errorf("softmax: %v", err)
	}
}

type computesNothing struct{ hostDevice }

func (*computesNothing) Kernels(Operation) []Kernel { return nil }
