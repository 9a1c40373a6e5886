// Package history follows the times of the same cases over many runs, and finds the runs at which they
// change. It keeps only the median of each case of a run.
//
// A case is identified by the model of its device, kernel, operation, types, shape, layout, regime, threads
// and M. Versions of libraries and drivers may change.
//
// Two errors are controlled. Within a history, a step's p-value accounts for every run at which there might
// be one, and its error includes the correlation of neighboring runs. Over cases, the false discovery rate is
// controlled (Benjamini–Hochberg). In a history without any change, this is also the probability of reporting
// one.
package history
