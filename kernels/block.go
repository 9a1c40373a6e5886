package kernels

// Block is launches to run back to back: Launches[i % len(Launches)] for i in [0,N).
type Block struct {
	Launches []Launch
	N        int
	// Serial makes every launch wait for the previous one to end, as in an engine without launch overlap.
	// Otherwise kernels that support it start while their predecessor drains. Devices without overlap may
	// ignore it.
	Serial bool
}
