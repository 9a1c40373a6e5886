package health

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestMissingLibraries(t *testing.T) {
	both := []kernels.Missing{{Name: "openblas"}, {Name: "onednn"}, {Name: "cublas"}}
	for _, c := range []struct {
		name    string
		missing []kernels.Missing
		release string
		want    string
	}{
		{"none", nil, "ID=debian", ""},
		{"what is there and fails is told elsewhere", []kernels.Missing{{Name: "openblas", Broken: true}}, "ID=debian", ""},
		{"one on Debian", both[:1], "NAME=x\nID=debian\n", "openblas not found: apt-get install -y libopenblas0"},
		{"a relative of Debian", both[:1], "ID=pop\nID_LIKE=\"ubuntu debian\"\n", "openblas not found: apt-get install -y libopenblas0"},
		{"Rocky", both[1:], "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"", "onednn not found: dnf install -y onednn"},
		{"unknown", both[:1], "ID=plan9", "openblas not found"},
	} {
		if got := MissingLibraries(c.missing, func() string { return c.release }); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got, ends := MissingLibraries(both, func() string { return "ID=arch" }),
		": pacman -S --noconfirm onednn openblas"; len(got) < len(ends) || got[len(got)-len(ends):] != ends {
		t.Errorf("both: %q", got)
	}
}
