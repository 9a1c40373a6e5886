package results

// Request asks for new measurements of a case.
type Request struct {
	// Case is the case to run; its ID is ignored.
	Case Case
	// Phase is stored with the samples.
	Phase Phase
	// Serial makes every launch wait for the previous one, like another engine's. In a sweep, kernels may
	// start while their predecessor drains; a remedy that replaces another library's kernel must not benefit
	// from that.
	Serial bool
	// Group runs requests next to each other in every round, in random order, so that slow drift affects them
	// equally; 0 is no group.
	Group int
}
