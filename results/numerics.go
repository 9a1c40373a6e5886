package results

// ResultRequest asks what ways of computing one product do to its result. Of each list the first
// case is the product at the M that is asked about, the others are the same at other Ms.
type ResultRequest struct {
	// Direct is the product as it is.
	Direct []Case
	// Remedies are ways to compute it.
	Remedies [][]Case
}

// Numerics is the result of a remedy beside that of the direct product, at one M, of rows that are
// spread over the product.
type Numerics struct {
	// DirectError and RemedyError are the errors against a product in float64 of the same
	// operands: the root of their mean square as a share of that of the exact elements.
	DirectError float64 `json:"direct_error"`
	RemedyError float64 `json:"remedy_error"`
	// SameBits says that every element of the rows has the bits that the direct product gives it.
	SameBits bool `json:"same_bits"`
	// BatchInvariant says that the rows have the same bits at the Ms of OtherMs, computed by the
	// remedy there, and DirectBatchInvariant says it of the direct product.
	BatchInvariant       bool  `json:"batch_invariant"`
	DirectBatchInvariant bool  `json:"direct_batch_invariant"`
	OtherMs              []int `json:"other_ms,omitempty"`
	// Rows is how many rows were compared, and Columns of how many columns an exact result was
	// computed.
	Rows    int `json:"rows"`
	Columns int `json:"columns"`
	// Wrong counts the elements whose error is larger than the correctness check accepts.
	Wrong int `json:"wrong,omitempty"`
	// Failed is why the remedy's result could not be had, else empty.
	Failed string `json:"failed,omitempty"`
}
