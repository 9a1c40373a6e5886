package gate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/report"
)

const junitSchemaFile = "testdata/schema/junit-10.xsd"

type element struct {
	children []string
	required []string                  // attributes
	values   map[string]*regexp.Regexp // by attribute; nil allows any value
	text     bool
}

// junitSchema reads the allowed children of each element, in any order, and its allowed attributes: the parts
// that a program can break.
func junitSchema(t *testing.T) map[string]element {
	t.Helper()
	type reference struct {
		Ref string `xml:"ref,attr"`
	}
	type group struct {
		Elements []reference `xml:"element"`
		Choices  []struct {
			Elements []reference `xml:"element"`
		} `xml:"choice"`
	}
	var schema struct {
		Types []struct {
			Name    string `xml:"name,attr"`
			Pattern struct {
				Value string `xml:"value,attr"`
			} `xml:"restriction>pattern"`
		} `xml:"simpleType"`
		Elements []struct {
			Name string `xml:"name,attr"`
			Type string `xml:"type,attr"`
			Of   struct {
				Mixed      bool  `xml:"mixed,attr"`
				Sequence   group `xml:"sequence"`
				Choice     group `xml:"choice"`
				Attributes []struct {
					Name string `xml:"name,attr"`
					Type string `xml:"type,attr"`
					Use  string `xml:"use,attr"`
				} `xml:"attribute"`
			} `xml:"complexType"`
		} `xml:"element"`
	}
	text, err := os.ReadFile(junitSchemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	patterns := map[string]*regexp.Regexp{}
	for _, x := range schema.Types {
		patterns[x.Name] = regexp.MustCompile("^(?:" + x.Pattern.Value + ")$")
	}
	elements := map[string]element{}
	for _, x := range schema.Elements {
		e := element{text: x.Of.Mixed || x.Type == "xs:string", values: map[string]*regexp.Regexp{}}
		for _, g := range []group{x.Of.Sequence, x.Of.Choice} {
			for _, c := range append(g.Choices, struct {
				Elements []reference `xml:"element"`
			}{g.Elements}) {
				for _, r := range c.Elements {
					e.children = append(e.children, r.Ref)
				}
			}
		}
		for _, a := range x.Of.Attributes {
			e.values[a.Name] = patterns[a.Type]
			if a.Use == "required" {
				e.required = append(e.required, a.Name)
			}
		}
		elements[x.Name] = e
	}
	return elements
}

func junitErrors(schema map[string]element, text []byte) []string {
	var wrong, path []string
	add := func(format string, args ...any) {
		wrong = append(wrong, strings.Join(path, "/")+": "+fmt.Sprintf(format, args...))
	}
	in := xml.NewDecoder(bytes.NewReader(text))
	for {
		token, err := in.Token()
		if err == io.EOF {
			if len(path) > 0 {
				add("does not end")
			}
			return wrong
		}
		if err != nil {
			add("%v", err)
			return wrong
		}
		switch x := token.(type) {
		case xml.StartElement:
			name := x.Name.Local
			switch parent := schema[strings.Join(path[max(0, len(path)-1):], "")]; {
			case len(path) == 0 && name != "testsuites":
				add("begins with %s", name)
			case len(path) > 0 && !slices.Contains(parent.children, name):
				add("has a %s", name)
			}
			path = append(path, name)
			var have []string
			for _, a := range x.Attr {
				have = append(have, a.Name.Local)
				switch pattern, ok := schema[name].values[a.Name.Local]; {
				case !ok:
					add("has the attribute %s", a.Name.Local)
				case pattern != nil && !pattern.MatchString(a.Value):
					add("%s is %q", a.Name.Local, a.Value)
				}
			}
			for _, r := range schema[name].required {
				if !slices.Contains(have, r) {
					add("lacks %s", r)
				}
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) > 0 && !schema[path[len(path)-1]].text && len(bytes.TrimSpace(x)) > 0 {
				add("has text")
			}
		}
	}
}

var brokenJUnit = []string{
	`<testsuites><testsuite name="a"/></testsuites>`, `<testsuites><testcase/></testsuites>`, `<testsuites skipped="1"></testsuites>`,
	`<testsuites>x</testsuites>`,
	`<testsuites time="soon"></testsuites>`,
	`<testsuites><testsuite name="a" tests="0" failures="0" errors="0"><testcase name="b"><reason/></testcase></testsuite></testsuites>`,
}

func TestJUnitKeepsToTheCommonSchema(t *testing.T) {
	schema := junitSchema(t)
	for _, c := range outcomes() {
		if wrong := junitErrors(schema, written(t, c, report.JUnit)); len(wrong) > 0 {
			t.Errorf("exit code %d: %q", c.Outcome.Code, wrong)
		}
	}
	for _, broken := range brokenJUnit {
		if len(junitErrors(schema, []byte(broken))) == 0 {
			t.Errorf("%s keeps to the schema", broken)
		}
	}
}

// libxml2 checks the complete schema.
func TestJUnitIsValid(t *testing.T) {
	xmllint, err := exec.LookPath("xmllint")
	if err != nil {
		t.Skip("xmllint is not installed (Debian's package libxml2-utils): the schema is read by this test's own reader alone")
	}
	valid := func(text []byte) error {
		path := filepath.Join(t.TempDir(), "junit.xml")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(xmllint, "--nonet", "--noout", "--schema", junitSchemaFile, path).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	for _, c := range outcomes() {
		if err := valid(written(t, c, report.JUnit)); err != nil {
			t.Errorf("exit code %d: %v", c.Outcome.Code, err)
		}
	}
	for _, broken := range brokenJUnit {
		if valid([]byte(broken)) == nil {
			t.Errorf("%s is valid", broken)
		}
	}
}
