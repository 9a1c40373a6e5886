//go:build cuda

package management

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const oldNVML = "GEMMAUDIT_TEST_OLD_NVML"

// TestOldNVML calls everything on a library that lacks most functions. It uses another process, because a
// call to a missing function ends the process.
func TestOldNVML(t *testing.T) {
	if path := os.Getenv(oldNVML); path != "" {
		c := newManagement(nvml.New(nvml.WithLibraryPath(path))).Card(busH200)
		s, err := c.CardState()
		fmt.Println("state:", s.PowerW, s.Throttle, len(s.Unknown), err)
		fmt.Printf("telemetry: %+v\n", c.Telemetry())
		fmt.Println("versions:", c.m.versions())
		for _, u := range s.Unknown {
			fmt.Println("unknown:", u.Name, u.Reason)
		}
		return
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler here to build a fake NVML with")
	}
	source := filepath.Join("testdata", "fake_nvml.c")
	if _, err := os.Stat(source); err != nil {
		t.Skipf("the sources are not here: %v", err)
	}
	library := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOldNVML$")
	cmd.Env = append(os.Environ(), oldNVML+"="+library)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"state: 70 [power cap] ", "telemetry: {PowerW:70 TempC:0 Throttle:power cap}", "versions: map[]",
		"unknown: clock this driver's NVML has no nvmlDeviceGetClockInfo", "unknown: temperature this card does not tell",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// An invalid library file is reported as the reason.
	broken := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(broken, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	if m := newManagement(nvml.New(nvml.WithLibraryPath(broken))); m.err == nil {
		t.Error("a text file is an NVML")
	}
}
