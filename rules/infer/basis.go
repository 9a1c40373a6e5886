package infer

// Basis is the part of a rules file that estimates depend on.
type Basis struct {
	// ClockMHz is the clock at which rows are judged; 0 means the run's own.
	ClockMHz float64
	// Confidence is the level of printed intervals. DriftBound is the coarsest resolution, or the largest
	// drift, of a valid run.
	Confidence, DriftBound float64
	// Along is the dimension that curves run along; see [Data.Along].
	Along string
	// MinSamples is the least number of samples of a row that is judged by its own scatter.
	MinSamples int
}
