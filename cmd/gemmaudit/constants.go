package main

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
)

// tellConstants notes once, of each device whose kernels are planned by another card's constants, whose those are,
// and why what was measured here is not in force.
func (a *app) tellConstants(devices []kernels.Device) {
	for _, d := range devices {
		c, ok := d.(kernels.Calibrated)
		id := d.Spec().ID
		if !ok || a.toldConstants[id] {
			continue
		}
		if a.toldConstants == nil {
			a.toldConstants = map[string]bool{}
		}
		a.toldConstants[id] = true
		k := c.Constants()
		if k.Note != "" {
			a.warnf("%s: %s", id, k.Note)
		}
		if !k.Own && !k.Measured {
			a.notef("%s: %s", id, report.ConstantsText(k))
		}
	}
}

// stateConstants is the key under which a run keeps the constants of a device that were measured, by the device's id. Those that ship
// follow from the program's version.
func stateConstants(id string) string { return "constants " + id }

// recordConstants keeps the constants in force, so that who goes on with the run plans alike.
func recordConstants(run *results.Run, devices []kernels.Device) error {
	for _, d := range devices {
		c, ok := d.(kernels.Calibrated)
		if !ok {
			continue
		}
		if k := c.Constants(); k.Text != "" {
			if err := run.SetState(stateConstants(d.Spec().ID), k.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// sameConstants has devices plan by the constants that a run began with, whatever was measured since.
func (a *app) sameConstants(run *results.Run, devices []kernels.Device) error {
	for _, d := range devices {
		c, ok := d.(kernels.Calibrated)
		if !ok {
			continue
		}
		then, _, err := run.State(stateConstants(d.Spec().ID))
		if err != nil {
			return err
		}
		same := c.Constants().Text == then
		if err := c.UseConstants(then); err != nil {
			return hint(devicef("%s: its kernels were planned by constants that can't be used here: %w", run.Path(), err),
				"the version of the program that measured it goes on with it, or a new run, which diff compares with this one")
		}
		if same {
			continue
		}
		a.notef("%s: %s, as when %s began", d.Spec().ID, report.ConstantsText(c.Constants()), run.Path())
	}
	return nil
}
