package query

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/gemmaudit/gemmaudit/results/field"
)

// Limits of an expression: bytes of text, nodes of its tree, and elements that evaluation may allocate.
const (
	maxBytes  = 1000
	maxNodes  = 500
	maxMemory = 1000
)

// Query selects and orders records of a set. The zero value selects all.
type Query struct {
	of      Set
	where   string
	program *vm.Program
	used    []Name // in where
	order   []key
	sort    string
	top     int
}

type key struct {
	name    Name
	falling bool
}

// Record returns a record's value of a name: a string, int, float64 or bool, or nil if it has none.
type Record func(name string) any

// ErrorOf is an error in one part of a query, so that callers can name the flag.
type ErrorOf struct {
	Part string // "where", "sort" or "top"
	Err  error
}

func (e *ErrorOf) Error() string { return e.Part + ": " + e.Err.Error() }
func (e *ErrorOf) Unwrap() error { return e.Err }

// Parse reads a query of a set's records: an expression, names to sort by (prefix - for descending), and the
// number of records to list, 0 for all. An empty expression selects all; an empty order keeps the records'
// order. Errors are of type [*ErrorOf].
func Parse(where, sort string, top int, of Set) (*Query, error) {
	q := &Query{of: of, where: where, sort: sort, top: top}
	if top < 0 {
		return nil, &ErrorOf{"top", fmt.Errorf("%d, expected 1 or more", top)}
	}
	if where != "" {
		if err := q.compile(); err != nil {
			return nil, &ErrorOf{"where", err}
		}
	}
	if sort == "" {
		return q, nil
	}
	for word := range strings.SplitSeq(sort, ",") {
		word = strings.TrimSpace(word)
		name, falling := strings.CutPrefix(word, "-")
		n, err := lookup(name, of)
		if err != nil {
			return nil, &ErrorOf{"sort", err}
		}
		q.order = append(q.order, key{n, falling})
	}
	return q, nil
}

func (q *Query) compile() error {
	if len(q.where) > maxBytes {
		return fmt.Errorf("the expression has %d bytes, expected %d at most", len(q.where), maxBytes)
	}
	env := map[string]any{}
	for _, n := range Names(q.of) {
		env[n.Name] = n.absent()
	}
	v := &checker{of: q.of}
	text := normalise(q.where, func(name string) bool {
		n, err := lookup(name, q.of)
		return err == nil && n.Type == field.Text
	})
	if err := v.check(text); err != nil {
		return err
	}
	program, err := expr.Compile(text, expr.Env(env), expr.DisableAllBuiltins(), expr.MaxNodes(maxNodes), expr.AsBool())
	if err != nil {
		return plain(err)
	}
	q.program, q.used = program, v.used
	return nil
}

// plain returns the library's error in one line without its drawing.
func plain(err error) error {
	var at *file.Error
	if errors.As(err, &at) && at.Message != "" {
		return errors.New(strings.ReplaceAll(at.Message, "\n", " "))
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(first)
}

func (n Name) absent() any {
	switch n.Type {
	case field.Text:
		return ""
	case field.Count:
		return 0
	case field.Flag:
		return false
	}
	return math.NaN()
}

func (n Name) value(r Record) any {
	v := r(n.Name)
	if v == nil {
		return n.absent()
	}
	return v
}

// All reports whether the query selects every record and keeps their order.
func (q *Query) All() bool {
	return q == nil || q.program == nil && len(q.order) == 0 && q.top == 0
}

// Match reports whether the expression is true for a record. Errors are arithmetic, such as a division by
// zero.
func (q *Query) Match(r Record) (bool, error) {
	if q == nil || q.program == nil {
		return true, nil
	}
	env := make(map[string]any, len(q.used))
	for _, n := range q.used {
		env[n.Name] = n.value(r)
	}
	machine := vm.VM{MemoryBudget: maxMemory}
	out, err := machine.Run(q.program, env)
	if err != nil {
		return false, &ErrorOf{"where", plain(err)}
	}
	yes, _ := out.(bool) // the compiler guarantees a bool
	return yes, nil
}

// Select returns the items that a query lists, in its order; record adapts an item. items is not changed.
// Missing values sort last.
func Select[T any](q *Query, items []T, record func(T) Record) ([]T, error) {
	if q.All() {
		return items, nil
	}
	out := make([]T, 0, len(items))
	for _, item := range items {
		yes, err := q.Match(record(item))
		if err != nil {
			return nil, err
		}
		if yes {
			out = append(out, item)
		}
	}
	if len(q.order) > 0 {
		type sorted struct {
			item   T
			values []any
		}
		rows := make([]sorted, len(out))
		for i, item := range out {
			rows[i].item = item
			r := record(item)
			for _, k := range q.order {
				rows[i].values = append(rows[i].values, r(k.name.Name))
			}
		}
		slices.SortStableFunc(rows, func(a, b sorted) int {
			for i, k := range q.order {
				if c := k.compare(a.values[i], b.values[i]); c != 0 {
					return c
				}
			}
			return 0
		})
		for i, r := range rows {
			out[i] = r.item
		}
	}
	if q.top > 0 && len(out) > q.top {
		out = out[:q.top]
	}
	return out, nil
}

// compare orders two values; absent ones are last in either direction.
func (k key) compare(a, b any) int {
	missing := func(v any) bool {
		f, number := v.(float64)
		return v == nil || v == "" || number && math.IsNaN(f)
	}
	if x, y := missing(a), missing(b); x || y {
		switch {
		case x && y:
			return 0
		case x:
			return 1
		}
		return -1
	}
	c := 0
	switch x := a.(type) {
	case string:
		y, _ := b.(string)
		c = strings.Compare(x, y)
	case int:
		y, _ := b.(int)
		c = cmp.Compare(x, y)
	case float64:
		y, _ := b.(float64)
		c = cmp.Compare(x, y)
	case bool:
		y, _ := b.(bool)
		if x != y {
			c = 1
			if y {
				c = -1
			}
		}
	}
	if k.falling {
		return -c
	}
	return c
}

// checker walks an expression, refuses everything but comparisons, and records the names.
type checker struct {
	of   Set
	used []Name
	err  error
}

var operators = []string{
	"==", "!=", "<", "<=", ">", ">=", "in", "contains", "startsWith", "endsWith", "matches",
	"&&", "||", "!", "and", "or", "not", "+", "-", "*", "/", "%",
}

func (c *checker) Visit(node *ast.Node) {
	if c.err != nil {
		return
	}
	refuse := func(what string) { c.err = fmt.Errorf("%s: expected comparisons of names and values", what) }
	operator := func(o string) {
		if !slices.Contains(operators, o) {
			refuse("operator " + o)
		}
	}
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		name, err := lookup(n.Value, c.of)
		if err != nil {
			c.err = err
			return
		}
		if !slices.ContainsFunc(c.used, func(n Name) bool { return n.Name == name.Name }) {
			c.used = append(c.used, name)
		}
	case *ast.UnaryNode:
		operator(n.Operator)
	case *ast.BinaryNode:
		operator(n.Operator)
	case *ast.BuiltinNode:
		refuse(n.Name + "()")
	case *ast.CallNode:
		refuse("a call")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ArrayNode:
	default:
		refuse(strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast."), "Node"))
	}
}
