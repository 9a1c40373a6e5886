package results_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Arrows between the rooms of results run one way. The store imports none of them; a room may import those that
// stand before it.
func TestArrows(t *testing.T) {
	const root = "github.com/gemmaudit/gemmaudit/results"
	rooms := []string{"", "export", "merge", "parquetfile", "importing"}
	for i, room := range rooms {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		must(t, err)
		if room != "" && len(files) == 0 {
			t.Errorf("there is no room %s", room)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
			must(t, err)
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				must(t, err)
				to, inside := strings.CutPrefix(path, root+"/")
				if at := slices.Index(rooms, to); inside && at >= i {
					t.Errorf("%s imports %s", name, to)
				}
			}
		}
	}
}
