package health

import (
	"bufio"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// system is a family of distributions: its install command, and its packages for the audited libraries.
type system struct {
	ids      []string // ID and ID_LIKE in os-release
	install  string
	packages map[string]string
}

var systems = []system{
	// A development package depends on the distribution's release of the library.
	{[]string{"debian", "ubuntu"}, "apt-get install -y", map[string]string{"openblas": "libopenblas0", "onednn": "libdnnl-dev"}},
	{[]string{"fedora", "rhel", "centos"}, "dnf install -y", map[string]string{"openblas": "openblas", "onednn": "onednn"}},
	{[]string{"suse", "opensuse"}, "zypper install -y", map[string]string{"openblas": "libopenblas_pthreads0", "onednn": "libdnnl3"}},
	{[]string{"arch"}, "pacman -S --noconfirm", map[string]string{"openblas": "openblas", "onednn": "onednn"}},
}

// MissingLibraries names the CPU libraries that this machine lacks, with the command that installs them on
// the system described by osRelease. If all are present, it returns "" without calling osRelease.
func MissingLibraries(missing []kernels.Missing, osRelease func() string) string {
	var names []string
	for _, m := range missing {
		if !m.Broken && (m.Name == "openblas" || m.Name == "onednn") {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	text := strings.Join(names, " and ") + " not found, so only gemmaudit's own kernels are compared on the CPU"
	if len(names) == 1 {
		text = names[0] + " not found"
	}
	s := systemOf(osRelease())
	if s == nil {
		return text
	}
	var packages []string
	for _, n := range names {
		packages = append(packages, s.packages[n])
	}
	return text + ": " + s.install + " " + strings.Join(packages, " ")
}

func systemOf(osRelease string) *system {
	var ids []string
	for lines := bufio.NewScanner(strings.NewReader(osRelease)); lines.Scan(); {
		if key, value, _ := strings.Cut(lines.Text(), "="); key == "ID" || key == "ID_LIKE" {
			ids = append(ids, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	for i := range systems {
		if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(systems[i].ids, id) }) {
			return &systems[i]
		}
	}
	return nil
}
