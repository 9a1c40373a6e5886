package export

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/results"
)

// Schema is the version of an export's columns and of Parquet metadata.
const Schema = "gemmaudit.samples/2"

// The keys of a Parquet file's metadata. [results.Meta]'s fields have exportKey before their run file names.
const (
	exportKey    = "gemmaudit."
	KeySchema    = exportKey + "schema"
	keyExportRun = exportKey + "run_id"
)

// notExported are fields of Meta without information on samples: the command line may contain folder names,
// and a plan may be larger than everything else.
var notExported = []string{"command", "plan"}

func parquetMeta(r *results.Run) ([]parquet.WriterOption, error) {
	meta := r.Meta()
	out := []parquet.WriterOption{parquet.KeyValueMetadata(KeySchema, Schema), parquet.KeyValueMetadata(keyExportRun, r.ID())}
	err := results.WriteMeta(meta, func(key, value string) error {
		if !slices.Contains(notExported, key) {
			out = append(out, parquet.KeyValueMetadata(exportKey+key, value))
		}
		return nil
	})
	return out, err
}

// Meta reads the run's Meta and id from the metadata of a Parquet file by [Export]. lookup reads a
// metadata key. For other files the error says what is missing; a damaged field is named.
func Meta(lookup func(key string) (string, bool)) (meta results.Meta, run string, err error) {
	switch schema, ok := lookup(KeySchema); {
	case !ok:
		return meta, "", fmt.Errorf("the metadata has no %s: no export of this program, or one of an early version", KeySchema)
	case schema != Schema:
		return meta, "", fmt.Errorf("%s is %.40q, expected %s", KeySchema, schema, Schema)
	}
	if meta, err = results.ReadMetaFields(func(key string) (string, bool) { return lookup(exportKey + key) }); err != nil {
		return results.Meta{}, "", fmt.Errorf("%s%w", exportKey, err)
	}
	run, _ = lookup(keyExportRun)
	return meta, run, nil
}
