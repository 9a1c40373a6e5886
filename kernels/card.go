package kernels

// CardState is the state of an accelerator card as its management library tells
// it, asked once and on demand: what would spoil a measurement on it, and what a
// fingerprint must keep. Zero values and empty words are unknown; Unknown says why.
type CardState struct {
	BusID string // "00000000:1B:00.0"

	// ClockMHz and MemoryClockMHz are those of this moment, at rest mostly; the
	// Max clocks are what the card may reach. The application clock is what a user
	// has set for work, DefaultClockMHz what it is unless somebody did.
	ClockMHz, MaxClockMHz             float64
	MemoryClockMHz, MaxMemoryClockMHz float64
	ApplicationClockMHz               float64
	DefaultClockMHz                   float64

	PowerW, PowerLimitW, DefaultPowerLimitW float64
	// TempC is the chip's temperature; at SlowdownTempC hardware slows it down.
	TempC, SlowdownTempC float64

	// Throttle lists why the clock is lower than it could be. Idle is true when it is because
	// there is nothing to do.
	Throttle []ThrottleReason
	Idle     bool

	ECC         string // "on", "off"
	MIG         string // "on", "off"
	Persistence string // "on", "off"
	ComputeMode string // "default", "exclusive process", "prohibited"
	// Uncorrected counts memory errors that ECC could not correct: since the driver
	// was loaded, and over the card's life. Known where ECC is "on".
	Uncorrected, UncorrectedEver int64
	// Retiring is true when memory waits for a reset of the card to be replaced.
	Retiring bool

	// The link to the host, as it is now and as the card and its slot could have
	// it. The generation falls at rest, the width never should.
	LinkGeneration, MaxLinkGeneration int
	LinkWidth, MaxLinkWidth           int

	// Processes are those of others with memory on the card.
	Processes []CardProcess
	// Unknown lists the facts that could not be had, with reasons.
	Unknown []Missing
}

// CardProcess is a process that holds memory on a card.
type CardProcess struct {
	PID   int
	Name  string // empty when the system does not tell
	Bytes int64  // 0 when the driver does not tell
	// Visible is false for a process of another PID namespace: behind a container's
	// wall it might be this one.
	Visible bool
}
