package explain

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

// kindOf gives the kind of words for a constant's type in package rules.
var kindOf = map[string]Kind{"rules.Rule": Rule, "cause.Kind": Cause, "rules.Verdict": Verdict, "rules.Status": Status,
	"rules.RemedyKind": Remedy, "change.Kind": Change,
	"rules.SeenIn": Sustained}

// Every constant of package rules that output prints has a term.
func TestEveryWordIsExplained(t *testing.T) {
	files, err := filepath.Glob("../*.go")
	changes, _ := filepath.Glob("../c[ah]*[eg]/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[Kind]int{}
	for _, path := range append(files, changes...) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			typ, _ := spec.Type.(*ast.Ident)
			value, _ := spec.Values[0].(*ast.BasicLit)
			if typ == nil || value == nil {
				return true
			}
			kind := kindOf[file.Name.Name+"."+typ.Name]
			if kind == "" {
				return true
			}
			name, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[kind]++
			terms := Find(name)
			// marginal and undecided have one meaning for rows and cases.
			if !slices.ContainsFunc(terms, func(t Term) bool { return t.Kind == kind || kind == Change && t.Kind == Verdict }) {
				t.Errorf("%s %q is printed and not explained", kind, name)
			}
			return true
		})
	}
	for typ, kind := range kindOf {
		if found[kind] < 3 {
			t.Errorf("%d constants of type %s were found", found[kind], typ)
		}
	}
	if found[Rule] != len(rules.AllRules()) || found[Cause] != len(cause.All()) {
		t.Errorf("%d rules and %d causes were found", found[Rule], found[Cause])
	}
}

// Every term has all four texts, and its picture fits a terminal.
func TestTermsAreWhole(t *testing.T) {
	terms, err := read()
	if err != nil || len(terms) < 50 {
		t.Fatalf("%d terms were read: %v", len(terms), err)
	}
	last := 0
	for _, term := range terms {
		at := slices.Index(Kinds(), term.Kind)
		if at < last {
			t.Errorf("%s %s stands behind a later kind", term.Kind, term.Name)
		}
		last = max(last, at)
		if term.Name == "" || term.Meaning == "" || term.Picture == "" || term.Decided == "" || term.Do == "" {
			t.Errorf("%+v is not whole", term)
		}
		if strings.HasSuffix(term.Meaning, ".") || !strings.HasSuffix(term.Decided, ".") || !strings.HasSuffix(term.Do, ".") {
			t.Errorf("%s: the meaning is half a sentence, the rest sentences", term.Name)
		}
		lines := strings.Split(strings.TrimRight(term.Picture, "\n"), "\n")
		for _, line := range lines {
			if len([]rune(line)) > 76 {
				t.Errorf("%s: a line of %d columns", term.Name, len([]rune(line)))
			}
		}
		if len(lines) > 8 {
			t.Errorf("%s: a picture of %d lines", term.Name, len(lines))
		}
		twice := 0
		for _, other := range Find(term.Name) {
			if other.Kind == term.Kind {
				twice++
			}
		}
		if twice != 1 {
			t.Errorf("%s %s is explained %d times", term.Kind, term.Name, twice)
		}
	}
	if got := Find("Wave Quantisation"); len(got) != 1 || got[0].Name != "wave-quantization" {
		t.Errorf("a name with a space: %v", got)
	}
	if got := Find("beauty"); len(got) != 0 {
		t.Errorf("no name: %v", got)
	}
}

// Words of tables and help texts that are not constants have a term.
func TestWordsOfTables(t *testing.T) {
	for _, name := range []string{"baseline", "confound", "confounded", "since", "false discovery rate", "adjusted p", "drift",
		"common clock",
		"sentinel", "regime", "preempted", "at clock", "time at stake", "nk", "problem", "resolution"} {
		if len(Find(name)) != 1 {
			t.Errorf("%q is explained %d times, expected once", name, len(Find(name)))
		}
	}
}
