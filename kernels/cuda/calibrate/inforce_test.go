package calibrate_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting/fittest"
)

// measured is a T4 as it is kept.
func measured(t testing.TB) *calibration.Card {
	t.Helper()
	c := fittest.Another(t)
	a := cudatest.T4
	c.Card, c.Driver, c.Program, c.Date, c.Capability, c.SMs, c.Bandwidth = "NVIDIA T4", "580.1", "v1", "2026-11-23", a.CC, a.SMs, a.Bandwidth
	return c
}

// What is kept is in force for the driver and the program under which it was measured; what ships stands for all else.
func TestInForce(t *testing.T) {
	store := kept.Store{Dir: t.TempDir()}
	key := kept.Key{Card: "NVIDIA T4", Driver: "580.1", Program: "v1"}
	a := cudatest.T4
	t.Cleanup(func() { calibration.Drop(a.CC, a.SMs, a.Bandwidth) })
	version := "nobody told"
	open := func(k kept.Key) (*calibrate.InForce, kernels.Constants) {
		f := calibrate.NewInForce(store, k, a, func(v string) { version = v })
		return f, f.Constants()
	}
	expect := func(what string, k kernels.Constants, used bool, note string) {
		t.Helper()
		wantVersion := ""
		if used {
			wantVersion = "measured 2026-11-23 " + measured(t).ID()
		}
		if k.Measured != used || k.Own != used || (k.Text != "") != used || version != wantVersion || !strings.Contains(k.Note, note) || (k.Note == "") != (note == "") {
			t.Errorf("%s: %+v, version %q", what, k, version)
		}
	}
	_, k := open(key)
	expect("nothing is kept", k, false, "")
	path, err := store.Save(measured(t))
	if err != nil {
		t.Fatal(err)
	}
	f, k := open(key)
	expect("kept", k, true, "")
	text := k.Text
	_, other := open(kept.Key{Card: key.Card, Driver: "575.2", Program: "v1"})
	expect("another driver", other, false, "under driver 580.1 by version v1 are not used")
	_, other = open(kept.Key{Card: "NVIDIA T4G", Driver: "580.1", Program: "v1"})
	expect("another card", other, false, "")

	// A run that began with what ships goes on with that, and one with what was measured likewise.
	f, _ = open(key)
	if err := f.UseConstants(""); err != nil {
		t.Fatal(err)
	}
	expect("what ships", f.Constants(), false, "")
	if err := f.UseConstants(text); err != nil {
		t.Fatal(err)
	}
	expect("what was measured", f.Constants(), true, "")
	like, err := calibration.Nearest(a.CC, a.SMs, a.Bandwidth)
	if err != nil {
		t.Fatal(err)
	}
	usual := fmt.Sprintf(", expected about %v as on %s", like.Models["common"].Constants["launch"].Value, like.Card)
	for text, want := range map[string]string{
		"{": "unexpected EOF", strings.Repeat(" ", kept.MostBytes+1): "expected at most",
		strings.Replace(text, "NVIDIA T4", "NVIDIA T5", 1):                            "they are of NVIDIA T5",
		strings.Replace(text, `"sms": 40`, `"sms": 41`, 1):                            "with 41 multiprocessors",
		strings.Replace(text, `"launch": {"value": `, `"launch": {"value": 99999`, 1): usual,
	} {
		if err := f.UseConstants(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	expect("after what can't be used", f.Constants(), true, "")

	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, k = open(key)
	expect("a damaged file", k, false, path+": calibration: format 0, expected 1")
	if err := os.WriteFile(path, []byte(strings.Replace(text, `"launch"`, `"lunch"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	_, k = open(key)
	expect("a file without a constant", k, false, path+": calibration of NVIDIA T4: model common: no constant launch")
}
