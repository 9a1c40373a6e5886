package report

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gemmaudit/gemmaudit/results"
)

// Image is a file format of a plot.
type Image string

// The image formats.
const (
	PNG Image = "png" // at twice the resolution of a standard screen
	SVG Image = "svg"
	PDF Image = "pdf"
)

// Images lists the image formats.
func Images() []Image { return []Image{PNG, SVG, PDF} }

// ParseImages reads a comma-separated list of image formats, or "all". The error lists the valid names.
func ParseImages(s string) ([]Image, error) {
	if strings.TrimSpace(s) == "all" {
		return Images(), nil
	}
	var out []Image
	for name := range strings.SplitSeq(s, ",") {
		image := Image(strings.ToLower(strings.TrimSpace(name)))
		switch image {
		case PNG, SVG, PDF:
			out = append(out, image)
		default:
			return nil, fmt.Errorf("unknown image format %q: expected all or some of png,svg,pdf", name)
		}
	}
	return out, nil
}

// Figure is one plot, ready to be written in any [Image] format.
type Figure struct {
	// Name is the file name without its extension.
	Name string
	// Title is in the field's notation; Subtitle names the machine and the peak.
	Title, Subtitle string
	// Alt describes the plot in one sentence, for screen readers.
	Alt string

	// times is the series whose times the plot shows; empty for other plots.
	times  results.SeriesKey
	legend []legendItem
	// draw paints everything below title and legend.
	draw func(c draw.Canvas)
}

// The size of every figure, and the resolution of a PNG: 2 × 96 dots per inch.
const (
	figureWidth  = 9 * vg.Inch
	figureHeight = 4.9 * vg.Inch
	figureDPI    = 192
)

// Write writes the figure. Errors come from w, and from the folder for temporary files, which PDF needs for
// its font.
func (f *Figure) Write(w io.Writer, format Image) (err error) {
	// The PDF canvas panics when it cannot write its font.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("draw plot %q as %s: %v", f.Name, format, r)
		}
	}()
	var canvas vg.CanvasWriterTo
	switch format {
	case PNG:
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseDPI(figureDPI), vgimg.UseWH(figureWidth, figureHeight))}
	case SVG:
		canvas = vgsvg.New(figureWidth, figureHeight)
	case PDF:
		canvas = pdfCanvas{vgpdf.New(figureWidth, figureHeight)}
	default:
		_, err := ParseImages(string(format))
		return err
	}
	f.paint(draw.NewCanvas(canvas, figureWidth, figureHeight))
	if format != SVG {
		if _, err := canvas.WriteTo(w); err != nil {
			return fmt.Errorf("write plot %q as %s: %w", f.Name, format, err)
		}
		return nil
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("write plot %q as svg: %w", f.Name, err)
	}
	if _, err := w.Write(f.polishSVG(b.Bytes())); err != nil {
		return fmt.Errorf("write plot %q as svg: %w", f.Name, err)
	}
	return nil
}

// polishSVG adds what the SVG canvas omits: fallback fonts with the same widths, and a title and description
// for screen readers.
func (f *Figure) polishSVG(svg []byte) []byte {
	svg = bytes.ReplaceAll(svg, []byte("font-family:Liberation Sans;font-variant:normal;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	svg = svgText.ReplaceAllFunc(svg, fixWidth)
	head := bytes.Index(svg, []byte("<svg"))
	if head < 0 {
		return svg
	}
	end := bytes.IndexByte(svg[head:], '>')
	if end < 0 {
		return svg
	}
	at := head + end + 1
	var b bytes.Buffer
	b.Write(svg[:at-1])
	fmt.Fprintf(&b, " role=\"img\">\n<title>%s</title>\n<desc>%s</desc>", forHTML(f.Title), forHTML(f.Alt))
	b.Write(svg[at:])
	return b.Bytes()
}

// svgText matches a text element of the SVG canvas: its attributes before the style, the style, and the text.
var svgText = regexp.MustCompile(`(?s)<text ([^>]*?)style="([^"]*)">([^<]*)</text>`)

var svgFontSize = regexp.MustCompile(`font-size:([0-9.]+)px`)

// fixWidth sets a text element to its laid-out width, so viewers without the typeface fit their own font into
// the same space.
func fixWidth(element []byte) []byte {
	parts := svgText.FindSubmatch(element)
	size := svgFontSize.FindSubmatch(parts[2])
	if size == nil {
		return element
	}
	points, err := strconv.ParseFloat(string(size[1]), 64)
	content := html.UnescapeString(string(parts[3]))
	if err != nil || utf8.RuneCountInString(content) < 2 {
		return element
	}
	style := lettering(vg.Length(points), ink, bytes.Contains(parts[2], []byte("font-weight:bold")))
	return fmt.Appendf(nil, `<text %stextLength="%.5g" lengthAdjust="spacingAndGlyphs" style="%s">%s</text>`,
		parts[1], float64(style.Width(content)), parts[2], parts[3])
}

// Okabe and Ito's palette, distinguishable with any color vision, and grays for everything but data.
var (
	blue       = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	vermillion = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	green      = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	orange     = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	sky        = color.NRGBA{0x56, 0xb4, 0xe9, 0xff}
	purple     = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	ink        = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	muted      = color.NRGBA{0x66, 0x66, 0x66, 0xff}
	gridGrey   = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	paper      = color.NRGBA{0xff, 0xff, 0xff, 0xff}
)

var curveColours = []color.NRGBA{blue, vermillion, green, purple, orange, sky, ink}

func alpha(c color.NRGBA, opacity float64) color.NRGBA {
	c.A = uint8(opacity * 255)
	return c
}

func lettering(size vg.Length, c color.Color, bold bool) text.Style {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = stdfont.WeightBold
	}
	return text.Style{Color: c, Font: f, Handler: plot.DefaultTextHandler, XAlign: text.XLeft, YAlign: text.YBottom}
}

type mark int

const (
	lineMark mark = iota
	dashMark
	areaMark
	dotMark
	ringMark
	tickMark
	barMark
)

// key adds an item to the legend if the figure shows it.
func (f *Figure) key(shown bool, text string, c color.NRGBA, m mark) {
	if shown {
		f.legend = append(f.legend, legendItem{text, c, m})
	}
}

type legendItem struct {
	text   string
	colour color.NRGBA
	mark   mark
}

const (
	margin    = 12
	titleSize = 12
	textSize  = 9
)

func (f *Figure) paint(c draw.Canvas) {
	c.SetColor(paper)
	c.Fill(c.Rectangle.Path())
	c = draw.Crop(c, margin, -margin, margin, -margin)
	y := c.Max.Y
	line := func(style text.Style, s string) {
		if s == "" {
			return
		}
		style.YAlign = text.YTop
		c.FillText(style, vg.Point{X: c.Min.X, Y: y}, fitText(style, Clean(s), c.Max.X-c.Min.X))
		y -= style.Font.Size * 1.4
	}
	line(lettering(titleSize, ink, true), f.Title)
	line(lettering(textSize, muted, false), f.Subtitle)
	y -= 2
	y = drawLegend(c, y, f.legend)
	f.draw(draw.Crop(c, 0, 0, 0, y-c.Max.Y))
}

func fitText(style text.Style, s string, width vg.Length) string {
	if style.Width(s) <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 0 && style.Width(string(r)+"…") > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

func drawLegend(c draw.Canvas, y vg.Length, items []legendItem) vg.Length {
	const sample, gap, row = 16, 14, 13
	if len(items) == 0 {
		return y
	}
	style := lettering(textSize, ink, false)
	style.YAlign = text.YCenter
	x := c.Min.X
	for _, item := range items {
		label := fitText(style, Clean(item.text), (c.Max.X-c.Min.X)-sample-4)
		w := style.Width(label) + sample + 4
		if x+w > c.Max.X && x > c.Min.X {
			x, y = c.Min.X, y-row
		}
		mid := y - row/2
		switch item.mark {
		case lineMark:
			c.StrokeLine2(draw.LineStyle{Color: item.colour, Width: 1.6}, x, mid, x+sample, mid)
		case dashMark:
			c.StrokeLine2(dashed(item.colour, 1.2), x, mid, x+sample, mid)
		case areaMark:
			c.FillPolygon(item.colour, rectangle(x, mid-4, x+sample, mid+4))
		case dotMark:
			c.DrawGlyph(dot(item.colour, 2.6), vg.Point{X: x + sample/2, Y: mid})
		case ringMark:
			c.DrawGlyph(ring(item.colour, 2.4), vg.Point{X: x + sample/2, Y: mid})
		case barMark:
			c.FillPolygon(item.colour, rectangle(x, mid-1.25, x+sample, mid+1.25))
		case tickMark:
			c.StrokeLine2(draw.LineStyle{Color: item.colour, Width: 1}, x+sample/2, mid-4, x+sample/2, mid+4)
		}
		c.FillText(style, vg.Point{X: x + sample + 4, Y: mid}, label)
		x += w + gap
	}
	return y - row - 3
}

func dot(c color.Color, radius vg.Length) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.CircleGlyph{}}
}

func ring(c color.Color, radius vg.Length) draw.GlyphStyle {
	return draw.GlyphStyle{Color: c, Radius: radius, Shape: draw.RingGlyph{}}
}

func rectangle(left, bottom, right, top vg.Length) []vg.Point {
	return []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}}
}

// dashed is the line style of expectations; measurements are solid.
func dashed(c color.Color, width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: []vg.Length{4, 2.5}}
}
