//go:build !linux

package results

// onLargePages does nothing where there is no way to ask.
func onLargePages([]Sample) {}
