package architecture

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"go.yaml.in/yaml/v3"
)

const maxValue = 1 << 48

// formula is an expression in integers, booleans, strings and lists: "2 * inner", "layer_types[i] ==
// 'full_attention'". Division must be exact.
type formula struct {
	text string
	node ast.Node
}

type scope func(name string) (any, error)

type missing struct{ name string }

func (e missing) Error() string { return e.name + " is missing" }

// UnmarshalYAML parses a formula.
func (f *formula) UnmarshalYAML(node *yaml.Node) error {
	tree, err := parser.ParseWithConfig(node.Value, conf.CreateNew())
	if err != nil {
		return fmt.Errorf("formula %q: %w", node.Value, err)
	}
	*f = formula{node.Value, tree.Node}
	return nil
}

// field is the formula of a single field.
func field(name string) *formula { return &formula{name, &ast.IdentifierNode{Value: name}} }

func (f formula) names() []string { return names(f.node) }

func names(node ast.Node) []string {
	var c collector
	ast.Walk(&node, &c)
	return c
}

type collector []string

func (c *collector) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.IdentifierNode); ok {
		*c = append(*c, n.Value)
	}
}

// eval returns an int, a bool, a string, a list, an object, or nil.
func (f formula) eval(s scope) (any, error) { return s.eval(f.node) }

// defined returns the value of a let formula: an integer, a boolean or a string. Its errors name a field.
func (f formula) defined(s scope) (any, error) {
	v, err := f.eval(s)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		name := ""
		for _, name = range f.names() {
			if v, err := s(name); err == nil && v == nil {
				break
			}
		}
		return nil, missing{name}
	case int, bool:
		return v, nil
	case string:
		if _, field := f.node.(*ast.IdentifierNode); !field {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s is %s: expected an integer", f.names()[0], brief(v))
}

func (f formula) integer(s scope) (int, error) { return s.integer(f.node) }

func (f formula) truth(s scope) (bool, error) { return s.truth(f.node) }

func (s scope) eval(node ast.Node) (any, error) {
	switch n := node.(type) {
	case *ast.IntegerNode:
		return n.Value, nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.NilNode:
		return nil, nil
	case *ast.IdentifierNode:
		v, err := s(n.Value)
		if err == nil {
			if _, odd := v.(json.Number); odd {
				err = fmt.Errorf("%s is %s: expected an integer", n.Value, brief(v))
			}
		}
		return v, err
	case *ast.UnaryNode:
		if n.Operator == "-" {
			v, err := s.integer(n.Node)
			return -v, err
		}
		v, err := s.truth(n.Node)
		return !v, err
	case *ast.ConditionalNode:
		yes, err := s.truth(n.Cond)
		if err != nil {
			return nil, err
		}
		if yes {
			return s.eval(n.Exp1)
		}
		return s.eval(n.Exp2)
	case *ast.MemberNode:
		return s.member(n)
	case *ast.BuiltinNode:
		return s.call(n.Name, n.Arguments)
	case *ast.CallNode:
		return s.call(n.Callee.String(), n.Arguments)
	case *ast.BinaryNode:
		return s.binary(n)
	case *ast.ChainNode:
		return s.eval(n.Node)
	case *ast.ArrayNode:
		list := make([]any, len(n.Nodes))
		for i, e := range n.Nodes {
			var err error
			if list[i], err = s.eval(e); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("%s: not understood in a formula", node)
}

func (s scope) binary(n *ast.BinaryNode) (any, error) {
	switch n.Operator {
	case "??":
		v, err := s.eval(n.Left)
		if v != nil || err != nil {
			return v, err
		}
		return s.eval(n.Right)
	case "and", "&&", "or", "||":
		left, err := s.truth(n.Left)
		if err != nil || left == (n.Operator == "or" || n.Operator == "||") {
			return left, err
		}
		return s.truth(n.Right)
	case "==", "!=", "in":
		left, err := s.eval(n.Left)
		if err != nil {
			return nil, err
		}
		right, err := s.eval(n.Right)
		if err != nil {
			return nil, err
		}
		if n.Operator == "in" {
			return contains(right, left), nil
		}
		return equal(left, right) == (n.Operator == "=="), nil
	}
	a, err := s.integer(n.Left)
	if err != nil {
		return nil, err
	}
	b, err := s.integer(n.Right)
	if err != nil {
		return nil, err
	}
	return arithmetic(n, a, b)
}

func arithmetic(n *ast.BinaryNode, a, b int) (any, error) {
	r := 0
	switch n.Operator {
	case "<":
		return a < b, nil
	case "<=":
		return a <= b, nil
	case ">":
		return a > b, nil
	case ">=":
		return a >= b, nil
	case "+":
		r = a + b
	case "-":
		r = a - b
	case "*":
		if r = a * b; a != 0 && r/a != b {
			r = maxValue + 1
		}
	case "/", "%":
		switch {
		case b == 0:
			return nil, fmt.Errorf("%s divides by 0", n)
		case n.Operator == "%":
			r = a % b
		case a%b != 0:
			return nil, fmt.Errorf("%s: %d is no multiple of %d", n, a, b)
		default:
			r = a / b
		}
	default:
		return nil, fmt.Errorf("%s: not understood in a formula", n)
	}
	if r > maxValue || r < -maxValue {
		return nil, fmt.Errorf("%s: too large", n)
	}
	return r, nil
}

func (s scope) member(n *ast.MemberNode) (any, error) {
	of, err := s.eval(n.Node)
	if err != nil {
		return nil, err
	}
	at, err := s.eval(n.Property)
	if err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case map[string]any:
		key, _ := at.(string)
		return of[key], nil
	case []any:
		if i, ok := at.(int); ok && i >= 0 && i < len(of) {
			return of[i], nil
		}
		return nil, fmt.Errorf("%s has %d elements, and none at %v", n.Node, len(of), at)
	case string:
		if i, ok := at.(int); ok && i >= 0 && i < len(of) {
			return of[i : i+1], nil
		}
		return nil, fmt.Errorf("%s has %d letters, and none at %v", n.Node, len(of), at)
	case nil:
		if n.Optional {
			return nil, nil
		}
		return nil, missing{n.Node.String()}
	}
	return nil, fmt.Errorf("%s is %v: expected a list", n.Node, of)
}

// call computes len, max, min, div (rounded down), islist and isint.
func (s scope) call(name string, args []ast.Node) (any, error) {
	if len(args) == 1 {
		v, err := s.eval(args[0])
		if err != nil {
			return nil, err
		}
		switch name {
		case "len":
			switch v := v.(type) {
			case []any:
				return len(v), nil
			case string:
				return len(v), nil
			case nil:
				return nil, missing{names(args[0])[0]}
			}
			return nil, fmt.Errorf("%s is %s: expected a list", args[0], brief(v))
		case "islist":
			_, ok := v.([]any)
			return ok, nil
		}
	}
	if len(args) == 2 {
		a, err := s.integer(args[0])
		if err != nil {
			return nil, err
		}
		b, err := s.integer(args[1])
		if err != nil {
			return nil, err
		}
		switch {
		case name == "max":
			return max(a, b), nil
		case name == "min":
			return min(a, b), nil
		case name == "div" && b > 0:
			return a / b, nil
		}
	}
	return nil, fmt.Errorf("%s of %d values: not understood in a formula", name, len(args))
}

func (s scope) integer(node ast.Node) (int, error) {
	v, err := s.eval(node)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case int:
		return v, nil
	case nil:
		return 0, missing{node.String()}
	}
	return 0, fmt.Errorf("%s is %s: expected an integer", node, brief(v))
}

func (s scope) truth(node ast.Node) (bool, error) {
	v, err := s.eval(node)
	if err != nil {
		return false, err
	}
	switch v := v.(type) {
	case bool:
		return v, nil
	case nil:
		return false, nil
	case int:
		return v != 0, nil
	}
	return false, fmt.Errorf("%s is %s: expected true or false", node, brief(v))
}

func equal(a, b any) bool {
	switch a.(type) {
	case []any, map[string]any:
		return false
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

func contains(list, v any) bool {
	elements, _ := list.([]any)
	for _, e := range elements {
		if equal(e, v) {
			return true
		}
	}
	return false
}

func isMissing(err error) bool {
	var m missing
	return errors.As(err, &m)
}
