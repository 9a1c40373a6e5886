package kernels

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Provider finds the devices of one kind on this machine.
type Provider interface {
	// Open returns the devices that can be used and the reasons for those that
	// can't. It never fails: a machine without the hardware has no devices.
	Open() ([]Device, []Missing)
}

// Registry holds the devices of this machine in the order of their providers.
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

// Select returns the devices that a selector names: "cpu", "cuda:0",
// "cuda:all", or "auto", which is the first card when there is one and the first device
// otherwise.
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
		return nil, fmt.Errorf("no device %q: this machine has none that can be used (%s)", selector, strings.Join(why, "; "))
	}
	why := r.WhyNot(selector)
	if why != "" {
		why = "; " + why
	}
	return nil, fmt.Errorf("no device %q: this machine has %s%s", selector, strings.Join(have, ", "), why)
}

// WhyNot is why a device, or its whole kind, can't be used, empty when nothing is known
// of it.
func (r *Registry) WhyNot(id string) string {
	var why []string
	for _, m := range r.missing {
		// A kind that is missing altogether is listed as "cuda".
		if m.Name == id || strings.HasPrefix(id, m.Name+":") {
			why = append(why, m.Name+": "+m.Reason)
		}
	}
	return strings.Join(why, "; ")
}

// Keep closes all devices but those given: an open one takes memory from others and,
// where it is exclusive, the device itself.
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

// Close closes every device.
func (r *Registry) Close() error {
	var errs []error
	for _, d := range r.devices {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// UnavailableError says that a kernel is known and that this machine can't offer it.
type UnavailableError struct{ Kernel, Device, Reason string }

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("kernel %q is not available on %s: %s", e.Kernel, e.Device, e.Reason)
}

// FindGemm returns the kernel of that name on d, which may be one of the
// [Candidates] of another, or an algorithm of it: see [AlgorithmTaker]. The error lists the names there are, or is an
// [*UnavailableError] when the kernel is known but missing.
func FindGemm(d Device, name string) (Gemm, error) {
	base, n := SplitCandidate(name)
	library, algorithm, exact := SplitAlgorithm(name)
	if exact {
		base = library
	}
	var have []string
	for _, g := range d.Gemms() {
		if g.Name() == name {
			return g, nil
		}
		if n > 0 && g.Name() == base {
			if c, ok := g.(Candidates); ok {
				return c.Candidate(n), nil
			}
			return nil, fmt.Errorf("unknown kernel %q on %s: %s does not choose among algorithms", name, d.Spec().ID, base)
		}
		if exact && g.Name() == base {
			if t, ok := g.(AlgorithmTaker); ok {
				return t.WithAlgorithm(algorithm), nil
			}
			return nil, fmt.Errorf("unknown kernel %q on %s: %s takes no algorithm by its attributes", name, d.Spec().ID, base)
		}
		have = append(have, g.Name())
	}
	for _, m := range d.Missing() {
		if m.Name == name || m.Name == base {
			return nil, &UnavailableError{Kernel: name, Device: d.Spec().ID, Reason: m.Reason}
		}
	}
	return nil, fmt.Errorf("unknown kernel %q on %s: expected one of %s", name, d.Spec().ID, strings.Join(have, ", "))
}
