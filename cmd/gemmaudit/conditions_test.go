package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// another is a device that reports other properties.
type another struct {
	kernels.Device
	change func(*kernels.Spec)
}

func (d another) Spec() kernels.Spec {
	s := d.Device.Spec()
	s.Versions = maps.Clone(s.Versions)
	d.change(&s)
	return s
}

type machine struct {
	devices []kernels.Device
	missing []kernels.Missing
}

func (m machine) Open() ([]kernels.Device, []kernels.Missing) { return m.devices, m.missing }

// A run must not continue on another device with the same name. Other changes, and the reason why a device is
// unavailable, must be reported.
func TestResumeUnderOtherConditions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.db")
	begin := func(args ...string) (int, string) {
		sim := newSimulation()
		return on(sim, sim, args...)
	}
	if code, stderr := begin("sweep", "-q", "--shape", "n64k64", "--batch", "8", "--dtype", "fp32", "--kernel", "flat", "--rounds", "2",
		"--out", path); code != exitClean {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, tt := range []struct {
		name   string
		change func(*kernels.Spec)
		code   int
		want   string
	}{
		{"the same", func(*kernels.Spec) {}, exitClean, ""},
		{"another device", func(s *kernels.Spec) { s.Name = "a faster one" }, exitDevice,
			`was measured on sim "simulated device", but this machine has "a faster one"; samples of two machines are not mixed`},
		{"another driver", func(s *kernels.Spec) { s.Versions["driver"] = "580.1"; s.Versions["simulated"] = "2" }, exitClean,
			"warning: " + path +
				" continues under different conditions: sim simulated was 1 and is 2; sim driver was unknown and is 580.1\n"},
		{"another card", func(s *kernels.Spec) { s.UUID = "GPU-1" }, exitClean, "conditions: sim uuid was unknown and is GPU-1\n"},
		{"none", nil, exitDevice,
			`can't be used here: sim: it is busy`},
	} {
		sim := newSimulation()
		m := machine{missing: []kernels.Missing{{Name: "sim", Reason: "it is busy"}}}
		if tt.change != nil {
			m = machine{devices: []kernels.Device{another{sim.device, tt.change}}}
		}
		code, stderr := on(sim, m, "sweep", "-q", "--resume", "--out", path)
		if code != tt.code || !strings.Contains(stderr, tt.want) || tt.want == "" && stderr != "" {
			t.Errorf("%s: exit code %d, expected %d:\n%s", tt.name, code, tt.code, stderr)
		}
	}
}

func on(sim simulation, p kernels.Provider, args ...string) (code int, message string) {
	var out, stderr bytes.Buffer
	a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider { return []kernels.Provider{p} })
	a.now = sim.device.Now
	return a.main(args), stderr.String()
}

type unmeasurable struct{ kernels.Device }

func (unmeasurable) Ceilings(context.Context) (kernels.Ceilings, error) {
	return kernels.Ceilings{}, errors.New("out of memory")
}

// A device that cannot be measured must be listed with the others and be the command's error.
func TestDevicesShowsWhatItCannotMeasure(t *testing.T) {
	sim := newSimulation()
	full := unmeasurable{another{newSimulation().device, func(s *kernels.Spec) { s.ID = "full" }}}
	var out, stderr bytes.Buffer
	a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider {
		return []kernels.Provider{machine{devices: []kernels.Device{full, sim.device}}}
	})
	code := a.main([]string{"devices"})
	if code != exitDevice || stderr.String() != "gemmaudit: error: measure full: out of memory\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	for _, want := range []string{"full  simulated device\n", "sim  simulated device\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

// The CPU may replace a failed GPU only with a message; a missing GPU needs no message.
func TestAutoTellsOfBrokenDevices(t *testing.T) {
	for _, broken := range []bool{true, false} {
		sim := newSimulation()
		cpu := another{sim.device, func(s *kernels.Spec) { s.ID, s.Kind = "cpu", kernels.CPU }}
		m := machine{[]kernels.Device{cpu}, []kernels.Missing{{Name: "cuda:0", Reason: "it is busy", Broken: broken}}}
		code, stderr := on(sim, m, "sweep", "-q", "--dry-run", "--shape", "n64k64", "--batch", "8", "--dtype", "fp32")
		if told := strings.Contains(stderr, "warning: cuda:0 is not used: it is busy\n"); code != exitClean || told != broken {
			t.Errorf("broken %v: exit code %d: %s", broken, code, stderr)
		}
	}
}

// If a device is lost after the sweep, the error must show the command that continues.
func TestLostAfterTheSweep(t *testing.T) {
	o := &runOptions{goOn: "gemmaudit run --resume --out x"}
	err := o.stopped(t.Context(), fmt.Errorf("measure suspects again: %w", kernels.ErrDeviceLost), nil)
	if want := "all samples are stored; gemmaudit run --resume --out x"; exitCode(err) != exitDevice || hintOf(err) != want {
		t.Errorf("exit code %d, hint %q, expected %q", exitCode(err), hintOf(err), want)
	}
}

type closing struct {
	another
	times *int
}

func (c closing) Close() error {
	*c.times++
	return nil
}

// A command that measures on one device must not keep the others open.
func TestOtherDevicesAreClosed(t *testing.T) {
	sim := newSimulation()
	named := func(id string, times *int) kernels.Device {
		return closing{another{sim.device, func(s *kernels.Spec) { s.ID, s.Kind = id, kernels.CUDA }}, times}
	}
	var first, second int
	var out, stderr bytes.Buffer
	a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider {
		return []kernels.Provider{machine{devices: []kernels.Device{named("cuda:0", &first), named("cuda:1", &second)}}}
	})
	a.device = "cuda:1"
	if _, err := a.devices(); err != nil || first != 1 || second != 0 {
		t.Errorf("closed %d and %d times, expected 1 and 0: %v", first, second, err)
	}
	if err := a.reg.Close(); err != nil || first != 1 || second != 1 {
		t.Errorf("at the end closed %d and %d times, expected 1 and 1: %v", first, second, err)
	}
}
