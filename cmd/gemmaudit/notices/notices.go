// Package notices holds the notices and licenses of third-party work that is linked into the program,
// embedded in it or compiled into its device code.
package notices

import _ "embed"

// Text is THIRD_PARTY_NOTICES: a list of the works, then their notices and licenses. `make notices` writes it
// from the module list; a test compares them.
//
//go:embed THIRD_PARTY_NOTICES
var Text string
