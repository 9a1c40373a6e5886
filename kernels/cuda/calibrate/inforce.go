package calibrate

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// InForce is by which constants the kernels of a device are planned. It implements [kernels.Calibrated] for devices
// that embed it.
type InForce struct {
	card string
	arch planning.Arch
	tell func(version string)
	note string
}

// CalibrationVersion is what constants that were measured are called among a device's versions. Those that ship are not
// among them: they follow from the program's version.
const CalibrationVersion = "calibration"

// NewInForce puts those constants in force for a card that were measured on such a card under the same driver by the same
// program, where there are any. Those that can't be used are noted: the card works with what ships. tell is told what
// the device's versions say of its constants now and later, nothing of those that ship.
func NewInForce(from kept.Store, of kept.Key, a planning.Arch, tell func(version string)) *InForce {
	f := &InForce{card: of.Card, arch: a, tell: tell}
	calibration.Drop(a.CC, a.SMs, a.Bandwidth) // what a device that is closed used
	c, err := from.Load(of)
	if err == nil && c != nil {
		if err = f.use(c); err != nil {
			err = fmt.Errorf("%s: %w", from.Path(of), err)
		}
	}
	switch {
	case err != nil:
		f.note = fmt.Sprintf("constants that were measured here are not used: %v", err)
	case c == nil:
		if others, err := from.Others(of); err == nil && len(others) > 0 {
			f.note = fmt.Sprintf("constants that were measured here under driver %s by version %s are not used: `gemmaudit calibrate` measures them anew", others[0].Driver, others[0].Program)
		}
	}
	f.told()
	return f
}

// use puts a card's constants in force where they are of this card.
func (f *InForce) use(c *calibration.Card) error {
	if a := f.arch; c.Card != f.card || c.Capability != a.CC || c.SMs != a.SMs || c.Bandwidth != a.Bandwidth {
		return fmt.Errorf("they are of %s with %d multiprocessors and %.4g B/s, expected %s with %d and %.4g B/s", c.Card, c.SMs, c.Bandwidth, f.card, a.SMs, a.Bandwidth)
	}
	return calibration.Use(c)
}

// told has the device's versions say by which constants it plans.
func (f *InForce) told() {
	version := ""
	if c := f.Constants(); c.Measured {
		version = c.Version()
	}
	f.tell(version)
}

// Constants implements [kernels.Calibrated].
func (f *InForce) Constants() kernels.Constants {
	c, used, err := calibration.InForce(f.arch.CC, f.arch.SMs, f.arch.Bandwidth)
	if err != nil {
		return kernels.Constants{Note: err.Error()}
	}
	k := kernels.Constants{Card: c.Card, Own: c.Card == f.card, Measured: used, ID: c.ID(), Date: c.Date, Note: f.note}
	if used {
		k.Text = string(c.Encode())
	}
	return k
}

// UseConstants implements [kernels.Calibrated].
func (f *InForce) UseConstants(text string) error {
	defer f.told()
	if text == "" {
		calibration.Drop(f.arch.CC, f.arch.SMs, f.arch.Bandwidth)
		return nil
	}
	if len(text) > kept.MostBytes {
		return fmt.Errorf("constants of %d bytes, expected at most %d", len(text), kept.MostBytes)
	}
	c, err := calibration.Parse([]byte(text))
	if err != nil {
		return err
	}
	return f.use(c)
}
