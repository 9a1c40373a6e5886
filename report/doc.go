// Package report renders what the other packages measured and decided: tables
// for terminals and pull requests, JSON, CSV, Go's benchmark format, plots, the
// report folder and the difference of two runs. It decides nothing: every
// verdict, interval and cause that it prints was handed to it.
//
// Every printing function takes a writer and a [Format]. A writer made by
// [NewStream] carries what the terminal behind it can show (colour, width,
// Unicode); any other writer gets plain ASCII of unlimited width, so that
// what lands in a file or a pipe does not depend on where it was made.
//
// Names of kernels, labels, reasons and paths come from files and libraries that
// the program did not write. They are shown with control characters removed and
// escaped for the format at hand. CSV keeps them otherwise as they are, since programs read it:
// a cell that begins with =, +, - or @ is taken for a formula by a spreadsheet, and is guarded
// when [Style].Spreadsheet asks for it.
package report
