package main

import (
	"cmp"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// newMeasurer returns what measures cases of a run again: the devices that the
// run came from, of which this machine must have one. Cases of others get no samples.
func (a *app) newMeasurer(run *results.Run) (*sweep.Measurer, error) {
	meta := run.Meta()
	if meta.Source != "" {
		return nil, hint(devicef("%s was imported from %s: there is no device to ask again", run.Path(), meta.Source),
			"without --confirm and --execute the stored samples are judged")
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
	if err := a.sameConstants(run, devices); err != nil {
		return nil, err
	}
	a.keep(devices...)
	run.MeasuredOn(fingerprintOf(devices))
	if err := a.forgetFaults(run); err != nil {
		return nil, err
	}
	return sweep.NewMeasurer(sweep.MeasureConfig{Devices: devices, Absent: absent, Out: run, Observer: a.newMeter(), Now: a.now, CaseTimeout: a.faults.timeout})
}

// measuredHere says whether a run came from the devices of this machine, so
// that they can be asked again.
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
