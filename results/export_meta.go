package results

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// ExportSchema is the version of the columns of an export, and of what Parquet files say of the run.
const ExportSchema = "gemmaudit.samples/2"

// The keys of a Parquet file's metadata. The fields of [Meta] are behind exportKey under the names that they have in
// a run file.
const (
	exportKey    = "gemmaudit."
	keyExport    = exportKey + "schema"
	keyExportRun = exportKey + "run_id"
)

// notExported are fields of Meta that say nothing of the samples: the command line may name folders, and a plan may be
// larger than all else.
var notExported = []string{"command", "plan"}

// parquetMeta are what a Parquet file says of its run.
func parquetMeta(r *Run) ([]parquet.WriterOption, error) {
	meta := r.Meta()
	out := []parquet.WriterOption{parquet.KeyValueMetadata(keyExport, ExportSchema), parquet.KeyValueMetadata(keyExportRun, r.ID())}
	for _, f := range metaFields {
		if slices.Contains(notExported, f.key) {
			continue
		}
		value, err := f.write(&meta)
		if err != nil {
			return nil, fmt.Errorf("meta field %s: %w", f.key, err)
		}
		out = append(out, parquet.KeyValueMetadata(exportKey+f.key, value))
	}
	return out, nil
}

// ExportedMeta reads what a Parquet file that [Export] wrote says of its run, and the id of the run. lookup is the
// file's metadata. Of another file the error says what is missing; a field that is damaged is named.
func ExportedMeta(lookup func(key string) (string, bool)) (meta Meta, run string, err error) {
	switch schema, ok := lookup(keyExport); {
	case !ok:
		return meta, "", fmt.Errorf("the metadata has no %s: no export of this program, or one of an early version", keyExport)
	case schema != ExportSchema:
		return meta, "", fmt.Errorf("%s is %.40q, expected %s", keyExport, schema, ExportSchema)
	}
	meta.Schema = SchemaVersion
	for _, f := range metaFields {
		s, ok := lookup(exportKey + f.key)
		if !ok {
			continue
		}
		if err := f.read(&meta, s); err != nil {
			return Meta{}, "", fmt.Errorf("%s: %w", exportKey+f.key, err)
		}
	}
	run, _ = lookup(keyExportRun)
	return meta, run, nil
}
