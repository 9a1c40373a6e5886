package main

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

// A sweep's own test of the drift has the bound of the rules that judge its run.
func TestPlansHaveTheRulesBoundOfDrift(t *testing.T) {
	o, err := (&planFlags{changed: func(string) bool { return false }, preset: defaultPreset, tp: []int{1}, layout: "nk", distribution: "normal"}).options()
	if err != nil || o.Sentinel.DriftBound != rules.Default().DriftBound || o.Sentinel.DriftBound == 0 {
		t.Errorf("a bound of %v, expected %v: %v", o.Sentinel.DriftBound, rules.Default().DriftBound, err)
	}
}
