// Package regex matches the regular expressions that byte-level tokenizers (GPT-2, GPT-4, Llama 3, Qwen,
// Tekken) use to split text into words. github.com/dlclark/regexp2/v2 does the matching.
//
// It supports the common subset of the two engines in use: Oniguruma with Ruby's syntax (Hugging Face's
// tokenizers) and Rust's fancy-regex (tiktoken and mistral-common). [Compile] rejects constructs that they
// interpret differently and everything else that is unsupported:
//
//	literals, ., \r \n \t \f \v \a, \uHHHH, \x{H…}, escaped punctuation
//	\s \S \d \D, \p{X} and \P{X} with a general category of one or two letters
//	[…] and [^…] of these and of ranges, without nested classes
//	x|y, (…), (?:…), (?=…), (?!…), (?>…)
//	? * + {n} {n,} {n,m}; the first three also lazy (*?) and possessive (*+)
//	(?i:…) around ASCII
//
// The engines have the general categories of Unicode 16.0, Go's tables have another version. Characters of
// another category in Go are matched as one of their category, from unicode.txt, made with the engines.
//
// The time of a match is not bounded: an expression such as (?:a+)+b can take exponential time. Expressions
// of known tokenizers take linear time.
package regex
