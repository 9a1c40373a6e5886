// Package rules holds the rules and the verdicts. It computes on results only. A run
// comes in as [infer.Data], and a rule that needs another measurement asks a [Measurer]. So every rule runs
// on a table of numbers, without a device.
//
// # Verdicts
//
// A row (one M of a series) is anomalous, clean, marginal or undecided. A marginal row is known precisely and
// lies at the threshold: it is not a finding, and does not split an interval of anomalous rows. The default
// method judges by confidence bounds:
//
//   - Rows are judged by their time at the common clock, log t + β·log(clock ÷ reference).
//     β is the elasticity of the row's time, from 0 (memory binds) to 1 (the multiprocessors
//     bind). It comes from robust regression on the row's samples, shrunk towards the rows near
//     it in M. The reference is the sentinels' median clock, rounded to 50 MHz. The interval of a row
//     whose clock stayed more than 5 % away from it covers every β from 0 to 1.
//   - The pace of the machine is the running median of the residuals of blocks near in time.
//     Rows are adjusted by it in the same way. If no clock is known, it replaces the clock.
//   - Time that threads spent off their CPUs is subtracted if a sample reports it and it
//     is at most a tenth of the block. Its standard error is half of it.
//   - Where noise only delays, which a test on the skewness of all residuals decides ([infer.Scatter]),
//     the time of rows, references and sentinels is the 20th percentile of the samples. The
//     standard error comes from order statistics, pooled with neighboring rows. Such a row is
//     never bimodal: a delay is not a second level.
//   - Otherwise a row's time is the median of the pairwise means of its samples (Hodges and
//     Lehmann), in logs. Its error is Student's t, with a scale pooled with neighboring rows. A
//     row whose samples fall into two separate groups is bimodal: it is anomalous only if the
//     faster level is, and clean only if the slower one is.
//   - If a fifth of the rows of a curve surely move between two levels at the same distance,
//     rows are compared by the faster level and the scatter within the levels. If most rows do,
//     times are not adjusted by the pace of the machine.
//   - A row whose own scatter is surely larger than its neighbors' is judged by its own scatter.
//     If such rows scatter to one side, they are anomalous only if their 20th percentiles are.
//   - Rows that scatter by less than the step of a timer are all rounded to the same value. Their
//     intervals include the step.
//   - Without sentinels, rows that keep their places in all rounds may differ because of the time
//     of measurement. If rows next to each other in time are alike beyond the effect of M, nothing
//     is judged. If the rows were measured in order of M, a row is anomalous only if it is slower
//     than one of the rows just before and one of those just after.
//   - The reference of the monotonic rule is the largest MFU over smaller M. Some samples choose
//     it and the others estimate it, which avoids selection bias. The best alternative times of
//     splits, padding and other kernels are found the same way.
//   - A row's p-value is for the hypothesis that the row keeps the rule. The p-values of all rows
//     that one rule judges are adjusted by Benjamini–Hochberg, so the false discovery rate holds
//     for each rule. The level is spent evenly over the looks at which the sweep chose rows to
//     measure again.
//   - A row is marginal if its estimate lies within 0.25 points of the threshold and its whole
//     95 % interval within 0.5. A row slower than the threshold by half a point or more is called
//     clean in at most one case of twenty.
//   - The resolution of a run ([Audit].Resolution) is the half-width of the 95 % interval of the
//     difference of two typical rows. It includes the sentinels' drift that the pace does not
//     explain. A coarse resolution makes rows undecided, not the run invalid. If it is coarser
//     than the loss that a rule allows, a clean row is one that loses less than
//     [Audit].CleanBelow, which is printed.
//   - Anomalous rows are measured again in the sweep's thermal state, interleaved with their
//     references. They are judged on these fresh samples alone, at the same clock, by Wilcoxon's
//     signed-rank test, or where noise only delays by the difference of the 20th percentiles.
//     Only rows that pass become a confirmed finding.
//
// A run of several cards of one name also compares them ([cards.Comparison]). Each case of a card is compared with the
// median card's, in logs by Welch's t. The hypothesis is that the ratio lies within the threshold on either
// side. All comparisons are one family, at one clock. A whole card is judged by the geometric mean over its
// cases, with bounds that hold for all cards at once. Its observed time is judged too, to separate a slow
// clock from other causes.
//
// Series of a library's next choices ("cublaslt:1", see [kernels.Candidates]) are not judged if the first
// choice was measured too. The rules compare the first choice with them, and they can be remedies.
//
// In rounds with rows chosen by [choose.OpenRows], the rest are control rows, picked by a hash regardless of their
// results. Only the control rows measure the pace of a chosen round.
//
// The article's method flags a row if the running maximum of point estimates of MFU over smaller M, times the
// threshold, is above its own. It exists for comparison with published numbers.
//
// # Inferred rows
//
// An inferred row ([RowVerdict].Inferred) is judged like a measured one, and may be a reference or part of a
// remedy. A finding is confirmed, and a remedy emitted, only if its rows were executed. A single slow row
// between measured ones that neither choices nor neighbors predict is found only if it is measured;
// docs/trust.md counts how often it is missed. Comparisons of runs and of cards use measured rows only.
//
// # Causes
//
// A finding has a cause, or the reason why each cause does not apply ([Finding.Excluded]). A mechanism is the
// cause if it accounts for half the loss. The causes, in the order of the search:
//
//   - heuristic-choice: another measured choice of the library is faster; or a larger M with
//     another kernel takes less time, so that kernel would serve the row too; or the kernel that
//     ran below the row needs no more waves for it; or another of the library's kernels would take
//     less time, by the line of its rows; or another kernel is faster on both sides.
//   - memory-bound, alignment: limits of the machine, and a modulus of the size that a rank test finds.
//   - wave-quantization, tile-quantization: the tiles of the row's kernel, or of its reference's,
//     predict where time steps up, and it does so within a step of the grid. A predicted cliff
//     that the times don't show is excluded, with both places. If the tile is unknown, the steps
//     must be periodic, or coincide with full waves more than by chance.
//   - implementation: the kernel takes longer than its own line predicts, computes a larger
//     product faster, or another library's kernel computes this one faster.
//
// The cause is the worst row's; if that has none, the cause of most rows.
//
// # Time at stake
//
// Findings and remedies are sorted by the time at stake: loss × time × weight of traffic, summed over their
// rows, in microseconds for one pass over them. The default weight is 1. For a remedy it is the time that it
// saves. Findings are sorted by status first, remedies by whether they pay.
//
// # Sustained running
//
// A kernel that wastes cycles draws less power, so at the power limit it gets a higher clock when it runs
// alone. It then loses less than at the common clock. The sustained phase (see [Sustainer]) runs the worst
// row of a finding and its reference, or a direct product and its remedy, each alone. [Sustained] holds both
// times, clocks and energies, and the states whose loss is above the rule's threshold. Verdicts and proof do
// not depend on it.
//
// # The rules file
//
// docs/rules.md lists the rules with their settings. A rules file is one YAML document that overrides the
// built-in one (default.yaml in this folder). An absent key keeps its default; a list replaces the default's.
// Unknown keys are errors. All shares are fractions of one: 0.05 is 5 %.
//
//	schema: gemmaudit.rules/1    # optional; must be this value
//	method: interval             # or article
//	threshold: 0.95              # (0,1]: anomalous below threshold × reference
//	fdr: 0.05                    # (0,1): false discovery rate of each rule
//	confidence: 0.95             # (0,1): level of printed intervals
//	clock_mhz: 0                 # the clock at which rows are judged; 0: the run's own
//	min_samples: 5               # 2 and more: rows with fewer are undecided
//	drift_bound: 1.00            # (0,10]: a coarser resolution, or a larger drift, makes the run invalid
//	confirm:
//	  rounds: 8                  # 6 to 1000: samples at the first look
//	  max_rounds: 36             # rounds to 1000: while the verdict is open
//	  max_cases: 1000            # intervals that are measured again
//	remedy:
//	  margin: 0.02               # the least gain of a remedy
//	  slower: 0.25               # how much longer than in the run the product may take next to it
//	  rounds: 8                  # as above, for executed remedies
//	  max_rounds: 24
//	  max_parts: 4               # 2 to 16 launches of a split
//	  max_cases: 2000            # rows that are executed
//	rules:                       # each has enabled: true or false, and its own settings
//	  split:
//	    margin: 0.05
//	diff:
//	  threshold: 0.03            # the change of a case that fails the gate
//	  stretch: 0.02              # of neighboring M together
//	  series: 0.01               # of a whole series, in the geometric mean
//	cards:
//	  threshold: 0.05            # how much slower than the median card a case may be
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
//	    expires: 2030-01-31      # required, YYYY-MM-DD, the last valid day
//
// A waiver names at least one field in addition to reason and expires. It excuses a finding if every field
// matches and its range of M contains the whole finding. An excused finding is listed with the reason and
// fails no gate. The pattern series matches either form of a series: as tables print it ("cpu/openblas/fp32
// n4096 k4096") or as ids do ("cpu/openblas/fp32/n4096 k4096"). An expired waiver has no effect and causes a
// warning. A waiver that matches no finding causes a warning that names the nearest series.
//
// # Proof
//
// The results of measuring again are kept in the run, for each rule, with the values of the keys that they
// depend on ([Proof]). Waivers, the choice of rules, and keys that affect no verdict can change without
// undoing proof. A change of any other key undoes the proof of the rules that it affects: threshold for
// monotonic, a rule's own keys for that rule, and method, fdr, confidence, clock_mhz and min_samples for all.
// The keys of confirm undo no proof: they only control the search for it. Executed remedies depend on the
// same keys, on drift_bound, and on margin, slower and max_parts of remedy.
package rules
