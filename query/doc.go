// Package query is the language of --where and --sort: it selects and orders what audit, splits,
// diff, report and export list. It changes no verdict; what it leaves out is still judged.
//
// An expression is one of github.com/expr-lang/expr, without its functions, loops and ranges:
//
//	kernel=cublas && loss>0.1
//	cause in [wave-quantisation, tile-quantisation] and m % 128 != 0
//	not (label contains "splitk") or us < 50
//
// It has the operators == != < <= > >= in contains startsWith endsWith matches + - * / %, joined by
// && || ! or and, or, not. A single = is ==. A word after == or != and in a list after in needs no
// quotes where the name before the operator is one of texts. Names are those of [Names].
//
// What a record does not have is the empty text, the count 0, or a number that is neither
// equal to, nor less, nor greater than any other.
package query
