//go:build !unix

package results

import "runtime"

// uname returns the system's name; its release is not known here.
func uname() (name, release string) { return runtime.GOOS, "" }
