//go:build unix

package results

import "golang.org/x/sys/unix"

func uname() (name, release string) {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "", ""
	}
	return unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:])
}
