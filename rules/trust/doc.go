// Package trust finds out how far verdicts can be relied on. It runs the sweeper and
// the rules, as they are, on machines of package simulated, whose truth is known, and
// counts: how many of the rows called anomalous are not, how many slow rows are called
// clean, how deep a loss has to be to be found, whether what a remedy promises holds,
// whether two audits of one machine agree, whether a sweep that was stopped contradicts
// the one that ran on.
//
// Every count comes with the upper limit of its rate, at 95 % confidence (Clopper and
// Pearson), and is held against a bound where there is one.
package trust
