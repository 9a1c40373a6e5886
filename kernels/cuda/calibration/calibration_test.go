package calibration

import (
	"strings"
	"testing"
)

type model struct {
	Start float64 `constant:"start" unit:"s"`
	Rate  float64 `constant:"rate" unit:"B/s"`
}

const sound = `{"format": 1, "card": "NVIDIA T4", "capability": 75, "sms": 40, "driver": "550.54", "date": "2026-01-02", "models":
{"gemv": {"fitted_to": "nothing", "constants": {"start": {"value": 2e-6, "unit": "s"}, "rate": {"value": 3e11, "unit": "B/s"}}}}}`

func TestDecode(t *testing.T) {
	c, err := Parse([]byte(sound))
	if err != nil {
		t.Fatal(err)
	}
	var m model
	if err := c.Decode("gemv", &m); err != nil || m != (model{2e-6, 3e11}) {
		t.Errorf("got %+v, %v", m, err)
	}
}

// What does not fit is told with the card, the model and the constant.
func TestRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"format": 1`, `"format": 2`, "calibration: format 2, expected 1"},
		{`"driver": "550.54"`, `"driver": ""`, `calibration of "NVIDIA T4": card, capability, sms, driver or date is missing`},
		{`"driver"`, `"drivers"`, `unknown field "drivers"`},
		{`}}}}}`, `}}}}} {}`, "more than one object"},
		{`"gemv"`, `"mma"`, "calibration of NVIDIA T4: no model gemv"},
		{`"rate"`, `"late"`, "calibration of NVIDIA T4: model gemv: no constant rate"},
		{`"unit": "B/s"`, `"unit": "GB/s"`, `model gemv: rate in "GB/s", expected "B/s"`},
		{`2e-6`, `0`, "model gemv: start is 0, expected a positive number"},
		{`"constants": {`, `"constants": {"more": {"value": 1, "unit": "1"}, `, "model gemv has no constant more"},
	} {
		card, err := Parse([]byte(strings.Replace(sound, c.from, c.to, 1)))
		if err == nil {
			err = card.Decode("gemv", &model{})
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.to, err, c.want)
		}
	}
}

// The reference comes first, stands for cards that nobody calibrated, and each file is for
// another card.
func TestCards(t *testing.T) {
	cards, err := Cards()
	if err != nil {
		t.Fatal(err)
	}
	if cards[0].Card != "NVIDIA H200" {
		t.Errorf("the first card is %s", cards[0].Card)
	}
	seen := map[[2]int]string{}
	for _, c := range cards {
		key := [2]int{c.Capability, c.SMs}
		if other := seen[key]; other != "" {
			t.Errorf("%s and %s are told apart by nothing", other, c.Card)
		}
		seen[key] = c.Card
	}
	type common struct {
		Launch float64 `constant:"launch" unit:"s"`
		Memory float64 `constant:"memory" unit:"1"`
		L2     float64 `constant:"l2" unit:"B/cycle"`
	}
	models := Of[common]("common")
	if models.For(90, 132) != models.For(75, 40) {
		t.Error("a card that is not calibrated has other constants than the reference")
	}
}

// FuzzParse: whatever is in a file, it is read or refused.
func FuzzParse(f *testing.F) {
	f.Add([]byte(sound))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		for name := range c.Models {
			if err := c.Decode(name, &model{}); err != nil && !strings.HasPrefix(err.Error(), "calibration of ") {
				t.Error(err)
			}
		}
	})
}
