//go:build !linux

package cpu

// affinity is unknown where the operating system has no such call.
func affinity() []int { return nil }
