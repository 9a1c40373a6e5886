package kernels

import "cmp"

// Constants are those of the models of time by which a device's kernels are planned.
type Constants struct {
	// Card is the name of the card whose they are. Own says that the device is such a card.
	Card string `json:"card"`
	Own  bool   `json:"own"`
	// Measured says that they were measured on a card of this machine; else they ship with the program.
	Measured bool `json:"measured"`
	// ID is another one for other constants, and Date the day of their last measurement.
	ID   string `json:"id"`
	Date string `json:"date"`
	// Note says why others that were measured are not in force, empty where there are none.
	Note string `json:"note,omitempty"`
	// Text is the whole of constants that were measured, for [Calibrated.UseConstants].
	Text string `json:"-"`
}

// Version is what a run says of constants that were measured.
func (c Constants) Version() string { return "measured " + cmp.Or(c.Date, "some day") + " " + c.ID }
