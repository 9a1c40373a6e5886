// Package query implements --where and --sort: it selects and orders the lists of audit, splits, diff, report
// and export. Verdicts do not change and still cover unlisted records.
//
// Expressions use github.com/expr-lang/expr without its functions, loops and ranges:
//
//	kernel=cublas && loss>0.1
//	cause in [wave-quantization, tile-quantization] and m % 128 != 0
//	not (label contains "splitk") or us < 50
//
// Operators are == != < <= > >= in contains startsWith endsWith matches + - * / %, joined by && || ! or and,
// or, not. A single = is ==. Text needs no quotes after == or != or in a list after in, if the name before
// the operator is a text. Names are listed by [Names].
//
// A missing value is the empty text, the count 0, or NaN.
package query
