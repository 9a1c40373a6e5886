// Package regex matches the regular expressions by which byte-level tokenizers cut text
// into words, as those of GPT-2, GPT-4, Llama 3, Qwen and Tekken do.
//
// It is the common subset of the two engines that the field's libraries have: Oniguruma
// with Ruby's syntax (Hugging Face's tokenizers) and Rust's fancy-regex (tiktoken, and
// with it mistral-common). What the two read differently is an error of [Compile], as is
// all else that this package does not follow:
//
//	literals, ., \r \n \t \f \v \a, \uHHHH, \x{H…}, escaped punctuation
//	\s \S \d \D, \p{X} and \P{X} with a general category of one or two letters
//	[…] and [^…] of these and of ranges, without nested classes
//	x|y, (…), (?:…), (?=…), (?!…), (?>…)
//	? * + {n} {n,} {n,m}; the first three also lazy (*?) and possessive (*+)
//	(?i:…) around ASCII
//
// No Go library is used: regexp has neither lookahead nor possessive repeats, and
// github.com/dlclark/regexp2 classifies characters by Go's tables, which are of another
// version of Unicode than those of both engines (5807 code points are assigned in 16.0
// that 15.0 does not have). Classes come from unicode.txt, which was asked of the engines.
package regex
