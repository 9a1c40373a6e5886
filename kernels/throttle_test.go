package kernels

import (
	"slices"
	"testing"
)

func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		reasons []ThrottleReason
		text    Throttle
	}{
		{nil, ""},
		{[]ThrottleReason{PowerCap}, "power cap"},
		{[]ThrottleReason{TooHotDriver, PowerBrake}, "too hot (driver), power brake"},
	} {
		got := Throttled(c.reasons...)
		if got != c.text || !slices.Equal(slices.Collect(got.Reasons()), c.reasons) {
			t.Errorf("%q of %q, expected %q", got, c.reasons, c.text)
		}
		if got.Has(PowerCap) != slices.Contains(c.reasons, PowerCap) {
			t.Errorf("%q: the power cap is %v", got, got.Has(PowerCap))
		}
	}
	if Throttle("no power cap").Has(PowerCap) {
		t.Error("a reason is found within another one")
	}
}

func TestThrottleKinds(t *testing.T) {
	for reason, want := range map[ThrottleReason]ThrottleKind{
		PowerCap: PowerThrottle, PowerBrake: PowerThrottle, TooHotDriver: HeatThrottle, TooHotHardware: HeatThrottle,
		HardwareSlowdown: OtherThrottle, ApplicationClocks: OtherThrottle, SyncBoost: OtherThrottle, BoardLimit: OtherThrottle,
		"SW Thermal Slowdown": HeatThrottle, "sw_power_cap": PowerThrottle, "reason 0x400": OtherThrottle,
	} {
		if got := reason.Kind(); got != want {
			t.Errorf("%q is of kind %d, expected %d", reason, got, want)
		}
	}
}
