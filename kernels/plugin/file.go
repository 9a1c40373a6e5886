package plugin

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// File identifies an opened library.
type File struct {
	Path        string
	Name        string
	Description string
	// SHA256 is the file's hash in hexadecimal.
	SHA256 string
	// Kind is the kind of device that the library supports.
	Kind kernels.Kind
}

// Version returns the kernel's version for a device's specification.
func (f File) Version() string { return kernels.FileVersion(f.SHA256) }

// Describe returns the library's description, or its path without one.
func (f File) Describe() string {
	if f.Description == "" {
		return "brought as " + f.Path
	}
	return f.Description
}

// Suits returns an error if the library is for another kind of device, or if the device has a kernel of the
// same name. path is the file as the user wrote it.
func (f File) Suits(d kernels.Device, path string) error {
	switch spec := d.Spec(); {
	case f.Kind != spec.Kind:
		return fmt.Errorf("kernel %q is for devices of kind %s, %s is another", path, f.Kind, spec.ID)
	case kernels.ClashingName(d, f.Name):
		return fmt.Errorf("kernel %q is named %s, as another of %s is: expected a name of its own", path, f.Name, spec.ID)
	}
	return nil
}
