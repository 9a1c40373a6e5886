package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/report"
)

// shared is a CPU with a cache of cacheBytes on a machine with other load: its first bandwidth measurement is
// ten times the others.
type shared struct {
	*cpu.Device
	cacheBytes int64
	measured   int
}

func (d *shared) Open() ([]kernels.Device, []kernels.Missing) { return []kernels.Device{d}, nil }

func (d *shared) Spec() kernels.Spec {
	s := d.Device.Spec()
	s.LastLevelCacheBytes = d.cacheBytes
	return s
}

func (d *shared) Bandwidth(context.Context) (read, copied float64, err error) {
	if d.measured++; d.measured == 1 {
		return 100e9, 90e9, nil
	}
	return 10e9, 9e9, nil
}

// The bandwidth share must use measurements between the rounds; if no memory is read, one measurement is
// enough.
func TestBenchMeasuresBandwidthBetweenRounds(t *testing.T) {
	for _, c := range []struct {
		cache    int64
		measured int
		read     float64
	}{{1, 7, 10e9}, {1 << 40, 1, 100e9}} {
		d, err := cpu.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		device := &shared{Device: d, cacheBytes: c.cache}
		var out, stderr bytes.Buffer
		a := newApp(nil, &out, &stderr, os.LookupEnv, func() []kernels.Provider { return []kernels.Provider{device} })
		args := []string{"mistral", "bench", "../../kernels/mistral/testdata/mistral", "--context", "8", "--tokens", "2", "--rounds", "6",
			"-o", "json"}
		if code := a.main(args); code != exitClean {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
		var b report.DecodeBench
		if err := json.Unmarshal(out.Bytes(), &b); err != nil {
			t.Fatal(err)
		}
		if device.measured != c.measured || b.BandwidthSamples != c.measured || math.Abs(b.ReadBandwidth/c.read-1) > 1e-9 ||
			math.Abs(b.CopyBandwidth/c.read-0.9) > 1e-9 {
			t.Errorf("cache of %d bytes: measured %d times, reported %d, read %g, copy %g", c.cache, device.measured, b.BandwidthSamples,
				b.ReadBandwidth, b.CopyBandwidth)
		}
	}
}
