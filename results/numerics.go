package results

// ResultRequest asks how remedies affect a product's result. In each list the first case is at the requested
// M, the others at other Ms.
type ResultRequest struct {
	// Direct is the unchanged product.
	Direct []Case
	// Remedies are alternative ways to compute it.
	Remedies [][]Case
}

// Numerics compares a remedy's result with the direct product's at one M, in rows spread over the product.
type Numerics struct {
	// DirectError and RemedyError are root-mean-square errors relative to a float64 product of the same
	// operands, divided by its root mean square.
	DirectError float64 `json:"direct_error"`
	RemedyError float64 `json:"remedy_error"`
	// SameBits means that all compared elements equal the direct product's bit for bit.
	SameBits bool `json:"same_bits"`
	// BatchInvariant means that the remedy gives the rows the same bits at all OtherMs; DirectBatchInvariant
	// is the same for the direct product.
	BatchInvariant       bool  `json:"batch_invariant"`
	DirectBatchInvariant bool  `json:"direct_batch_invariant"`
	OtherMs              []int `json:"other_ms,omitempty"`
	// Rows is the number of compared rows, and Columns the number of columns with an exact result.
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
	// Wrong counts the elements that fail the correctness check's bound.
	Wrong int `json:"wrong,omitempty"`
	// Failed is why there is no result for the remedy; may be empty.
	Failed string `json:"failed,omitempty"`
}
