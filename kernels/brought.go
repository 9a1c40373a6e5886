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

// fileVersion begins the version of a kernel that was brought as a file.
const fileVersion = "sha256:"

// FileVersion is the version in [Spec].Versions of a kernel that was brought as a file with
// this SHA-256.
func FileVersion(sha256 string) string { return fileVersion + sha256 }

// FileSHA256 is the SHA-256 of a file, in hexadecimal.
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

// BroughtKernels lists the kernels among a device's versions that were brought as files, by
// name.
func BroughtKernels(versions map[string]string) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, version := range versions {
			if strings.HasPrefix(version, fileVersion) && !yield(name) {
				return
			}
		}
	})
}

// BroughtFlags are the flags of the command line that bring kernels of these names to a device
// with these versions again: the file of a kernel, and all versions of a library. A run keeps no
// paths, so PATH stands for each. There are none for kernels that a device has by itself.
func BroughtFlags(versions map[string]string, names ...string) []string {
	var flags []string
	brought := BroughtKernels(versions)
	seen := map[string]bool{}
	for _, name := range names {
		name, _, _ = strings.Cut(name, ":") // a further choice
		library, version := SplitVersion(name)
		library = PackageOf(library) // one path brings all of it
		switch {
		case slices.Contains(brought, name) && !seen[name]:
			seen[name] = true
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

// nameableVersion is a version that can stand in a name; libraries tell theirs as any text.
var nameableVersion = regexp.MustCompile(`^[0-9A-Za-z._-]{1,32}$`)

// VersionNames names the versions of a library: by version where all differ and can stand in a
// name, else by position from 1.
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

// digestShown is how many digits of a digest tell files apart.
const digestShown = 12

// LibraryVersion is what [Spec].Versions says of a version of a library, of which release and build
// tell, under the name that [VersionNames] gave it. Where the release does not tell it from the others, the
// file does: the name is a position, and files may come in another order the next time.
func LibraryVersion(name, release, build, path string) string {
	version := strings.TrimSuffix(release+" "+build, " ")
	if _, named := SplitVersion(name); named != "" && named != release {
		if sum, err := FileSHA256(path); err == nil {
			version += " sha256 " + sum[:digestShown]
		}
	}
	return version
}

// AddVersion adds what takes part to what the device says of itself. The map is not changed:
// copies of the specification keep theirs.
func (s *Spec) AddVersion(name, version string) {
	versions := maps.Clone(s.Versions)
	if versions == nil {
		versions = map[string]string{}
	}
	versions[name] = version
	s.Versions = versions
}

// ClashingName says whether d has something under the name that a kernel is brought with, or
// knows it as missing.
func ClashingName(d Device, name string) bool {
	taken := func(g Gemm) bool { return g.Name() == name }
	if name == "attention" || slices.ContainsFunc(d.Gemms(), taken) ||
		slices.ContainsFunc(d.Missing(), func(m Missing) bool { return m.Name == name }) {
		return true
	}
	for _, o := range Operations() {
		if o != GEMM && slices.ContainsFunc(Implementations(d, o), func(i Implementation) bool { return i.Name() == name }) {
			return true
		}
	}
	_, version := d.Spec().Versions[name]
	return version
}
