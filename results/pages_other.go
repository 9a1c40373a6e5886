//go:build !linux

package results

func onLargePages([]Sample) {}
