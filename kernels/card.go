package kernels

// CardState is the state of an accelerator card from its management library, queried on demand: what could
// disturb a measurement, and what a fingerprint records. Zero and empty fields are unknown; Unknown gives
// reasons.
type CardState struct {
	BusID string // "00000000:1B:00.0"

	// ClockMHz and MemoryClockMHz are current clocks, usually idle ones; Max clocks are the card's limits.
	// The application clock is the user's setting, DefaultClockMHz its default.
	ClockMHz, MaxClockMHz             float64
	MemoryClockMHz, MaxMemoryClockMHz float64
	ApplicationClockMHz               float64
	DefaultClockMHz                   float64

	PowerW, PowerLimitW, DefaultPowerLimitW float64
	// The hardware reduces the clock at SlowdownTempC.
	TempC, SlowdownTempC float64

	// Throttle lists why the clock is below its maximum. Idle is true if the card has no work.
	Throttle []ThrottleReason
	Idle     bool

	ECC         string // "on", "off"
	MIG         string // "on", "off"
	Persistence string // "on", "off"
	ComputeMode string // "default", "exclusive process", "prohibited"
	// Uncorrected counts ECC memory errors that could not be corrected since the driver was loaded,
	// UncorrectedEver over the card's life. Known if ECC is "on".
	Uncorrected, UncorrectedEver int64
	// Retiring is true if a memory replacement waits for a card reset.
	Retiring bool

	// The host link now and its maximum for this card and slot. The generation drops when idle, the width
	// should not.
	LinkGeneration, MaxLinkGeneration int
	LinkWidth, MaxLinkWidth           int

	// Processes are other processes with memory on the card.
	Processes []CardProcess
	// Unknown lists the facts that are not available, with reasons.
	Unknown []Missing
}

type CardProcess struct {
	PID   int
	Name  string // empty if unknown
	Bytes int64  // 0 if unknown
	// Visible is false for a process in another PID namespace. Inside a container it may be this process.
	Visible bool
}
