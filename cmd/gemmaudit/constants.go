package main

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
)

// tellConstants notes once per device if another card's constants plan its kernels.
func (a *app) tellConstants(devices []kernels.Device) {
	for _, d := range devices {
		c, ok := d.(kernels.ConstantsTeller)
		id := d.Spec().ID
		if !ok || a.toldConstants[id] {
			continue
		}
		if a.toldConstants == nil {
			a.toldConstants = map[string]bool{}
		}
		a.toldConstants[id] = true
		if k := c.Constants(); !k.Own {
			a.notef("%s: %s", id, report.ConstantsText(k))
		}
	}
}
