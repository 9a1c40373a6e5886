package results

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Fingerprint is everything about a machine and a build that can change a timing. Comparisons of runs check
// it factor by factor first.
type Fingerprint struct {
	Gemmaudit  string         `json:"gemmaudit"` // version of the program
	Hostname   string         `json:"hostname"`
	OS         string         `json:"os"`     // "Debian GNU/Linux 12"
	Kernel     string         `json:"kernel"` // "6.1.0-18-amd64"
	Arch       string         `json:"arch"`
	CPUModel   string         `json:"cpu_model"`
	Microcode  string         `json:"microcode,omitempty"`
	Cores      int            `json:"cores"` // usable by this process
	MemoryGiB  float64        `json:"memory_gib"`
	Governor   string         `json:"governor,omitempty"` // "performance"; empty if unknown
	Turbo      string         `json:"turbo,omitempty"`    // "on", "off"
	SMT        string         `json:"smt,omitempty"`
	Hypervisor string         `json:"hypervisor,omitempty"`
	THP        string         `json:"thp,omitempty"` // transparent huge pages
	Devices    []kernels.Spec `json:"devices"`
}

// Factor is one line of a fingerprint: a name and its value as text.
type Factor struct {
	Name  string `json:"name"`
	Value string `json:"value"` // empty when unknown
	// Identity marks factors that identify a machine or card without affecting timings: host name, card UUID.
	// They never confound a comparison.
	Identity bool `json:"identity,omitempty"`
	// Device is the factor's device, whose id precedes Line in the name; empty for the host.
	Device string `json:"-"`
	Line   string `json:"-"`
}

// FactorDiff is a factor in which two fingerprints differ. A missing factor has an empty value.
type FactorDiff struct {
	Name     string `json:"name"`
	A        string `json:"a"`
	B        string `json:"b"`
	Identity bool   `json:"identity,omitempty"`
	// Device and Line are as in [Factor].
	Device string `json:"-"`
	Line   string `json:"-"`
}

// Anonymous returns the fingerprint without host name, kernel version and card UUIDs.
func (f Fingerprint) Anonymous() Fingerprint {
	f.Hostname, f.Kernel = "", ""
	f.Devices = slices.Clone(f.Devices)
	for i := range f.Devices {
		f.Devices[i].UUID = ""
	}
	return f
}
