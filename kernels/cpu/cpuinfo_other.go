//go:build !linux

package cpu

func affinity() []int { return nil }
