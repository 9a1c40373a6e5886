// Package management queries a card through NVML, the driver's management library: settings, power,
// temperature, clocks, energy and processes.
package management
