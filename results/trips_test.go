package results_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/results/merge"
)

func TestPropertyExportImport(t *testing.T) {
	results.Few(t)
	rapid.Check(t, func(t *rapid.T) {
		dir := results.Scratch(t)
		w := results.DrawRun(t, filepath.Join(dir, "run.db"))
		defer w.Close()
		before := results.ContentOf(t, w)

		var text, lines, columns bytes.Buffer
		check(t, export.Write(w, &text, export.FormatCSV, export.Samples{}))
		check(t, export.Write(w, &lines, export.FormatJSONL, export.Samples{}))
		check(t, export.Write(w, &columns, export.FormatParquet, export.Samples{}))
		csvPath := filepath.Join(dir, "samples.csv")
		check(t, os.WriteFile(csvPath, text.Bytes(), 0o644))
		r, err := importing.Import(context.Background(), []string{csvPath}, filepath.Join(dir, "again.db"), importing.Options{})
		check(t, err)
		defer r.Close()
		after := results.ContentOf(t, r.Run)
		if d := gocmp.Diff(before.Samples, after.Samples); d != "" {
			t.Fatal("(-exported +imported):\n" + d)
		}
		if before.Meta.Distribution != after.Meta.Distribution || before.Meta.Seed != after.Meta.Seed {
			t.Fatal("distribution or seed changed on the way: ", after.Meta)
		}
		if d := gocmp.Diff(before.Meta.Labels, after.Meta.Labels); d != "" ||
			after.Meta.Fingerprint.Hostname != before.Meta.Fingerprint.Hostname {
			t.Fatal("labels (-exported +imported), host "+after.Meta.Fingerprint.Hostname+":\n", d)
		}
		origins, err := r.Origins()
		check(t, err)
		for _, o := range origins {
			if d := gocmp.Diff(before.Meta.Ceilings[o.Device], after.Meta.Ceilings[o.Device]); d != "" {
				t.Fatal("ceilings (-exported +imported):\n" + d)
			}
		}
		if len(r.Warnings()) > 0 {
			t.Fatal("our own columns are warned of: ", r.Warnings())
		}

		var fromJSON []export.Line
		d := json.NewDecoder(&lines)
		for d.More() {
			var e export.Line
			check(t, d.Decode(&e))
			fromJSON = append(fromJSON, e)
		}
		fromParquet, err := parquet.Read[export.Line](bytes.NewReader(columns.Bytes()), int64(columns.Len()))
		check(t, err)
		if d := gocmp.Diff(fromJSON, fromParquet); d != "" {
			t.Fatal("(-jsonl +parquet):\n" + d)
		}
		file, err := parquet.OpenFile(bytes.NewReader(columns.Bytes()), int64(columns.Len()))
		check(t, err)
		told, id, err := export.Meta(file.Lookup)
		check(t, err)
		want := before.Meta
		want.Command, want.Plan = "", nil
		if d := gocmp.Diff(want, told); d != "" || id != w.ID() {
			t.Fatal("metadata of Parquet (-written +read), run "+id+":\n", d)
		}
		for i, s := range before.Samples {
			if fromJSON[i].US != s.Sample.US || fromJSON[i].Seq != s.Sample.Seq || fromJSON[i].M != s.Case.M {
				t.Fatal("line ", i, ": ", fromJSON[i], " is not ", s)
			}
			if at := fromJSON[i].Started; int64(at) != s.Sample.StartedUnixMicro {
				t.Fatal("line ", i, ": started at ", at, " for ", s.Sample.StartedUnixMicro)
			}
			if p := fromJSON[i].PowerW; (p == nil) != (s.Sample.PowerW == 0) || p != nil && *p != s.Sample.PowerW {
				t.Fatal("line ", i, ": power ", p, " for ", s.Sample.PowerW)
			}
		}
	})
}

func TestPropertyMergeOfPartition(t *testing.T) {
	results.Few(t)
	rapid.Check(t, func(t *rapid.T) {
		dir := results.Scratch(t)
		whole := results.DrawRun(t, filepath.Join(dir, "whole.db"))
		defer whole.Close()
		cases, err := whole.Cases()
		check(t, err)
		samples, err := whole.Samples("")
		check(t, err)
		failures, err := whole.Failures()
		check(t, err)
		n := rapid.IntRange(1, 4).Draw(t, "shards")
		var paths []string
		var shards []*results.Run
		var ids []map[int64]int64
		for i := range n {
			meta := results.SomeMeta()
			meta.Plan = json.RawMessage(fmt.Sprintf(`{"shard": "%d/%d", "batches": "4:64:4"}`, i+1, n))
			r, err := results.Create(filepath.Join(dir, fmt.Sprintf("shard%d.db", i)), meta)
			check(t, err)
			defer r.Close()
			// Every shard has its own order of cases.
			own, err := r.AddCases(rapid.Permutation(cases).Draw(t, "cases"))
			check(t, err)
			byKey := map[results.CaseKey]int64{}
			for _, c := range own {
				byKey[c.Key()] = c.ID
			}
			id := map[int64]int64{}
			for _, c := range cases {
				id[c.ID] = byKey[c.Key()]
			}
			check(t, r.SetState("status", "complete"))
			shards, ids, paths = append(shards, r), append(ids, id), append(paths, r.Path())
		}
		for _, s := range samples {
			// Most samples are in one shard, some in two.
			for range rapid.IntRange(1, 2).Draw(t, "copies") {
				to := rapid.IntRange(0, n-1).Draw(t, "shard")
				own := s
				own.CaseID = ids[to][s.CaseID]
				if err := shards[to].Append(own); err != nil && !strings.Contains(err.Error(), results.ErrDuplicate.Error()) {
					t.Fatal(err)
				}
			}
		}
		for _, f := range failures {
			to := rapid.IntRange(0, n-1).Draw(t, "shard")
			f.CaseID = ids[to][f.CaseID]
			check(t, shards[to].Fail(f))
		}
		for _, r := range shards {
			check(t, r.Close())
		}
		merged, err := merge.Runs(context.Background(), filepath.Join(dir, "merged.db"), paths, merge.Options{})
		check(t, err)
		defer merged.Close()
		// Shards are separate runs.
		ignore := gocmp.Options{cmpopts.IgnoreFields(results.Meta{}, "Plan"), cmpopts.IgnoreFields(results.Origin{}, "Run")}
		if d := gocmp.Diff(results.ContentOf(t, whole), results.ContentOf(t, merged), ignore); d != "" {
			t.Fatal("(-whole +merged):\n" + d)
		}
	})
}
