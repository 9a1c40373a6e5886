package calibration

import (
	"math"
	"strings"
	"sync"
	"testing"
)

type model struct {
	Start float64 `constant:"start" unit:"s"`
	Rate  float64 `constant:"rate" unit:"B/s"`
}

const sound = `{"format": 1, "card": "NVIDIA T4", "capability": 75, "sms": 40, "bandwidth": 3.2e11, "driver": "550.54", "date": ` +
	`"2026-01-02", "models":
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

func TestRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"format": 1`, `"format": 2`, "calibration: format 2, expected 1"},
		{`"driver": "550.54"`, `"driver": ""`, `calibration of "NVIDIA T4": card, capability, sms, bandwidth, driver or date is missing`},
		{`3.2e11, "driver"`, `0, "driver"`, "bandwidth, driver or date is missing"},
		{`"date": "`, `"date": "x`, `, expected one like 2026-11-21`},
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

func TestCards(t *testing.T) {
	cards := Cards()
	if cards[0].Card != "NVIDIA H200" {
		t.Errorf("the first card is %s", cards[0].Card)
	}
	seen := map[[3]float64]string{}
	for _, c := range cards {
		key := [3]float64{float64(c.Capability), float64(c.SMs), c.Bandwidth}
		if other := seen[key]; other != "" {
			t.Errorf("%s and %s are told apart by nothing", other, c.Card)
		}
		seen[key] = c.Card
	}
	if models := Of[common]("common"); models.For(90, 132, 4.8e12) != models.For(75, 40, 3.2e11) {
		t.Error("a card that is not calibrated has other constants than the reference")
	}
}

type common struct {
	Launch float64 `constant:"launch" unit:"s"`
	Memory float64 `constant:"memory" unit:"1"`
	L2     float64 `constant:"l2" unit:"B/cycle"`
}

func TestDistance(t *testing.T) {
	cards := []*Card{
		{Card: "H200", Capability: 90, SMs: 132, Bandwidth: 4.8e12},
		{Card: "H100", Capability: 90, SMs: 132, Bandwidth: 3.35e12},
		{Card: "H100 PCIe", Capability: 90, SMs: 114, Bandwidth: 2e12},
	}
	for _, c := range []struct {
		capability, sms int
		bandwidth       float64
		want            string // empty for none
	}{
		{90, 132, 4.8e12, "H200"},
		{90, 132, 4.9e12, "H200"},
		{90, 132, 3.35e12, "H100"},
		{90, 132, 3.9e12, "H100"}, // an H100 NVL
		{90, 132, 0, "H200"},
		{90, 114, 2.04e12, "H100 PCIe"},
		{90, 114, 0, "H100 PCIe"},
		{80, 108, 1.555e12, ""},
	} {
		got, least := "", math.Inf(1)
		for _, card := range cards {
			if far := card.distance(c.capability, c.sms, c.bandwidth); far < least {
				got, least = card.Card, far
			}
		}
		if got != c.want {
			t.Errorf("%d with %d multiprocessors and %.4g B/s: nearest to %q, want %q", c.capability, c.sms, c.bandwidth, got, c.want)
		}
	}
}

// A tried card replaces every GPU's until the previous one is restored.
func TestTry(t *testing.T) {
	models := Of[common]("common")
	before := *models.For(90, 132, 4.8e12)
	cards := Cards()
	try := func(c *Card, l2 float64) (restore func()) {
		t.Helper()
		c = c.Clone()
		c.Models["common"].Constants["l2"] = Quantity{l2, "B/cycle"}
		restore, err := Try(c)
		if err != nil {
			t.Fatal(err)
		}
		c.Models["common"].Constants["l2"] = Quantity{1, "B/cycle"}
		return restore
	}
	expect := func(want float64) {
		t.Helper()
		for _, capability := range []int{90, 75} {
			if got := models.For(capability, 132, 0).L2; got != want {
				t.Errorf("L2 is %v on %d, want %v", got, capability, want)
			}
		}
	}
	first := try(cards[0], 70)
	expect(70)
	second := try(cards[0], 80)
	expect(80)
	second()
	expect(70)
	first()
	expect(before.L2)

	broken := cards[0].Clone()
	delete(broken.Models["common"].Constants, "l2")
	if restore, err := Try(broken); err == nil || restore != nil || !strings.Contains(err.Error(), "no constant l2") {
		t.Errorf("a card without a constant that is read was tried: %v", err)
	}
	expect(before.L2)
}

// Trials may change during queries: each answer is from one card.
func TestTryWhileAsked(t *testing.T) {
	models := Of[common]("common")
	cards := Cards()
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if m := models.For(90, 132, 4.8e12); m.L2 != m.Launch && m.L2 < 50 {
					t.Errorf("constants of two cards: %+v", *m)
					return
				}
			}
		})
	}
	for i := range 200 {
		c := cards[0].Clone()
		both := float64(i%40 + 1)
		c.Models["common"].Constants["l2"] = Quantity{both, "B/cycle"}
		c.Models["common"].Constants["launch"] = Quantity{both, "s"}
		restore, err := Try(c)
		if err != nil {
			t.Fatal(err)
		}
		restore()
	}
	close(stop)
	asking.Wait()
}

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

// BenchmarkFor measures the lookup that each candidate plan makes.
func BenchmarkFor(b *testing.B) {
	models := Of[common]("common")
	for b.Loop() {
		models.For(90, 132, 4.8e12)
	}
}
