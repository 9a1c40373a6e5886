package kernels

// Constants are the built-in constants of the time models that a device plans its kernels with.
type Constants struct {
	// Card is the card that they describe. Own is true if the device is such a card.
	Card string `json:"card"`
	Own  bool   `json:"own"`
	// ID differs for other constants. Date is the day of their last measurement.
	ID   string `json:"id"`
	Date string `json:"date"`
}
