// Package change names how a time, or a finding, differs between two measurements.
package change
