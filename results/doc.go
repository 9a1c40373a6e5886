// Package results keeps what was measured: run files, which hold every sample of
// a sweep with its case, the machine and the plan, and the ways into and out of
// them. It computes no statistics; package rules does.
//
// # Run files
//
// A run is one SQLite file, marked by its application_id and versioned by its
// user_version ([SchemaVersion]), that any SQLite shell reads:
//
//	meta      the machine (fingerprint), its labels, peaks and bandwidths (ceilings), the plan, as JSON
//	origins   the run, host, device, card and labels that samples come from
//	series    operation, device, kernel, dims, operands, layout, regime, threads, pack_inside
//	cases     a series and an m; parts ("192+1988", or "copied" of a padded product whose rows are
//	          copied first) and pad_to of a remedy; the label and the launch of what ran
//	samples   one row a block: case, phase, round, microseconds a launch, clock, power, temperature,
//	          allocation, energy a launch, published MFU, origin
//	choices   what kernels say that they would run at the Ms of a series: stretches from_m to to_m
//	          of one kind of launch; in runs that asked
//	launch_kinds  label, tile, stages, split, cluster, orientation and tiles at a time of these
//	failures  cases that could not be measured, with the reason
//	state     how the sweep went (efficiency, drift), and verdicts that were proven
//
// [Create] and [OpenAppend] give the one writer that a run has at a time, [Open]
// any number of readers. A file that is truncated, newer or not ours is refused
// with a [FormatError], and so is one whose operation, layout or operands are not known
// to this version. A run of schema 1 is read as it stands and becomes one of the
// present version when it is opened for appending.
//
// # Samples CSV
//
// [Import] reads, and [Export] writes, plain tables of samples, so that a sweep
// taken with any other tool can be audited. The first line names the columns, in
// any order; those that are not known here are skipped with a warning.
//
//	device, kernel, dtype, m, n, k    what was timed
//	round                             which sample of the case it is, from 0
//	us                                microseconds a launch
//	clock_mhz, power_w, temp_c        where known, else empty
//
// The rest may be left out: phase (sweep when absent; sentinel, confirm, remedy,
// noise, sustained), seq and started (the order; started is an RFC 3339 time, started_us in files of before
// that in microseconds since 1970), launches, throttle, disturbance,
// regime, threads, pack_inside, parts, pad_to, label, distribution and seed; allocation
// (of the buffers), energy_mj (of a launch), utils (MFU as it was published); tile_m,
// tile_n, tile_k, waves, split and orientation of the launch (see [Launch]; what these leave
// open is read from the label, by [kernels.ReadLabel]); run, host, card, device_name and labels (a JSON
// object) of the machine that measured; reference_clock_mhz, at which its rows are judged. mfu and
// us_at_clock follow from the rest and are not read back.
//
// Import also reads published sweeps, with the columns batch (M) and kernel_time
// (microseconds), whose device, library, K, N and data type stand in the file's name;
// see [Import].
package results
