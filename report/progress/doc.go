// Package progress shows how far a sweep has come.
package progress
