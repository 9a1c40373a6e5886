package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// attending replaces the attention of a device and of its kernels.
type attending struct {
	kernels.Device
	attend func(kernels.Attention) (kernels.Launch, error)
}

func (d *attending) Attend(a kernels.Attention) (kernels.Launch, error) { return d.attend(a) }

func (d *attending) Kernels(o kernels.Operation) []kernels.Kernel {
	all := d.Device.Kernels(o)
	for i, k := range all {
		if a, ok := k.(kernels.AttentionKernel); ok {
			all[i] = kernels.AttentionKernels(d, []kernels.AttentionKernel{attendingKernel{a, d}})[0]
		}
	}
	return all
}

type attendingKernel struct {
	kernels.AttentionKernel
	device *attending
}

func (k attendingKernel) Attend(a kernels.Attention) (kernels.Launch, error) {
	return k.device.attend(a)
}

type attendingProvider func(d kernels.Device, a kernels.Attention) (kernels.Launch, error)

func (p attendingProvider) Open() ([]kernels.Device, []kernels.Missing) {
	devices, missing := cpu.Provider{}.Open()
	for i, d := range devices {
		devices[i] = &attending{d, func(a kernels.Attention) (kernels.Launch, error) { return p(d, a) }}
	}
	return devices, missing
}

// Wrong attention must fail the gate. Attention that cannot run is a device error; if it rejects everything,
// no comparison is left.
func TestSelftestOfAttention(t *testing.T) {
	for _, c := range []struct {
		name   string
		attend attendingProvider
		code   int
		stdout string
		stderr string
	}{
		{"wrong", func(d kernels.Device, a kernels.Attention) (kernels.Launch, error) {
			a.Scale *= 2
			return d.(kernels.Attender).Attend(a)
		}, exitGate, `"wrong": true`, "1 kernel failed the comparison with the reference"},
		{"broken", func(kernels.Device, kernels.Attention) (kernels.Launch, error) {
			return nil, errors.New("no memory left")
		}, exitDevice, `"failure": "check: cpu: attention fp32 rows 1 `, "no memory left"},
		{"refusing", func(kernels.Device, kernels.Attention) (kernels.Launch, error) {
			return nil, &kernels.Unsupported{Kernel: "attention", DType: kernels.FP32, Reason: "no unit for it"}
		}, exitInconclusive, `"skipped": "no unit for it"`, "no kernel was compared with the reference: no unit for it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
			env := func(string) (string, bool) { return "", false }
			a := newApp(strings.NewReader(""), stdout, stderr, env, func() []kernels.Provider { return []kernels.Provider{c.attend} })
			code := a.main([]string{"selftest", "--kernel", "attention", "--dtype", "fp32", "--noise=false", "-o", "json"})
			if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("exit code %d, expected %d\n%s%s", code, c.code, stdout, stderr)
			}
		})
	}
}

// idleProvider opens a device whose only kernel does not compute, with the given known faults.
type idleProvider []kernels.KnownFault

func (p idleProvider) Open() ([]kernels.Device, []kernels.Missing) {
	return []kernels.Device{simulated.New(simulated.Config{
		Gemms:  []simulated.KernelConfig{{Name: "idle", DTypes: []kernels.DType{kernels.FP32}, Cost: simulated.Linear(1e9, 0)}},
		Faults: p,
	})}, nil
}

// A library's known fault must fail the gate and be marked as known. Kernel, type and check identify it.
func TestSelftestKnowsFaults(t *testing.T) {
	fault := kernels.KnownFault{Kernel: "idle", DType: kernels.FP32, Checks: []kernels.CheckStep{kernels.CheckUnwritten},
		Text: "nothing is written"}
	other := fault
	other.Checks = []kernels.CheckStep{kernels.CheckExtremes}
	for _, c := range []struct {
		faults idleProvider
		known  bool
	}{{nil, false}, {idleProvider{other}, false}, {idleProvider{other, fault}, true}} {
		stdout, stderr := &bytes.Buffer{}, &bytes.Buffer{}
		env := func(string) (string, bool) { return "", false }
		a := newApp(strings.NewReader(""), stdout, stderr, env, func() []kernels.Provider { return []kernels.Provider{c.faults} })
		code := a.main([]string{"selftest", "--dtype", "fp32", "--noise=false", "-o", "json"})
		field := strings.Contains(stdout.String(), `"known": "nothing is written"`)
		said := strings.Contains(stderr.String(), "2 kernels failed the comparison with the reference, 2 from a known library bug")
		if code != exitGate || field != c.known || said != c.known {
			t.Errorf("faults %+v: exit code %d\n%s%s", c.faults, code, stdout, stderr)
		}
	}
}
