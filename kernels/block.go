package kernels

// Block is launches to be run back to back: Launches[i % len(Launches)] for i in [0,N).
type Block struct {
	Launches []Launch
	N        int
	// Serial has every launch begin after the end of the one ahead of it, as launches
	// do that come from an engine which knows nothing of what they have in common.
	// Otherwise kernels that are made for it begin while their predecessor drains.
	// Devices on which launches do not overlap need not look at it.
	Serial bool
}
