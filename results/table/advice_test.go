package table

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func advised() *Table {
	t := &Table{Schema: Schema, Created: "2026-11-27T12:00:00Z", Series: []Series{}, Advice: []Advice{{
		Product: Product{Kernel: "cublas", DType: "bf16", Layout: NK, N: 50257, K: 4096}, Kind: PadN, PadTo: 50304, Pad: InPlace,
		ExtraBytes: 385024,
		Proof:      Proof{M: 64, DirectUS: 277, RemedyUS: 146, GainLo: 1.8, GainMid: 1.9, GainHi: 2},
	}}}
	return t
}

func TestAdviceIsReadAsItIsWritten(t *testing.T) {
	wide := advised()
	wide.Advice[0].ExtraBytes = 5 << 30
	text, err := json.Marshal(wide)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(got)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("%s is read as %s (%v)", text, again, err)
	}
}

func TestAdviceIsChecked(t *testing.T) {
	for want, change := range map[string]func(a *Advice){
		"kind is":      func(a *Advice) { a.Kind = "pad" },
		"pad_to is":    func(a *Advice) { a.PadTo = a.N },
		"pad is":       func(a *Advice) { a.Pad = Copied },
		"extra_bytes":  func(a *Advice) { a.ExtraBytes = -1 },
		"no kernel":    func(a *Advice) { a.Kernel = "" },
		"above 0":      func(a *Advice) { a.Proof.DirectUS = 0 },
		"pad_to is 40": func(a *Advice) { a.Kind, a.PadTo = PadK, 4000 },
	} {
		a := advised()
		change(&a.Advice[0])
		if err := a.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
