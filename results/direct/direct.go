// Package direct reads and writes an SQLite file without database/sql, whose rows and arguments cost more than
// the database itself for millions of rows. Columns are read strictly: a value of another type is an error.
//
// One goroutine at a time may use a [DB] and its statements.
package direct

import (
	"fmt"
	"slices"

	_ "modernc.org/sqlite" // the driver of database/sql, which opens the same files
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Error is an error of the database.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the package's error.
func (e *Error) Unwrap() error { return e.err }

// Code returns the extended result code, whose lowest byte is the primary one.
func (e *Error) Code() int { return int(sqlite.ErrCode(e.err)) }

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}

// DB is one connection.
type DB struct{ conn *sqlite.Conn }

// Open opens a database by URI, with mode ro or rw as a parameter. Pragmas have the form "name=value".
func Open(uri string, pragmas ...string) (*DB, error) {
	conn, err := sqlite.OpenConn(uri, sqlite.OpenReadWrite|sqlite.OpenURI)
	if err != nil {
		return nil, wrap(err)
	}
	d := &DB{conn}
	conn.SetBusyTimeout(0) // the pragmas decide
	for _, p := range pragmas {
		if err := d.Exec("PRAGMA " + p); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// Close closes the connection. Close all statements first.
func (d *DB) Close() error { return wrap(d.conn.Close()) }

// Exec runs a statement without results.
func (d *DB) Exec(query string) error { return wrap(sqlitex.ExecuteTransient(d.conn, query, nil)) }

// Prepare compiles one statement.
func (d *DB) Prepare(query string) (*Stmt, error) {
	s, _, err := d.conn.PrepareTransient(query)
	if err != nil {
		return nil, wrap(err)
	}
	return &Stmt{Stmt: s}, nil
}

// Stmt is a prepared statement. Parameters count from 1, columns from 0. The next Step or Run returns an earlier
// error of a bind or of a column type.
type Stmt struct {
	*sqlite.Stmt
	text []byte
	err  error
}

// Close frees the statement.
func (s *Stmt) Close() { s.Finalize() }

// Err returns the first error of binds and columns since the last Run.
func (s *Stmt) Err() error { return s.err }

// Bind binds values of the types int, int64, float64, string, bool and nil, in order.
func (s *Stmt) Bind(values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			s.BindNull(i + 1)
		case int:
			s.BindInt64(i+1, int64(v))
		case int64:
			s.BindInt64(i+1, v)
		case float64:
			s.BindFloat(i+1, v)
		case string:
			s.BindText(i+1, v)
		case bool:
			s.BindBool(i+1, v)
		default:
			s.err = fmt.Errorf("parameter %d is a %T, which can't be stored", i+1, v)
		}
	}
}

// Step goes to the next row; false after the last.
func (s *Stmt) Step() (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	row, err := s.Stmt.Step()
	return row, wrap(err)
}

// Run executes a statement without result rows and resets it. Parameters keep their values.
func (s *Stmt) Run() error {
	_, err := s.Step()
	if reset := s.Reset(); err == nil {
		err = wrap(reset)
	}
	s.err = nil
	return err
}

var typeNames = map[sqlite.ColumnType]string{
	sqlite.TypeInteger: "a whole number", sqlite.TypeFloat: "a number", sqlite.TypeText: "text", sqlite.TypeBlob: "a blob",
	sqlite.TypeNull: "nothing",
}

func (s *Stmt) is(i int, want sqlite.ColumnType) bool {
	got := s.ColumnType(i)
	if got != want && s.err == nil {
		s.err = fmt.Errorf("column %s holds %s, expected %s", s.ColumnName(i), typeNames[got], typeNames[want])
	}
	return got == want
}

// Int returns the integer in a column.
func (s *Stmt) Int(i int) int64 {
	if !s.is(i, sqlite.TypeInteger) {
		return 0
	}
	return s.ColumnInt64(i)
}

// Float returns the number in a column.
func (s *Stmt) Float(i int) float64 {
	if !s.is(i, sqlite.TypeFloat) {
		return 0
	}
	return s.ColumnFloat(i)
}

// Null reports whether a column is null.
func (s *Stmt) Null(i int) bool { return s.ColumnIsNull(i) }

// Text returns the text in a column, valid until the next call of Text.
func (s *Stmt) Text(i int) []byte {
	if !s.is(i, sqlite.TypeText) {
		return nil
	}
	n := s.ColumnLen(i)
	s.text = slices.Grow(s.text[:0], n)[:n]
	return s.text[:s.ColumnBytes(i, s.text)]
}
