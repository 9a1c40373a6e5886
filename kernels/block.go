package kernels

import "context"

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

// Starter is implemented by devices that run a block by themselves, while the host does
// something else.
type Starter interface {
	// Start begins a block and returns when nothing of it is left for the host to do;
	// [Device.Execute] is Start and wait. While it is in flight, one more may be started: it
	// begins when the first has ended, and neither is part of the other's time. wait must be
	// called once for each, in the order of the starts; its error is that block's. Between
	// the two, the device may be asked for what runs nothing on it: Telemetry, Bind, Label;
	// and [Primer.Prime] waits for what is in flight where it has something to run. All else
	// comes after wait.
	Start(ctx context.Context, b Block) (wait func() (Span, error), err error)
}
