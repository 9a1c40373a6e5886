package table

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// WriteHeader writes a valid table as a C99 header that needs only the standard library: constant arrays, the
// conditions as strings, and inline functions that look up an action and list its parts. Every name begins
// with prefix: lower-case letters, digits and underscores; empty means "gemmaudit".
func (t *Table) WriteHeader(w io.Writer, prefix string) error {
	if prefix == "" {
		prefix = "gemmaudit"
	}
	if !identifier.MatchString(prefix) {
		return fmt.Errorf("table: prefix %q is not a C name in lower case", prefix)
	}
	if err := t.Validate(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	b := bufio.NewWriter(w)
	named := strings.NewReplacer("PREFIX_", strings.ToUpper(prefix)+"_", "prefix_", prefix+"_")
	b.WriteString(named.Replace(headerTop))
	t.header(naming{b, prefix}, t.flatten())
	b.WriteString(named.Replace(headerBottom))
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write header: %w", err)
	}
	return nil
}

// naming writes the names' prefix for each \x00.
type naming struct {
	to     *bufio.Writer
	prefix string
}

func (n naming) Write(p []byte) (int, error) {
	for rest := p; ; {
		plain, after, found := bytes.Cut(rest, []byte{0})
		n.to.Write(plain)
		if !found {
			return len(p), nil
		}
		n.to.WriteString(n.prefix)
		rest = after
	}
}

func (n naming) WriteString(s string) (int, error) { return n.Write([]byte(s)) }

// header writes the data. \x00 stands for the prefix, since no text of a valid table contains it.
func (t *Table) header(b naming, f *flat) {
	b.WriteString("/* What the table was measured on. Compare it before using the table.\n")
	for _, p := range t.Conditions() {
		fmt.Fprintf(b, " *   %s: %s\n", cComment(p[0]), cComment(p[1]))
	}
	b.WriteString(" */\nstatic const char *const \x00_validators[][2] = {\n")
	for _, p := range t.Conditions() {
		fmt.Fprintf(b, "\t{%s, %s},\n", cString(p[0]), cString(p[1]))
	}
	b.WriteString("\t{0, 0}\n};\n\n")

	b.WriteString("/* The leading parts of all splits. */\nstatic const int \x00_firsts[] = {")
	for i, n := range f.firsts {
		b.WriteString(lineBreak(i))
		fmt.Fprintf(b, "%d,", n)
	}
	b.WriteString("\n\t0\n};\n\n")

	b.WriteString("/* The attributes of all algorithms. */\nstatic const \x00_attributes \x00_algorithms[] = {\n")
	for _, a := range f.actions {
		if a.Algorithm != (Attributes{}) {
			fmt.Fprintf(b, "\t{%s},\n", join(a.Algorithm.list(), ", "))
		}
	}
	b.WriteString("\t{0, 0, 0, 0, 0, 0, 0, 0, 0}\n};\n\n")
	algorithms := 0

	b.WriteString("/* The actions: kind, leading parts, their number, pad_to, copied, kernel, algorithm. */\n" +
		"static const \x00_action \x00_actions[] = {\n")
	for i, a := range f.actions {
		kernel := "0"
		if a.Kernel != "" {
			kernel = cString(a.Kernel)
		}
		comma := ","
		if i == len(f.actions)-1 {
			comma = ""
		}
		copied, algorithm := 0, "0"
		if a.Pad == Copied {
			copied = 1
		}
		if a.Algorithm != (Attributes{}) {
			algorithm = fmt.Sprintf("\x00_algorithms + %d", algorithms)
			algorithms++
		}
		fmt.Fprintf(b, "\t{\x00_%s, \x00_firsts + %d, %d, %d, %d, %s, %s}%s /* %d: %s */\n",
			string(a.kind()), a.first, len(a.First), a.PadTo, copied, kernel, algorithm, comma, i, cComment(a.describe()))
	}
	b.WriteString("};\n\n")

	b.WriteString("/* The intervals of m: first, last, action. */\nstatic const \x00_interval \x00_intervals[] = {")
	for i, iv := range f.intervals {
		b.WriteString(lineBreak(i))
		fmt.Fprintf(b, "{%d, %d, %d},", iv.from, iv.to, iv.action)
	}
	b.WriteString("\n\t{0, 0, 0}\n};\n\n")

	b.WriteString("/* The series: the product, default action, intervals [begin, end). */\n" +
		"static const \x00_series \x00_all_series[] = {\n")
	for _, s := range f.series {
		fmt.Fprintf(b, "\t{{%s, %s, %s, %s, %d, %d, %s}, %d, %d, %d}, /* default: %s */\n",
			cString(s.Kernel), cString(s.DType), cString(s.Weights), cString(s.Layout), s.N, s.K, cString(s.Epilogue),
			s.action, s.begin, s.end, cComment(s.Default.describe()))
	}
	fmt.Fprintf(b, "\t{{0, 0, 0, 0, 0, 0, 0}, 0, 0, 0}\n};\n\nenum { \x00_series_count = %d };\n", len(f.series))
}

func lineBreak(i int) string {
	const perLine = 8
	if i%perLine == 0 {
		return "\n\t"
	}
	return " "
}

// cString returns a C string literal of the bytes of s. Special bytes are octal, which ends after three
// digits; question marks are escaped because two begin a trigraph.
func cString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\' || c == '?':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// cComment makes s safe inside a comment: it can't end or begin a comment, form a trigraph or hide text.
func cComment(s string) string {
	s = strconv.QuoteToASCII(s)
	s = s[1 : len(s)-1]
	for _, pair := range []string{"*/", "/*", "??"} {
		for strings.Contains(s, pair) {
			s = strings.ReplaceAll(s, pair, pair[:1]+" "+pair[1:])
		}
	}
	return strings.TrimRight(s, `\`)
}

const headerTop = `/* Code generated by gemmaudit. DO NOT EDIT.
 *
 * For a product C[M,N] = A[M,K] * B[K,N]: whether to run it as it is, in parts
 * over M, padded to a larger M, by another kernel, or by another algorithm of a
 * library. See prefix_lookup.
 */
#ifndef PREFIX_TABLE_H
#define PREFIX_TABLE_H

#include <string.h>

/* prefix_kind is a way to execute a product. */
enum prefix_kind {
	prefix_direct, /* one launch, as it is; also where the table says nothing */
	prefix_split,  /* launches over parts of M into one output */
	prefix_pad,    /* one launch with a larger M */
	prefix_kernel, /* one launch of another kernel */
	prefix_algorithm /* one launch of an algorithm of a library */
};

/* prefix_attributes are those of cublasLtMatmulAlgoConfigAttributes_t. */
typedef struct {
	int id, tile, stages, split_k, reduction, swizzle, custom, inner, cluster;
} prefix_attributes;

/* prefix_action is what to do with a product. */
typedef struct {
	enum prefix_kind kind;
	const int *first;   /* of a split: the sizes of its leading parts */
	int first_count;    /* the remainder of M is one more part */
	int pad_to;         /* of padding: the M that is launched, else 0 */
	int copied;         /* of padding: measured with the rows copied into a buffer with room
	                       first; else there has to be room behind them */
	const char *kernel; /* the name of another kernel or of the library, else null */
	const prefix_attributes *algorithm; /* of the library, else null */
} prefix_action;

typedef struct {
	int from, to, action;
} prefix_interval;

/* prefix_product is C[M,N] = A[M,K] * B for every M. */
typedef struct {
	const char *kernel;  /* that would run it */
	const char *dtype;   /* of A */
	const char *weights; /* the format of B; null or "" where its elements are of dtype */
	const char *layout;  /* how B is stored: "kn" for [K,N], "nk" for [N,K] */
	int n, k;
	const char *epilogue; /* of the same launch; null or "" for none */
} prefix_product;

typedef struct {
	prefix_product product;
	int action, begin, end;
} prefix_series;

`

const headerBottom = `
/* prefix_lookup returns the action for a product of m rows: that of the
 * interval in which m lies, else the default of its series, else direct.
 */
static inline const prefix_action *prefix_lookup(const prefix_product *p, int m)
{
	int lo = 0, hi = prefix_series_count;
	while (lo < hi) {
		int mid = lo + (hi - lo) / 2;
		const prefix_series *s = &prefix_all_series[mid];
		int c = strcmp(s->product.kernel, p->kernel);
		c = c ? c : strcmp(s->product.dtype, p->dtype);
		c = c ? c : strcmp(s->product.weights, p->weights ? p->weights : "");
		c = c ? c : strcmp(s->product.layout, p->layout);
		c = c ? c : (s->product.n > p->n) - (s->product.n < p->n);
		c = c ? c : (s->product.k > p->k) - (s->product.k < p->k);
		c = c ? c : strcmp(s->product.epilogue, p->epilogue ? p->epilogue : "");
		if (c == 0) {
			int begin = s->begin, end = s->end;
			while (begin < end) {
				int at = begin + (end - begin) / 2;
				if (prefix_intervals[at].to < m)
					begin = at + 1;
				else
					end = at;
			}
			if (begin < s->end && prefix_intervals[begin].from <= m)
				return &prefix_actions[prefix_intervals[begin].action];
			return &prefix_actions[s->action];
		}
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return &prefix_actions[0];
}

/* prefix_parts writes the Ms of the launches of a product of m rows to parts,
 * as far as they fit into capacity, and returns how many there are. Anything but a
 * split that leaves rows of m is one launch.
 */
static inline int prefix_parts(const prefix_action *action, int m, int *parts, int capacity)
{
	int i, rest = m;
	for (i = 0; i < action->first_count; i++)
		rest -= action->first[i];
	if (action->kind != prefix_split || rest < 1) {
		if (capacity > 0)
			parts[0] = action->kind == prefix_pad && action->pad_to > m ? action->pad_to : m;
		return 1;
	}
	for (i = 0; i < action->first_count; i++) {
		if (i < capacity)
			parts[i] = action->first[i];
	}
	if (i < capacity)
		parts[i] = rest;
	return i + 1;
}

#endif /* PREFIX_TABLE_H */
`
