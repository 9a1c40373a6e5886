// Package rules holds the statistics, the rules, the search for remedies and
// the verdicts. It computes on results alone: a run goes in as [Data], and when
// a rule wants to see something again it asks through a [Measurer], so every
// rule runs on a table of numbers with no device.
//
// # Verdicts
//
// A row (one M of a series) is anomalous, clean, marginal or undecided. A marginal
// row is known well and lies at the bound: it is no finding, and splits no interval
// of anomalous rows. The default method judges by confidence bounds:
//
//   - One quantity is judged everywhere: time at the common clock, log t + β·log(clock ÷
//     reference). β says how the row's time follows the clock, from 0 (memory binds) to 1
//     (the multiprocessors bind), by robust regression on its own samples, drawn towards the
//     rows near it in M. The reference is the sentinels' median clock, rounded to 50 MHz. A row whose
//     clock stayed more than 5 % away from it is undecided.
//   - What the blocks nearest in time still have in common is the pace of the machine, their
//     running median. Rows are adjusted by it in the same way; where no clock is known it
//     takes the clock's place.
//   - Time for which threads were kept off their CPUs is subtracted where a sample tells it and it is at most a
//     tenth of the block; half of it is taken for its standard error.
//   - Where noise only delays, which a test on the skewness of all residuals decides ([Scatter]), a row's time is the
//     20th percentile of its samples, as are its reference's and the sentinels', with a standard error from order
//     statistics, pooled with neighbouring rows. Such a row is never bimodal: a delay is no second level.
//   - Else a row's time is the median of the pairwise means of its samples (Hodges and
//     Lehmann), in logs. Its error is Student's t, with a scale pooled with neighbouring
//     rows. A row whose samples fall into two groups with nothing between is bimodal: it is
//     anomalous only where the faster level is, and clean only where the slower one is.
//   - The reference of the monotonic rule is the largest MFU over smaller M. It is chosen by
//     some samples and estimated by the others, so that it is not the luckiest of
//     thousands; prices of splits, padding and other kernels likewise.
//   - A row's p-value belongs to the hypothesis that the rule is kept; the p-values of all
//     rows that one rule judges are adjusted by Benjamini–Hochberg, and the false
//     discovery rate holds for each rule. The level is spent evenly over the looks of the sweep that
//     chose which rows to measure again.
//   - A row is marginal when its estimate lies within 0.25 points of the bound and its
//     whole 95 % interval within 0.5. A row that is slower than the bound by half a point or
//     more is called clean in at most one case of twenty.
//   - A run has a resolution ([Audit].Resolution), the half-width of the 95 % interval of the difference of two typical
//     rows. What the sentinels drift by and the pace does not explain is in it. A coarse one makes rows
//     undecided, not the run invalid. Where it is coarser than the loss that a rule allows, no row could be called
//     clean by that loss, and a clean row is one that loses less than [Audit].CleanBelow, which is printed.
//   - What survives is measured again in the sweep's thermal state, interleaved with what it is
//     held against, and judged on these fresh samples alone, at the same clock, by Wilcoxon's
//     signed-rank test, or where noise only delays by the difference of the 20th
//     percentiles. Only that makes it a confirmed finding.
//
// A run of several cards of one name also compares them ([Cards]): each case of a
// card with the median card's, in logs by Welch's t, the hypothesis being that the
// ratio lies within the threshold on either side. All comparisons are one family, and all
// times are at one clock. A card as a whole is judged by the geometric mean over its cases,
// with bounds that hold for all cards at once, and in observed time too, which tells a slow
// clock from the rest.
//
// Series of a library's next choices ("cublaslt:1", see [kernels.Candidates]) are not
// judged where the first was measured too: the rules hold the first choice against them,
// and a remedy may be one.
//
// In rounds for which [OpenRows] chose the rows, the rest are control rows, picked by
// a hash and not by how they did: they alone tell what a chosen round has in common.
//
// The article's method flags a row when the running maximum of point estimates
// of MFU over smaller M, times the threshold, is above its own. It is there for
// comparison with published numbers.
//
// # Families
//
// Of a series that is inferred ([Data.Asked]) not every row is measured. The rows that one
// kernel runs, wherever they lie in M, are a family, by what was told of each row beforehand
// ([Data.Choices]) or, where nothing was, by what ran on both sides of it.
//
//   - The line of a family is the combination without negative factors of (1, waves rounded up,
//     tiles, M) that comes nearest to its measured rows, robustly. Memory's floor is in it: a
//     product's bytes are a constant and a share of M. Where no tile is known it is one in (1, M)
//     over an octave of M.
//   - What the line leaves is alike for rows that lie near each other in M and waves. A row that was not measured is
//     predicted by the line and by what its nearest measured rows leave (kriging), with an interval
//     that holds how loosely the terms are known, the family's scatter, estimated by leaving
//     measured rows out and drawn towards that of all families, the noise of those rows, and
//     how far away they are.
//   - Where it is not known which side of a tile lies along M, or how many tiles run at once, that
//     is taken which foretells measured rows better.
//   - A measured row that lies far off what the others foretell says nothing of its neighbours.
//   - A [Designer] chooses the rows: first the ends of each family and where least is known between them,
//     then more until the time of each row is known to 0.5 %, or where noise is large half again as
//     well as that of measured rows, and rows on which a verdict hangs.
//   - Check rows, 2 % drawn with the seed, 6 % where nothing was told, are held against what would have been inferred
//     of them ([Inference]). A family of which too many lie outside of their 95 % interval, or
//     one far outside, is measured row by row; until then nothing is inferred from it. Where
//     nothing was told, that holds for the whole series.
//
// An inferred row ([RowVerdict].Inferred) is judged as others are, and may be a reference or
// part of a remedy. A finding is confirmed, and a remedy emitted, only where its rows were executed. What no
// choice and no neighbour foretells, a single slow row between measured ones, is found only
// where it is measured; docs/trust.md counts how often it is missed. Comparisons of runs and of
// cards rest on measured rows alone.
//
// # Causes
//
// A finding has a cause, in the order in which they are looked for, or says of each why it is
// none ([Finding.Excluded]). A mechanism is a cause when it accounts for half the loss:
//
//   - heuristic-choice: another choice of the library that was measured is faster; or a larger M with
//     another kernel takes less time, and what runs there would serve the row too; or the kernel that ran
//     below the row needs no more waves for it; or another of its kernels would take less time, by the line of
//     the rows that it runs; or another kernel is faster on both sides.
//   - memory-bound, alignment: what the machine and multiples of 8 allow.
//   - wave-quantisation, tile-quantisation: the tiles of the row's kernel, or of its
//     reference's, predict where time steps up, and there it does, within a step of the grid. A
//     cliff that is predicted and not seen is excluded, with both places. Where no tile is known, the
//     steps themselves have to follow a period, or stand where waves are full as steps anywhere
//     rarely would.
//   - implementation: the kernel takes longer than its own line says, computes a larger product
//     faster, or somebody else's computes this one faster.
//
// The cause is that of the worst row; where it has none, that of most rows.
//
// # Time at stake
//
// Findings and remedies are listed by the time at stake: loss × time × weight of traffic,
// which is 1, summed over their rows, in microseconds for one pass over them. For a
// remedy it is the time that it saves. Findings come by status first, remedies by
// whether they pay.
//
// # Sustained running
//
// A kernel that wastes cycles draws less power, and alone at the power limit it gets a higher
// clock, so that it loses less than at the common clock. Where the worst row of a finding and
// its reference, or a direct product and its remedy, ran by itself (phase sustained, see
// [Sustainer]), [Sustained] holds both times, clocks and energies, and in which of the two
// states the loss is above the rule's bound. Verdicts and proof do not rest on it.
//
// # The rules file
//
// docs/rules.md lists the rules with their settings, and the causes. A rules file is one
// YAML document, laid over the built-in one
// (default.yaml beside this file): a key that is absent keeps its default, a list that is
// present replaces the default's. Unknown keys are errors. All shares are
// fractions of one: 0.05 is 5 %.
//
//	schema: gemmaudit.rules/1    # required to be this, when given
//	method: interval             # or article
//	threshold: 0.95              # (0,1]: anomalous below threshold × reference
//	fdr: 0.05                    # (0,1): false discovery rate of each rule
//	confidence: 0.95             # (0,1): level of printed intervals
//	clock_mhz: 0                 # the clock at which rows are judged; 0: the run's own
//	min_samples: 5               # 2 and more: rows with fewer are undecided
//	drift_bound: 1.00            # (0,10]: a coarser resolution, or a larger drift, makes the run invalid
//	confirm:
//	  rounds: 8                  # 6 to 1000: samples at the first look
//	  max_rounds: 36             # rounds to 1000: where the verdict stays open
//	  max_cases: 1000            # intervals that are measured again
//	remedy:
//	  margin: 0.02               # what a remedy must surely gain
//	  slower: 0.25               # how much longer than in the run the product may take beside it
//	  rounds: 8                  # as above, for executed remedies
//	  max_rounds: 24
//	  max_parts: 4               # 2 to 16 launches of a split
//	  max_cases: 2000            # rows that are executed
//	rules:                       # each has enabled: true or false, and settings of its own
//	  split:
//	    margin: 0.05
//	diff:
//	  threshold: 0.03            # the change of a case that fails the gate
//	  stretch: 0.02              # that of neighbouring M together
//	  series: 0.01               # that of a whole series, in the geometric mean
//	cards:
//	  threshold: 0.05            # by which a case on one card of a host is slower
//	                             #   than on the median card, for the gate to fail
//	waivers:
//	  - rule: monotonic          # optional, like all fields up to m
//	    series: "cpu/openblas/*" # pattern over the printed series, * and ?
//	    device: cpu
//	    kernel: openblas
//	    dtype: fp32
//	    n: 14336
//	    k: 4096
//	    m: 2080-2304             # a number or a range, ends included
//	    reason: known upstream   # required
//	    expires: 2030-01-31      # required, YYYY-MM-DD, the last day it holds
//
// A waiver names at least one field beside reason and expires. It excuses a finding when every field that it names matches and its
// range of M holds the whole finding. An excused finding is listed with the
// reason and fails no gate. The pattern series is held against the series as tables
// print it ("cpu/openblas/fp32 n4096 k4096") and as ids do ("cpu/openblas/fp32/n4096
// k4096"); either may match. An expired waiver excuses nothing, and is a warning; so
// is one that matches nothing, which names the series that is nearest to it.
//
// # Proof
//
// What measuring again has shown is kept in the run, rule by rule, with the values
// of the keys that it rests on ([Proof]). Waivers, the choice of rules, and keys that
// touch no verdict apply to kept proof: editing them keeps it. Of the others a change
// undoes the proof of the rules that it touches: threshold that of monotonic, a rule's
// own keys that rule's, and method, fdr, confidence, clock_mhz and min_samples that of
// all. The keys below confirm say how proof is sought and undo none. Executed remedies
// rest on these keys, on drift_bound, and on margin, slower and max_parts of remedy.
package rules
