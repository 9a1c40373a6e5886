package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// shareable returns an error if another process can't use a GPU beside this one.
func shareable(s kernels.Spec) error {
	switch mode := s.Settings["compute mode"]; {
	case strings.HasPrefix(mode, "exclusive"):
		return fmt.Errorf("%s is in compute mode %s, which admits one process: `nvidia-smi -c DEFAULT` admits the one with the kernels",
			s.ID, mode)
	case s.Settings["mig"] == "on":
		return fmt.Errorf("%s is divided by MIG: kernels of another process need a whole GPU", s.ID)
	}
	return nil
}

// Launches is the name of the setting for how blocks run where another process has kernels: without it, launches go
// to a stream, and kernels that can overlap do.
const Launches = "launches"

// MPS is the name of the setting for NVIDIA's multi-process service.
const MPS = "mps"

// underMPS reports whether processes of this user reach GPUs through the multi-process service, which runs work of
// several processes at once and lets a fault of one end the others.
func underMPS(env func(string) string) bool {
	folder := env("CUDA_MPS_PIPE_DIRECTORY")
	if folder == "" {
		folder = "/tmp/nvidia-mps"
	}
	_, err := os.Stat(filepath.Join(folder, "control"))
	return err == nil
}
