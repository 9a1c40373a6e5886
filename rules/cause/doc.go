// Package cause explains why a row of a curve is slow.
package cause
