package results

import (
	"maps"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func FuzzMeta(f *testing.F) {
	meta := Meta{
		Command: "gemmaudit sweep", Gemmaudit: "v1", Regime: Engine, Seed: 7, ReferenceClock: map[string]float64{"cpu": 2000},
		Fingerprint: Fingerprint{Hostname: "a", Devices: []kernels.Spec{{ID: "cpu", Kind: kernels.CPU, Units: 2}}},
		Ceilings: map[string]kernels.Ceilings{"cpu": {ReadBandwidth: 1e9, CopyBandwidth: 2e9, Peaks: []kernels.Peak{
			{DType: kernels.FP32, FLOPS: 1e12, Origin: kernels.Measured, ClockMHz: 2000, Unit: "FMA"}}}},
		Plan: []byte(`{"series":[{"device":"cpu","kernel":"tiled","ms":"1:16,20"}],"rounds":3}`),
	}
	for i, field := range metaFields {
		text, err := field.write(&meta)
		must(f, err)
		f.Add(uint8(i), text)
		f.Add(uint8(i), "{}")
		f.Add(uint8(i), "-1")
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		field := metaFields[int(which)%len(metaFields)]
		var m Meta
		if field.read(&m, text) != nil {
			return
		}
		again, err := field.write(&m)
		if err != nil {
			t.Fatalf("%s is read from %q and can't be written: %v", field.key, text, err)
		}
		var back Meta
		if err := field.read(&back, again); err != nil {
			t.Fatalf("%s is written %q and can't be read: %v", field.key, again, err)
		}
		if twice, err := field.write(&back); err != nil || twice != again {
			t.Fatalf("%s is written %q, then %q, %v", field.key, again, twice, err)
		}
		for device, c := range m.Ceilings {
			if err := CheckCeilings(c); err != nil {
				t.Fatalf("%q: %v", device, err)
			}
		}
		if _, err := m.Planned(); err != nil && field.key != "plan" {
			t.Fatal(err)
		}
	})
}

func FuzzIdentity(f *testing.F) {
	for _, s := range []kernels.Subject{
		kernels.Product(kernels.FP32, 64, 32),
		{Operation: kernels.AttentionDecode, DType: kernels.FP16, Dims: kernels.Dims{QueryHeads: 8, KVHeads: 2, HeadDim: 64, Window: 128}},
		{Operation: kernels.Softmax, DType: kernels.BF16, Dims: kernels.Dims{Columns: 512, Queries: 16}},
	} {
		id, err := identityOf(SeriesKey{Subject: s})
		must(f, err)
		f.Add(id.Operation, id.Dims, id.Operands, id.Layout)
	}
	quantized := kernels.Product(kernels.FP16, 64, 256)
	var err error
	quantized.Weights, err = kernels.IntegerWeights(4, 128, true).For(kernels.FP16, 256)
	must(f, err)
	id, err := identityOf(SeriesKey{Subject: quantized})
	must(f, err)
	f.Add(id.Operation, id.Dims, id.Operands, id.Layout)
	f.Fuzz(func(t *testing.T, operation, dims, operands, layout string) {
		id := Identity{operation, dims, operands, layout}
		var k SeriesKey
		if id.fill(&k) != nil || k.Subject.Validate() != nil {
			return
		}
		again, err := identityOf(k)
		if err != nil {
			t.Fatalf("%+v is read as %+v, which can't be written: %v", id, k, err)
		}
		var back SeriesKey
		if err := again.fill(&back); err != nil || back != k {
			t.Fatalf("%+v is written %+v and read as %+v, %v", k, again, back, err)
		}
	})
}

func FuzzCell(f *testing.F) {
	for _, s := range []string{"", "192+1988", "copied", "1+", "+", "0+1", `{"rack":"7"}`, `{"a":1}`, "{}", "null"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var c Case
		if c.ReadParts(s) == nil {
			if again := c.StoredParts(); again != s && len(c.Parts) > 0 {
				var back Case
				if err := back.ReadParts(again); err != nil || back.StoredParts() != again {
					t.Fatalf("parts %q are written %q, which reads %v, %v", s, again, back.Parts, err)
				}
			}
			for _, n := range c.Parts {
				if n < 1 {
					t.Fatalf("parts %q have one of %d", s, n)
				}
			}
		}
		labels, err := DecodeLabels(s)
		if err != nil {
			return
		}
		if back, err := DecodeLabels(EncodeLabels(labels)); err != nil || !maps.Equal(labels, back) {
			t.Fatalf("labels %q are read again as %v, %v", s, back, err)
		}
	})
}

func FuzzLabel(f *testing.F) {
	for _, s := range []string{"rack=7", "a.b/c-d_e=x = y", "=", "rack=", "Rack=7", "rack=\x1b", "rack=\xff", "räck=7", "rack=größer"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		labels, err := ParseLabels([]string{s})
		if err != nil {
			return
		}
		if text := labels.String(); text != s {
			t.Fatalf("%q is printed as %q", s, text)
		}
		if back, err := DecodeLabels(EncodeLabels(labels)); err != nil || !maps.Equal(labels, back) {
			t.Fatalf("%q is stored as %v, %v", s, back, err)
		}
	})
}
