// Package stats holds the statistics that any package may use: medians and quantiles, robust fits, estimates
// with their intervals, tests of pairs, and control of the false discovery rate.
package stats
