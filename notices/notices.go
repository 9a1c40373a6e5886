// Package notices holds the notices and licences of everyone else's work that is linked into the
// program, embedded in it or compiled into its device code.
package notices

import _ "embed"

// Text is THIRD_PARTY_NOTICES: a list of what there is, then the notices and licences of each.
// `make notices` writes the file from the module list; a test holds it against that.
//
//go:embed THIRD_PARTY_NOTICES
var Text string
