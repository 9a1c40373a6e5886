package cpu

import "github.com/gemmaudit/gemmaudit/kernels"

// Telemetry is empty: each block measures the clock, and other CPU telemetry usually needs root.
func (d *Device) Telemetry() kernels.Telemetry { return kernels.Telemetry{} }
