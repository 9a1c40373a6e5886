package kernels

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

const fileVersion = "sha256:"

// FileVersion returns the [Spec].Versions entry of a kernel loaded from a file with this SHA-256.
func FileVersion(sha256 string) string { return fileVersion + sha256 }

// FileSHA256 returns a file's SHA-256 in hexadecimal.
func FileSHA256(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		var at *os.PathError
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// IsFileVersion reports whether a version is that of a kernel from a file.
func IsFileVersion(version string) bool { return strings.HasPrefix(version, fileVersion) }

// BroughtKernels returns the sorted names of the kernels that versions lists as loaded from files.
func BroughtKernels(versions map[string]string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, version := range versions {
			if IsFileVersion(version) && !yield(name) {
				return
			}
		}
	})
}

// BroughtFlags returns command-line flags that load the named kernels again: a kernel's file, or all versions
// of a library. Runs store no paths, so each path is PATH. Built-in kernels have no flags.
func BroughtFlags(versions map[string]string, names ...string) []string {
	var flags []string
	brought := BroughtKernels(versions)
	seen := map[string]bool{}
	for _, name := range names {
		name, _, _ = strings.Cut(name, ":") // a further choice
		library, version := SplitVersion(name)
		library = PackageOf(library)
		switch {
		case slices.Contains(brought, name) && !seen[versions[name]]: // kernels of one file have its hash
			seen[versions[name]] = true
			flags = append(flags, "--kernel-file", "PATH")
		case version != "" && !seen[library]:
			seen[library] = true
			for other := range versions {
				if IsVersionOf(other, library) {
					flags = append(flags, "--library", library+"=PATH")
				}
			}
		}
	}
	return flags
}

// WorkerFlags returns the flags of a run's command that say how kernels of another process run. Its paths are PATH.
func WorkerFlags(command string) []string {
	var flags []string
	for _, word := range strings.Fields(command) {
		switch name, value, _ := strings.Cut(word, "="); {
		case name == "--python":
			flags = append(flags, name, "PATH")
		case name == "--eager" && value != "false":
			flags = append(flags, name)
		}
	}
	return flags
}

// nameableVersion matches versions that a kernel name may contain. Libraries report arbitrary text.
var nameableVersion = regexp.MustCompile(`^[0-9A-Za-z._-]{1,32}$`)

// VersionNames names the versions of a library: by version if all differ and fit in a name, otherwise by
// position from 1.
func VersionNames(kernel string, versions []string) []string {
	if len(versions) == 1 {
		return []string{kernel}
	}
	names, seen := make([]string, len(versions)), map[string]bool{}
	for i, v := range versions {
		names[i] = VersionedName(kernel, v)
		if nameableVersion.MatchString(v) {
			seen[v] = true
		}
	}
	if len(seen) == len(versions) {
		return names
	}
	for i := range names {
		names[i] = VersionedName(kernel, fmt.Sprint(i+1))
	}
	return names
}

const digestShown = 12

// LibraryVersion returns the [Spec].Versions entry of one version of a library, named by [VersionNames]. If
// the release is not unique, the entry includes the file's digest, because file order may change.
func LibraryVersion(name, release, build, path string) string {
	version := strings.TrimSuffix(release+" "+build, " ")
	if _, named := SplitVersion(name); named != "" && named != release {
		if sum, err := FileSHA256(path); err == nil {
			version += " sha256 " + sum[:digestShown]
		}
	}
	return version
}

// AddVersion adds a component's version. It copies the map: copies of the specification keep theirs.
func (s *Spec) AddVersion(name, version string) {
	s.Versions = with(s.Versions, name, version)
}

// AddSetting adds a setting. It copies the map, as [Spec.AddVersion] does.
func (s *Spec) AddSetting(name, value string) {
	s.Settings = with(s.Settings, name, value)
}

// with returns a copy of a map, which may be nil, with one more entry.
func with(m map[string]string, name, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[name] = value
	return out
}

// Ladder is the value of --kernel that selects all our own kernels; no kernel has it as its name.
const Ladder = "ladder"

var broughtName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// ValidBroughtName reports whether a kernel from a file may have a name: a lower-case letter, then at most 31
// lower-case letters, digits, - and _. [Ladder] is of this form, and taken.
func ValidBroughtName(name string) bool { return broughtName.MatchString(name) }

// ClashingName reports whether d already has a kernel or operation of this name, or lists it as missing.
func ClashingName(d Device, name string) bool {
	if name == "attention" || name == Overlapping || slices.ContainsFunc(d.Missing(), func(m Missing) bool { return m.Name == name }) {
		return true
	}
	for _, o := range Operations() {
		if slices.ContainsFunc(d.Kernels(o), func(k Kernel) bool { return k.Name() == name }) {
			return true
		}
	}
	_, version := d.Spec().Versions[name]
	return version
}
