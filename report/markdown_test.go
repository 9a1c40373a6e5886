package report

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"html"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/report/golden"
)

var markdownParts = []string{
	"@everyone", "cc @org/team, please", "a@b.example", "<a@b.example>", "&#64;user", "mailto:a@b.example", "xmpp:a@b.example/c",
	"www.example.com", "WWW.example.com", "see www.example.com/a_b", "http://example.com", "https://example.com/(a)", "ftp://example.com",
	"<http://example.com>",
	"#12", "fixes #12", "org/repo#12", "GH-12", "gh-12", "org/repo@0123456789012345678901234567890123456789",
	"[a](http://example.com)", "![a](b.png)", "[a][b]", "[b]: http://example.com", "[^1]", "[^1]: note", "[ ] task", "- [x] task",
	"*a*", "_a_", "**a**", "~~a~~", "~a~", "`a`", "``a``", "a ` b", "```", "~~~", "$a$", "$$a$$", "$`a`$", ":tada:", ":+1:", "cuda:0:tada:",
	"# a", "###### a", "a\n===", "===", "---", "- a", "+ a", "* a", "1. a", "12) a", "1.", "    a", "\ta", "> a",
	"<b>a</b>", "<script>a</script>", "<!-- a", "<details>", "</details>", "</summary>", "&lt;b&gt;", "&#60;b&#62;", "&copy;", "<?a?>",
	"<![CDATA[a]]>",
	"a|b", `a\|b`, `a\\|b`, `\`, `a\`, `\@user`, `\#12`, "| a | b |", "--- | ---", "|---|", "a  ", "a\\\nb",
	"\u200b@user", "@\u200buser", "\u202eresu@", "ⓐ＠user", "a\x1b[31mb", "a\x00b", "\xff@user",
}

func texts() []string {
	out := append([]string(nil), markdownParts...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var b strings.Builder
		for range 2 + r.IntN(4) {
			part := []rune(strings.ToValidUTF8(markdownParts[r.IntN(len(markdownParts))], "?"))
			from := r.IntN(len(part))
			b.WriteString(string(part[from : from+1+r.IntN(len(part)-from)]))
			b.WriteString([]string{"", "", " ", "|", "\n"}[r.IntN(5)])
		}
		out = append(out, b.String())
	}
	return out
}

func places(t *testing.T, texts []string) string {
	t.Helper()
	var b bytes.Buffer
	for _, s := range texts {
		sheet := Sheet{Title: s, Columns: []Column{{Name: s}, {Name: "code"}}, Rows: [][]any{{s, code(s)}, {"x", "y"}}}
		p := &page{title: s, machine: s, summary: []Note{{s, Good}, {s, Bad}}, sections: []section{
			{heading: s, text: []string{s}, sheet: &sheet},
			{heading: s, text: []string{s, s}, folded: true, code: []string{s}},
		}}
		if err := p.markdown(&b, func(*Figure) string { return "a.svg" }); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var (
	codeOrPre = regexp.MustCompile(`(?s)<(code|pre)\b[^>]*>.*?</(code|pre)>`)
	tag       = regexp.MustCompile(`<[^>]*>`)
	// Text that GitHub links after rendering, and emoji codes.
	live = regexp.MustCompile(`@[A-Za-z0-9]|(?i:\bGH)-[0-9]|#[0-9]|://|(?i:\bwww)\.|:([A-Za-z0-9_+-]{3,}|[A-Za-z_+-][A-Za-z0-9_+-]?|` +
		`[0-9][A-Za-z_+-]):`)
)

// TestMarkdownIsText checks pages of hostile text rendered by GitHub's renderer, cmark-gfm. Without cmark-gfm, the
// pages must match the hash in testdata of the last pages that passed; -update writes it.
func TestMarkdownIsText(t *testing.T) {
	all := texts()
	plain := make([]string, len(all))
	for i := range plain {
		plain[i] = "text"
		if markdownCode(all[i]) == "" {
			plain[i] = "" // a cell without a code span
		}
	}
	hostile := places(t, all)
	renderer, err := exec.LookPath("cmark-gfm")
	switch {
	case err == nil:
		checkRendered(t, all, rendered(t, renderer, hostile), rendered(t, renderer, places(t, plain)))
	case *golden.Update:
		t.Fatalf("%v: only pages that were rendered are kept as passed", err)
	}
	if !t.Failed() {
		golden.Compare(t, "markdown-passed", fmt.Sprintf("%x\n", sha256.Sum256([]byte(hostile))))
	}
	if t.Failed() && err != nil {
		t.Log("the Markdown of hostile text is not what passed last; install cmark-gfm, and use -update if it passes")
	}
}

func checkRendered(t *testing.T, all []string, hostileHTML, plainHTML string) {
	t.Helper()
	// The structure must match pages of plain text.
	got, want := tag.FindAllString(hostileHTML, -1), tag.FindAllString(plainHTML, -1)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("element %d of %d is %q, expected %q", i, len(got), got[min(i, len(got)-1)], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d elements, expected %d", len(got), len(want))
	}
	// The text must not contain links or emoji.
	text := html.UnescapeString(tag.ReplaceAllString(codeOrPre.ReplaceAllString(hostileHTML, "\n"), "\n"))
	text = strings.ReplaceAll(text, strings.TrimPrefix(toneSign(Bad), "- "), "") // our own
	if found := live.FindAllString(text, 5); len(found) > 0 {
		t.Errorf("live in what is rendered: %q", found)
	}
	// The text must be complete.
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, noWidth, "")), " ")
	at := 0
	for _, s := range all {
		s = strings.Join(strings.Fields(Clean(s)), " ")
		i := strings.Index(text[at:], s)
		if i < 0 {
			t.Fatalf("%q is missing after %q", s, text[max(0, at-100):at])
		}
		at += i
	}
}

func rendered(t *testing.T, renderer, markdown string) string {
	t.Helper()
	c := exec.Command(renderer, "--unsafe", "-e", "table", "-e", "autolink", "-e", "strikethrough", "-e", "tasklist", "-e", "tagfilter")
	c.Stdin = strings.NewReader(markdown)
	out, err := c.Output()
	if err != nil {
		t.Fatalf("render with cmark-gfm: %v", err)
	}
	return string(out)
}
