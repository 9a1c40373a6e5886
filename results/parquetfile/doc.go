// Package parquetfile reads exports of samples and other Parquet files. A file, which may be hostile, costs at most
// memory in proportion to its size.
package parquetfile
