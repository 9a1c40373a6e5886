//go:build !unix

package results

import "runtime"

func uname() (name, release string) { return runtime.GOOS, "" }
