//go:build cuda

package softmax

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// askedCall is a line that scripts/check_softmax.py writes.
type askedCall struct {
	Rows    int           `json:"rows"`
	Columns int           `json:"columns"`
	DType   kernels.DType `json:"dtype"`
	Kernel  string        `json:"kernel"` // "auto", or another kernel's name
}

// toldCall is a launch for the script: args with space in front for the addresses of input, output and
// exchange, 8 bytes each.
type toldCall struct {
	Label       string `json:"label"`
	Symbol      string `json:"symbol"`
	Source      string `json:"source"`
	Grid        int    `json:"grid"`
	Block       int    `json:"block"`
	Cluster     int    `json:"cluster"`
	Shared      int    `json:"shared"` // dynamic, in bytes
	Cooperative bool   `json:"cooperative"`
	Overlap     bool   `json:"overlap"` // with the previous launch
	Flags       int64  `json:"flags"`
	Args        string `json:"args"`
}

// BenchmarkCalls answers scripts/check_softmax.py, which runs our kernels and PyTorch's in one process.
// GEMMAUDIT_SOFTMAX_ASKED is a file with a line of JSON for each softmax, GEMMAUDIT_SOFTMAX_TOLD the file for
// the launches. Kernel images are written to the same folder under the names of their sources.
func BenchmarkCalls(b *testing.B) {
	from, to := os.Getenv("GEMMAUDIT_SOFTMAX_ASKED"), os.Getenv("GEMMAUDIT_SOFTMAX_TOLD")
	if from == "" || to == "" {
		b.Skip("nothing was asked")
	}
	a := gputest.First(b).Arch()
	asked, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer asked.Close()
	told, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	defer told.Close()
	written := map[string]bool{}
	lines, out := json.NewDecoder(asked), json.NewEncoder(told)
	for {
		var ask askedCall
		if err := lines.Decode(&ask); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			b.Fatal(err)
		}
		tell, err := tellCall(a, ask)
		if err != nil {
			b.Fatalf("%+v: %v", ask, err)
		}
		if !written[tell.Source] {
			written[tell.Source] = true
			image, _, err := artefacts.Image(tell.Source, a.CC)
			if err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(to+"."+tell.Source, image, 0o644); err != nil {
				b.Fatal(err)
			}
		}
		if err := out.Encode(tell); err != nil {
			b.Fatal(err)
		}
	}
}

func tellCall(a planning.Arch, ask askedCall) (toldCall, error) {
	p, err := NewProblem(kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: ask.DType,
		Dims: kernels.Dims{Columns: ask.Columns}}, M: ask.Rows})
	if err != nil {
		return toldCall{}, err
	}
	var among []family
	for _, f := range Families() {
		if f.Name() == ask.Kernel {
			among = []family{f}
		}
	}
	if ask.Kernel == "auto" {
		among = ladder
	}
	best, plan, ok := planning.Pick(among, a, p)
	if !ok {
		return toldCall{}, errors.New(planning.Refusals(among, a, p))
	}
	c := plan.Bind(Addresses{})[0]
	k, err := artefacts.Find(c.Kernel, a.CC)
	if err != nil {
		return toldCall{}, err
	}
	return toldCall{
		Label: planning.JoinLabel(best.Name(), plan.Label), Symbol: c.Kernel, Source: k.Source, Grid: c.Grid.X, Block: c.Block.X,
		Cluster: c.Cluster.X, Shared: c.Shared, Cooperative: c.Cooperative, Overlap: c.Overlap, Flags: plan.Flags,
		Args: base64.StdEncoding.EncodeToString(c.Args.Bytes),
	}, nil
}
