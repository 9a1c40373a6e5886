package plugin

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// File is what an opened library says of itself, whatever it computes.
type File struct {
	Path        string
	Name        string
	Description string
	// SHA256 of the file, in hexadecimal, tells builds apart.
	SHA256 string
	// Kind is the kind of device that it is for.
	Kind kernels.Kind
}

// Version is what a device's specification says of the kernel.
func (f File) Version() string { return kernels.FileVersion(f.SHA256) }

// Describe is the library's description of its kernel, or where it was found.
func (f File) Describe() string {
	if f.Description == "" {
		return "brought as " + f.Path
	}
	return f.Description
}

// Suits returns nil when a device can take the kernel in: it is for devices of its kind, and
// nothing there has its name. path is the file as the user named it.
func (f File) Suits(d kernels.Device, path string) error {
	switch spec := d.Spec(); {
	case f.Kind != spec.Kind:
		return fmt.Errorf("kernel %q is for devices of kind %s, %s is another", path, f.Kind, spec.ID)
	case kernels.ClashingName(d, f.Name):
		return fmt.Errorf("kernel %q is named %s, as another of %s is: expected a name of its own", path, f.Name, spec.ID)
	}
	return nil
}
