package calibration

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// own is a card of its own kind whose constants are those of the reference times a factor.
func own(t testing.TB, factor float64) *Card {
	t.Helper()
	Of[common]("common")
	cards, err := Cards()
	if err != nil {
		t.Fatal(err)
	}
	c := cards[0].Clone()
	c.Card, c.SMs, c.Bandwidth, c.Program, c.From = "NVIDIA H20", 78, 4.5e12, "v1", cards[0].Card
	for _, m := range c.Models {
		for name, q := range m.Constants {
			q.Value *= factor
			m.Constants[name] = q
		}
	}
	return c
}

// What is used stands for such cards alone, until it is dropped.
func TestUse(t *testing.T) {
	models := Of[common]("common")
	reference := models.For(90, 132, 4.8e12).L2
	c := own(t, 2)
	before := Edition()
	if err := Use(c); err != nil {
		t.Fatal(err)
	}
	defer Drop(c.Capability, c.SMs, c.Bandwidth)
	c.Models["common"].Constants["l2"] = Quantity{1, "B/cycle"} // a copy is used
	expect := func(what string, want float64, used bool) {
		t.Helper()
		if got := models.For(90, 78, 4.5e12).L2; got != want {
			t.Errorf("%s: L2 is %v, want %v", what, got, want)
		}
		card, is, err := InForce(90, 78, 4.5e12)
		if err != nil || is != used || card.Models["common"].Constants["l2"].Value != want {
			t.Errorf("%s: in force %+v, %v, %v", what, card, is, err)
		}
		if got := models.For(90, 132, 4.8e12).L2; got != reference {
			t.Errorf("%s: the reference's L2 is %v", what, got)
		}
	}
	expect("used", 2*reference, true)
	if err := Use(own(t, 3)); err != nil {
		t.Fatal(err)
	}
	expect("used anew", 3*reference, true)
	other := own(t, 4)
	other.Card = "NVIDIA H20E"
	if err := Use(other); err == nil || !strings.Contains(err.Error(), "can't tell it from NVIDIA H20") {
		t.Errorf("two cards that nothing tells apart: %v", err)
	}
	restore, err := Try(own(t, 5))
	if err != nil {
		t.Fatal(err)
	}
	if got := models.For(90, 78, 4.5e12).L2; got != 5*reference {
		t.Errorf("tried: L2 is %v", got)
	}
	restore()
	Drop(90, 78, 4.5e12)
	expect("dropped", reference, false)
	if n := Edition() - before; n != 3 {
		t.Errorf("%d editions, want 3", n)
	}
	Drop(90, 78, 4.5e12)
	if n := Edition() - before; n != 3 {
		t.Errorf("%d editions after there was nothing to drop", n)
	}
}

// Constants that no card has are refused, however a file came by them.
func TestPlausible(t *testing.T) {
	on := own(t, 1)
	like, err := Nearest(on.Capability, on.SMs, on.Bandwidth)
	if err != nil {
		t.Fatal(err)
	}
	usual := fmt.Sprintf("expected about %v as on %s", like.Models["common"].Constants["launch"].Value, like.Card)
	for _, c := range []struct {
		factor float64
		want   string // empty for none
	}{
		{1, ""},
		{0.02, ""},
		{50, ""},
		{101, "model common: launch is 0.000202, " + usual},
		{0.009, usual},
		{math.Inf(1), "expected a positive number"},
		{math.NaN(), "expected a positive number"},
		{-1, "expected a positive number"},
	} {
		card := own(t, 1)
		card.Models["common"].Constants["launch"] = Quantity{2e-6 * c.factor, "s"}
		err := card.Plausible()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("times %v: %v, want %q", c.factor, err, c.want)
		}
	}
}

// Whatever a card holds, it is read as it was written, and its id follows from its constants alone.
func TestEncodeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~äß÷"\\]{1,20}`)
		value := rapid.Float64Range(1e-12, 1e15)
		quantities := rapid.MapOfN(text, rapid.Custom(func(t *rapid.T) Quantity {
			return Quantity{value.Draw(t, "value"), rapid.SampledFrom([]string{"s", "1", "B/s"}).Draw(t, "unit")}
		}), 1, 5)
		c := &Card{
			Format: Format, Card: text.Draw(t, "card"), Capability: rapid.IntRange(1, 200).Draw(t, "capability"), SMs: rapid.IntRange(1, 500).Draw(t, "sms"),
			Bandwidth: value.Draw(t, "bandwidth"), Driver: text.Draw(t, "driver"), Date: rapid.SampledFrom([]string{"2026-11-21", "1999-12-31"}).Draw(t, "date"),
			Program: rapid.SampledFrom([]string{"", "v1"}).Draw(t, "program"), From: rapid.SampledFrom([]string{"", "A100"}).Draw(t, "from"),
			Models: map[string]Model{},
		}
		if rapid.Bool().Draw(t, "measured") {
			c.Measured = quantities.Draw(t, "quantities")
		}
		for _, name := range rapid.SliceOfNDistinct(text, 1, 3, rapid.ID[string]).Draw(t, "models") {
			c.Models[name] = Model{FittedTo: text.Draw(t, "fitted"), Constants: quantities.Draw(t, "constants")}
		}
		again, err := Parse(c.Encode())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Encode())
		}
		if !bytes.Equal(again.Encode(), c.Encode()) || !maps.Equal(again.Measured, c.Measured) || again.Program != c.Program || again.From != c.From {
			t.Fatalf("read again: %s\nwritten: %s", again.Encode(), c.Encode())
		}
		other := again.Clone()
		other.Date, other.Driver, other.Measured = "2001-01-01", "another", nil
		if other.ID() != c.ID() {
			t.Fatal("the id follows from more than the constants")
		}
		for name, m := range other.Models {
			for constant, q := range m.Constants {
				q.Value *= 1.5
				m.Constants[constant] = q
			}
			other.Models[name] = m
		}
		if other.ID() == c.ID() {
			t.Fatal("other constants have the same id")
		}
	})
}
