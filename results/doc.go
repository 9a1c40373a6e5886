// Package results stores measurements: run files, which hold every sample of a sweep with its case, the
// machine and the plan. It computes no statistics; package rules does.
//
// Its rooms import it, and it imports none of them: importing reads measurements of other programs, parquetfile
// reads Parquet, export writes samples, merge joins runs.
//
//	# Run files
//
// A run is one SQLite file with an application_id and a user_version ([SchemaVersion]), readable with any
// SQLite shell:
//
//	meta      the machine (fingerprint), its labels, peaks and bandwidths (ceilings), the plan, as JSON
//	origins   the run, host, device, card and labels of samples
//	series    operation, device, kernel, dims, operands, layout, regime, threads, pack_inside
//	cases     a series and an m; parts ("192+1988", or "copied" of a padded product whose rows are
//	          copied first) and pad_to of a remedy; the label and the launch
//	samples   one row per block: case, phase, round, microseconds per launch, clock, power,
//	          temperature, allocation, energy per launch, published MFU, origin
//	host_times  the host's time per launch of samples outside of CUDA graphs; only if there are any
//	other_launches  launches of a case that differ from its first; only if there are any
//	choices   kernel choices at the Ms of a series: stretches from_m to to_m of one kind of launch;
//	          only if queried
//	launch_kinds  label, tile, stages, split, cluster, orientation and concurrent tiles of these
//	failures  cases that could not be measured, with the reason
//	state     the sweep's progress (efficiency, drift), and verified verdicts
//
// [Create] and [OpenAppend] open a run's only writer, [Open] any number of readers. A file that is truncated,
// newer or not a run is a [FormatError], and so is an unknown operation, layout or operand. A run of schema 1
// is readable and upgraded when it is opened for appending.
package results
