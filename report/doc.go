// Package report prints the results of the other packages: tables for terminals and pull requests, JSON, CSV,
// Go's benchmark format, plots, the report folder and the difference of two runs. It only formats: callers
// supply every verdict, interval and cause.
//
// Its rooms import it: gate has checks for pipelines, progress a sweep's state, errorrates simulations, metrics
// Prometheus, query --where.
//
// Every printing function takes a writer and a [Format]. A writer made by [NewStream] carries the
// capabilities of its terminal (color, width, Unicode). Any other writer gets plain ASCII of unlimited width,
// so files and pipes do not depend on where they were made.
//
// Names of kernels, labels, reasons and paths come from untrusted files and libraries. Control characters are
// removed, and each format escapes the text. CSV is otherwise unchanged, because programs read it.
// [Style].Spreadsheet protects cells that begin with =, +, - or @ from spreadsheet formula injection.
package report
