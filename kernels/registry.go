package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Provider finds the devices of one kind on this machine.
type Provider interface {
	// Open returns the usable devices, and the others with reasons. It never fails: a machine without the
	// hardware has no devices.
	Open() ([]Device, []Missing)
}

// Registry holds this machine's devices in provider order.
type Registry struct {
	devices []Device
	missing []Missing
}

// NewRegistry opens every provider.
func NewRegistry(providers ...Provider) *Registry {
	r := &Registry{}
	for _, p := range providers {
		devices, missing := p.Open()
		r.devices = append(r.devices, devices...)
		r.missing = append(r.missing, missing...)
	}
	return r
}

// Devices lists all devices.
func (r *Registry) Devices() []Device { return r.devices }

// Missing lists the devices that could not be opened, with reasons.
func (r *Registry) Missing() []Missing { return r.missing }

// Select returns the devices of a selector: "cpu", "cuda:0", "cuda:all", or "auto", the first card or
// otherwise the first device.
func (r *Registry) Select(selector string) ([]Device, error) {
	match := func(want func(Spec) bool) []Device {
		var out []Device
		for _, d := range r.devices {
			if want(d.Spec()) {
				out = append(out, d)
			}
		}
		return out
	}
	switch {
	case selector == "" || selector == "auto":
		if cards := match(func(s Spec) bool { return s.Kind.Facts().Card }); len(cards) > 0 {
			return cards[:1], nil
		}
		if len(r.devices) > 0 {
			return r.devices[:1], nil
		}
	case strings.HasSuffix(selector, ":all"):
		kind := Kind(strings.TrimSuffix(selector, ":all"))
		if all := match(func(s Spec) bool { return s.Kind == kind }); len(all) > 0 {
			return all, nil
		}
	default:
		if one := match(func(s Spec) bool { return s.ID == selector }); len(one) > 0 {
			return one, nil
		}
	}
	var have []string
	for _, d := range r.devices {
		have = append(have, d.Spec().ID)
	}
	if len(have) == 0 {
		var why []string
		for _, m := range r.missing {
			why = append(why, m.Name+": "+m.Reason)
		}
		return nil, fmt.Errorf("no device %q: this machine has no usable one (%s)", selector, strings.Join(why, "; "))
	}
	why := r.WhyNot(selector)
	if why != "" {
		why = "; " + why
	}
	return nil, fmt.Errorf("no device %q: this machine has %s%s", selector, strings.Join(have, ", "), why)
}

// WhyNot returns why a device or its kind is unavailable, empty if unknown.
func (r *Registry) WhyNot(id string) string {
	var why []string
	for _, m := range r.missing {
		// An unavailable kind is listed as "cuda".
		if m.Name == id || strings.HasPrefix(id, m.Name+":") {
			why = append(why, m.Name+": "+m.Reason)
		}
	}
	return strings.Join(why, "; ")
}

// Keep closes all devices except the given ones. An open device takes memory, and an exclusive one blocks
// other processes.
func (r *Registry) Keep(devices ...Device) error {
	var errs []error
	r.devices = slices.DeleteFunc(r.devices, func(d Device) bool {
		if slices.ContainsFunc(devices, func(k Device) bool { return k.Spec().ID == d.Spec().ID }) {
			return false
		}
		errs = append(errs, d.Close())
		return true
	})
	return errors.Join(errs...)
}

func (r *Registry) Close() error {
	var errs []error
	for _, d := range r.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// UnavailableError reports that a known kernel is not available on this machine.
type UnavailableError struct{ Kernel, Device, Reason string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("kernel %q is not available on %s: %s", e.Kernel, e.Device, e.Reason)
}
