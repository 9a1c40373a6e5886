// Package export writes the samples of a run as CSV, JSON lines or Parquet, one line per sample, and declares
// their columns.
package export
