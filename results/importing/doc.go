// Package importing turns measurements of other programs, and tables of samples, into runs. It also reads the
// CSVs that supplement a run: traffic and times of passes.
//
//	# Samples CSV
//
// [Import] reads and package export writes plain tables of samples, so sweeps of other tools can be audited. The
// first line names the columns in any order; unknown ones are skipped with a warning.
//
//	device, kernel, dtype, m, n, k    the timed product
//	round                             number of the case's sample, from 0
//	us                                microseconds per launch
//	clock_mhz, power_w, temp_c        empty if unknown
//
// Optional columns: phase (default sweep; sentinel, confirm, remedy, noise, sustained), seq and started (the
// order; started is an RFC 3339 time; older files have started_us in microseconds since 1970), launches,
// throttle, disturbance, regime, threads, pack_inside, parts, pad_to, label, distribution and seed;
// allocation (of the buffers), energy_mj (per launch), host_us (of the host, per launch), utils (published MFU);
// tile_m, tile_n, tile_k, waves, split and orientation of the launch (see [results.Launch]; the label fills gaps,
// by [kernels.ReadLabel]); run, host, card, device_name and labels (a JSON object) of the measuring machine;
// reference_clock_mhz, the clock for verdicts. mfu and us_at_clock are derived and not read.
//
// Import also reads published sweeps with the columns batch (M) and kernel_time (microseconds) and a file
// name with device, library, K, N and data type; see [Import].
package importing
