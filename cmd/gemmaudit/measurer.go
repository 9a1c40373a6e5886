package main

import (
	"cmp"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// newMeasurer measures cases of a run again on the run's devices. This machine must have at least one; cases
// of the others get no samples.
func (a *app) newMeasurer(run *results.Run) (*sweep.Measurer, error) {
	meta := run.Meta()
	if meta.Source != "" {
		return nil, hint(devicef("%s was imported from %s: its device is not available", run.Path(), meta.Source),
			"omit --confirm and --execute to judge the stored samples")
	}
	var ids []string
	for _, spec := range meta.Fingerprint.Devices {
		ids = append(ids, spec.ID)
	}
	devices, absent, err := a.presentDevices(ids)
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(sameDevices(run, devices), sameBrought(run, devices)); err != nil {
		return nil, err
	}
	a.keep(devices...)
	run.MeasuredOn(fingerprintOf(devices))
	if err := a.forgetFaults(run); err != nil {
		return nil, err
	}
	return sweep.NewMeasurer(sweep.MeasureConfig{Devices: devices, Absent: absent, Out: run, Observer: a.newMeter(), Now: a.now,
		CaseTimeout: a.faults.timeout})
}

// measuredHere reports whether a run's devices are this machine's, so they can measure again.
func (a *app) measuredHere(meta results.Meta) bool {
	if meta.Source != "" || len(meta.Fingerprint.Devices) == 0 {
		return false
	}
	for _, spec := range meta.Fingerprint.Devices {
		devices, err := a.devicesByID([]string{spec.ID})
		if err != nil || devices[0].Spec().Name != spec.Name {
			return false
		}
	}
	return results.ReadFingerprint(nil, "").Hostname == meta.Fingerprint.Hostname
}
