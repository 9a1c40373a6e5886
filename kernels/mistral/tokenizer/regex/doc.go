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
// github.com/dlclark/regexp2 (v1.12.0) classifies characters by tables of another version of
// Unicode than the 16.0 of both engines. With Llama 3's expression it cut 304 of the
// 10 000 strings of package tokenizer's tests in other places, with GPT-4o's 331, and took
// four to six times as long. Classes come from unicode.txt, which was asked of the engines.
package regex
