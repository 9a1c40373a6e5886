// Package diff compares two runs, two kernels of a run, or the choices of two libraries, and says what
// changed.
package diff
