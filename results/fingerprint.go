package results

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Fingerprint is everything about a machine and a build that can change a
// timing. Two runs are compared factor by factor over it before any number is.
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
	Governor   string         `json:"governor,omitempty"` // "performance"; empty when the kernel doesn't tell
	Turbo      string         `json:"turbo,omitempty"`    // "on", "off"
	SMT        string         `json:"smt,omitempty"`
	Hypervisor string         `json:"hypervisor,omitempty"`
	THP        string         `json:"thp,omitempty"` // transparent huge pages
	Devices    []kernels.Spec `json:"devices"`
}

// Factor is one line of a fingerprint: a name and its value in words.
type Factor struct {
	Name  string `json:"name"`
	Value string `json:"value"` // empty when unknown
	// Identity marks what tells machines and cards apart without changing a timing: a
	// host's name, a card's uuid. It never confounds a comparison.
	Identity bool `json:"identity,omitempty"`
	// Device is the device that it is of, whose id is ahead of Line in the name; empty for the host's.
	Device string `json:"-"`
	Line   string `json:"-"`
}

// FactorDiff is a factor in which two fingerprints differ. A value is empty where
// that side doesn't have the factor.
type FactorDiff struct {
	Name     string `json:"name"`
	A        string `json:"a"`
	B        string `json:"b"`
	Identity bool   `json:"identity,omitempty"`
	// Device and Line are those of [Factor].
	Device string `json:"-"`
	Line   string `json:"-"`
}

// Anonymous is the fingerprint without what tells a machine from others of its kind: the host's name, its operating system's kernel and the
// uuids of its cards.
func (f Fingerprint) Anonymous() Fingerprint {
	f.Hostname, f.Kernel = "", ""
	f.Devices = slices.Clone(f.Devices)
	for i := range f.Devices {
		f.Devices[i].UUID = ""
	}
	return f
}
