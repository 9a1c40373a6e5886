package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
)

// attending is the CPU with another attention.
type attending struct {
	kernels.Device
	attend func(kernels.Attention) (kernels.Launch, error)
}

func (d *attending) Attend(a kernels.Attention) (kernels.Launch, error) { return d.attend(a) }

// attendingProvider opens one.
type attendingProvider func(d kernels.Device, a kernels.Attention) (kernels.Launch, error)

func (p attendingProvider) Open() ([]kernels.Device, []kernels.Missing) {
	devices, missing := cpu.Provider{}.Open()
	for i, d := range devices {
		devices[i] = &attending{d, func(a kernels.Attention) (kernels.Launch, error) { return p(d, a) }}
	}
	return devices, missing
}

// TestSelftestOfAttention: wrong attention fails the gate, one that can't be run is an error of
// the device, and one that refuses everything is no failure.
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
		}, exitClean, `"skipped": "no unit for it"`, ""},
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
