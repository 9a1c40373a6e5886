package results

// Request asks for one case to be measured anew.
type Request struct {
	// Case says what to run; its ID is ignored.
	Case Case
	// Phase is stored with the samples.
	Phase Phase
	// Serial has every launch wait for the end of the one before it, as another engine's
	// would. A sweep lets kernels that can begin while their predecessor drains, which a
	// remedy must not take credit for where it replaces another library's kernel.
	Serial bool
	// Group joins requests that run next to each other in every round, in random order
	// among themselves, so that what drifts slowly is common to them; 0 is by itself.
	Group int
}
