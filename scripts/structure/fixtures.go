package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const fixtureSection = "fixture"

var (
	shown   = regexp.MustCompile(`(?m)^<!-- (\S+/(?:example|fixture)_\w+_test\.go):`)
	touched = regexp.MustCompile("(?m)^\\| `[^`]+` \\| (new|edited) \\|")
)

// fixtures counts, for each section of the page that shows an example, the files that its table lists and the files that name what the
// example's file declares.
func (m *module) fixtures(page string) ([]figure, error) {
	text, err := os.ReadFile(filepath.Join(m.dir, page))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []figure
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		example := shown.FindStringSubmatch(body)
		if example == nil {
			continue
		}
		files := map[string]int{}
		for _, row := range touched.FindAllStringSubmatch(body, -1) {
			files[row[1]]++
		}
		named, err := m.namedElsewhere(example[1])
		if err != nil {
			return nil, err
		}
		all = append(all, row(fixtureSection, title, files["edited"], files["new"], named))
	}
	return all, nil
}

// namedElsewhere counts the other files of a fixture's package that refer to a package-level declaration of the fixture's file.
func (m *module) namedElsewhere(fixture string) (int, error) {
	fset := token.NewFileSet()
	folder := filepath.Join(m.dir, filepath.Dir(fixture))
	own, err := parser.ParseFile(fset, filepath.Join(m.dir, fixture), nil, 0)
	if err != nil {
		return 0, err
	}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, name := range names {
		if filepath.Base(name) == filepath.Base(fixture) {
			continue
		}
		other, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return 0, err
		}
		// Names that a file does not declare itself; those of a package's other files are among them.
		if other.Name.Name == own.Name.Name && slices.ContainsFunc(other.Unresolved, func(i *ast.Ident) bool {
			return own.Scope.Lookup(i.Name) != nil
		}) {
			count++
		}
	}
	return count, nil
}
