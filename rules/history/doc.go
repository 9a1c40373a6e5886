// Package history follows the times of the same cases over many runs, and finds the runs from which on they
// are different. Of a run only the median of each case is kept.
//
// A case is the same where the model of its device, kernel, operation, types, shape, layout, regime, threads and M are: the versions of
// libraries and drivers are what changes.
//
// Two errors are controlled. Within a history, a step's p-value counts every run at which there might be one, and the
// correlation of neighbouring runs is in its error. Over cases, the false discovery rate is held (Benjamini–Hochberg), so that of a
// history in which nothing has changed it is as rare that any change is reported.
package history
