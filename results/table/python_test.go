package table

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// asking prints the Python reader's answers in the form of answers.
const asking = `import json, sys
import gemmaudit
out = []
for i, queries in enumerate(json.load(open("queries.json", encoding="utf-8"))):
    table = gemmaudit.read(f"t{i}.json")
    for j, q in enumerate(queries):
        for m in range(1, int(sys.argv[1]) + 1):
            try:
                a = table.lookup(q["kernel"], q["dtype"], q["layout"], q["n"], q["k"], m, q.get("weights", ""), q.get("epilogue", ""))
            except LookupError: # only Python reports names that no series has
                a = gemmaudit.Action()
            l = a.algorithm or gemmaudit.Algorithm()
            out.append(f"{i} {j} {m}: {a.kind} {a.pad_to} {int(a.pad == 'copied')} [{a.kernel}] {l.id} {l.tile} {l.split_k} {l.cluster} ` +
	`{' '.join(map(str, a.parts(m)))} / {' '.join(map(str, a.parts(m // 2)))}\n")
sys.stdout.buffer.write("".join(out).encode())
`

func TestPythonAgreesWithLookup(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("no Python: %v", err)
	}
	reader, err := filepath.Abs("../../scripts/python")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tables := drawnTables()
	var asked [][]Product
	for i, table := range tables {
		text, err := table.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, fmt.Sprintf("t%d.json", i)), string(text))
		asked = append(asked, queries(table))
	}
	text, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "queries.json"), string(text))
	cmd := exec.Command(python, "-c", asking, fmt.Sprint(largestM+100))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+reader, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	compare(t, answers(tables), outputOf(t, cmd))
}
