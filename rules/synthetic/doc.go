// Package synthetic makes up runs of machines whose true times are known, for tests of the rules.
package synthetic
