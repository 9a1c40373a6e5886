// Package direct talks to SQLite without database/sql, whose rows and arguments
// cost more than the database itself when millions of them are moved.
//
// A [DB] and its statements belong to one goroutine at a time.
package direct

import (
	"fmt"
	"unsafe"

	"modernc.org/libc"
	_ "modernc.org/sqlite" // sets the library up
	sqlite3 "modernc.org/sqlite/lib"
)

// Error is a refusal of the database.
type Error struct {
	code int
	text string
}

func (e *Error) Error() string { return e.text }

// Code is the extended result code, whose lowest byte is the primary one.
func (e *Error) Code() int { return e.code }

// DB is one connection.
type DB struct {
	tls  *libc.TLS
	db   uintptr
	out  uintptr            // a pointer to be written by the database
	text map[string]uintptr // what is bound again and again, as C strings
}

// Open opens a database by its URI, whose parameter mode says how: ro or rw. The
// pragmas are given as "name=value".
func Open(uri string, pragmas ...string) (*DB, error) {
	d := &DB{tls: libc.NewTLS(), text: map[string]uintptr{}}
	name, err := libc.CString(uri)
	if err != nil {
		d.tls.Close()
		return nil, err
	}
	defer libc.Xfree(d.tls, name)
	d.out = libc.Xmalloc(d.tls, libc.Tsize_t(unsafe.Sizeof(uintptr(0))))
	const flags = sqlite3.SQLITE_OPEN_READWRITE | sqlite3.SQLITE_OPEN_URI | sqlite3.SQLITE_OPEN_NOMUTEX
	rc := sqlite3.Xsqlite3_open_v2(d.tls, name, d.out, flags, 0)
	d.db = *(*uintptr)(pointer(d.out))
	if err := d.check(rc); err != nil {
		d.Close()
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(d.tls, d.db, 1)
	for _, p := range pragmas {
		if err := d.Exec("PRAGMA " + p); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// pointer is memory of the database, which the garbage collector doesn't move.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (d *DB) check(rc int32) error {
	switch rc {
	case sqlite3.SQLITE_OK, sqlite3.SQLITE_ROW, sqlite3.SQLITE_DONE:
		return nil
	}
	text := libc.GoString(sqlite3.Xsqlite3_errstr(d.tls, rc))
	if d.db != 0 {
		if more := libc.GoString(sqlite3.Xsqlite3_errmsg(d.tls, d.db)); more != text {
			text += ": " + more
		}
	}
	return &Error{code: int(rc), text: fmt.Sprintf("%s (%d)", text, rc)}
}

// Close ends the connection. Statements must have been closed.
func (d *DB) Close() error {
	var err error
	if d.db != 0 {
		err = d.check(sqlite3.Xsqlite3_close_v2(d.tls, d.db))
	}
	for _, p := range d.text {
		libc.Xfree(d.tls, p)
	}
	libc.Xfree(d.tls, d.out)
	d.tls.Close()
	return err
}

// Exec runs statements that return nothing.
func (d *DB) Exec(query string) error {
	q, err := libc.CString(query)
	if err != nil {
		return err
	}
	defer libc.Xfree(d.tls, q)
	return d.check(sqlite3.Xsqlite3_exec(d.tls, d.db, q, 0, 0, 0))
}

// Prepare compiles one statement.
func (d *DB) Prepare(query string) (*Stmt, error) {
	q, err := libc.CString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(d.tls, q)
	if err := d.check(sqlite3.Xsqlite3_prepare_v2(d.tls, d.db, q, -1, d.out, 0)); err != nil {
		return nil, err
	}
	return &Stmt{db: d, stmt: *(*uintptr)(pointer(d.out))}, nil
}

// Stmt is a prepared statement. Parameters count from 1, columns from 0.
//
// A failed bind, or a column of another type than was asked for, is remembered and
// returned by the next Step, Run or Err.
type Stmt struct {
	db   *DB
	stmt uintptr
	err  error
}

// Close frees the statement.
func (s *Stmt) Close() { sqlite3.Xsqlite3_finalize(s.db.tls, s.stmt) }

// Err is what has gone wrong with the binds and columns since the last Reset.
func (s *Stmt) Err() error { return s.err }

func (s *Stmt) keep(rc int32) {
	if rc != sqlite3.SQLITE_OK && s.err == nil {
		s.err = s.db.check(rc)
	}
}

// BindInt gives a parameter a whole number.
func (s *Stmt) BindInt(i int, v int64) {
	s.keep(sqlite3.Xsqlite3_bind_int64(s.db.tls, s.stmt, int32(i), v))
}

// BindFloat gives a parameter a number.
func (s *Stmt) BindFloat(i int, v float64) {
	s.keep(sqlite3.Xsqlite3_bind_double(s.db.tls, s.stmt, int32(i), v))
}

// BindNull gives a parameter no value.
func (s *Stmt) BindNull(i int) { s.keep(sqlite3.Xsqlite3_bind_null(s.db.tls, s.stmt, int32(i))) }

// What is bound often is copied into the database's memory once: words of some
// length, and so many that the rest is text that hardly repeats.
const (
	wordBytes = 256
	mostWords = 4096
)

// BindText gives a parameter text.
func (s *Stmt) BindText(i int, v string) {
	d := s.db
	p, known := d.text[v]
	if !known {
		var err error
		if p, err = libc.CString(v); err != nil {
			s.err = err
			return
		}
		if len(v) > wordBytes || len(d.text) >= mostWords {
			const transient = ^uintptr(0) // the database makes its own copy
			s.keep(sqlite3.Xsqlite3_bind_text(d.tls, s.stmt, int32(i), p, int32(len(v)), transient))
			libc.Xfree(d.tls, p)
			return
		}
		d.text[v] = p
	}
	s.keep(sqlite3.Xsqlite3_bind_text(d.tls, s.stmt, int32(i), p, int32(len(v)), 0))
}

// Bind gives the parameters values of the types int, int64, float64, string, bool
// and nil, in order.
func (s *Stmt) Bind(values ...any) {
	for i, v := range values {
		switch v := v.(type) {
		case nil:
			s.BindNull(i + 1)
		case int:
			s.BindInt(i+1, int64(v))
		case int64:
			s.BindInt(i+1, v)
		case float64:
			s.BindFloat(i+1, v)
		case string:
			s.BindText(i+1, v)
		case bool:
			s.BindInt(i+1, map[bool]int64{true: 1}[v])
		default:
			s.err = fmt.Errorf("parameter %d is a %T, which can't be stored", i+1, v)
		}
	}
}

// Step goes to the next row; false after the last one.
func (s *Stmt) Step() (bool, error) {
	if s.err != nil {
		return false, s.err
	}
	rc := sqlite3.Xsqlite3_step(s.db.tls, s.stmt)
	return rc == sqlite3.SQLITE_ROW, s.db.check(rc)
}

// Reset makes the statement ready to be run again. Parameters keep their values.
func (s *Stmt) Reset() {
	sqlite3.Xsqlite3_reset(s.db.tls, s.stmt)
	s.err = nil
}

// Run executes a statement that returns no rows and resets it.
func (s *Stmt) Run() error {
	_, err := s.Step()
	s.Reset()
	return err
}

// value is a column, which must be of a type; 0 when it isn't, which is remembered.
// The value is asked for once: each call for a column costs as much as what it yields.
func (s *Stmt) value(i int, want int32, name string) uintptr {
	v := sqlite3.Xsqlite3_column_value(s.db.tls, s.stmt, int32(i))
	got := sqlite3.Xsqlite3_value_type(s.db.tls, v)
	if got == want {
		return v
	}
	if s.err == nil {
		column := libc.GoString(sqlite3.Xsqlite3_column_name(s.db.tls, s.stmt, int32(i)))
		s.err = fmt.Errorf("column %s holds %s, expected %s", column, typeNames[got], name)
	}
	return 0
}

var typeNames = map[int32]string{
	sqlite3.SQLITE_INTEGER: "a whole number", sqlite3.SQLITE_FLOAT: "a number",
	sqlite3.SQLITE_TEXT: "text", sqlite3.SQLITE_BLOB: "a blob", sqlite3.SQLITE_NULL: "nothing",
}

// Int is the whole number in a column.
func (s *Stmt) Int(i int) int64 {
	v := s.value(i, sqlite3.SQLITE_INTEGER, "a whole number")
	if v == 0 {
		return 0
	}
	return sqlite3.Xsqlite3_value_int64(s.db.tls, v)
}

// Float is the number in a column.
func (s *Stmt) Float(i int) float64 {
	v := s.value(i, sqlite3.SQLITE_FLOAT, "a number")
	if v == 0 {
		return 0
	}
	return sqlite3.Xsqlite3_value_double(s.db.tls, v)
}

// Null says whether a column holds nothing.
func (s *Stmt) Null(i int) bool {
	return sqlite3.Xsqlite3_column_type(s.db.tls, s.stmt, int32(i)) == sqlite3.SQLITE_NULL
}

// Text is the text in a column, valid until the next Step: it must be copied to
// be kept.
func (s *Stmt) Text(i int) []byte {
	v := s.value(i, sqlite3.SQLITE_TEXT, "text")
	if v == 0 {
		return nil
	}
	n := sqlite3.Xsqlite3_value_bytes(s.db.tls, v)
	if n == 0 {
		return nil
	}
	p := sqlite3.Xsqlite3_value_text(s.db.tls, v)
	if p == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(pointer(p)), int(n))
}
