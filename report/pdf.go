package report

import (
	"image/color"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdfCanvas is vgpdf's canvas with three gaps closed: it can embed one font
// only, so bold text is set in the plain one; it hands text over as UTF-8 to a
// document whose fonts are encoded as Windows-1252; and it takes the channels of
// translucent colours, which Go multiplies with their opacity, for plain ones.
type pdfCanvas struct{ *vgpdf.Canvas }

// FillString writes text, see [vg.Canvas].
func (c pdfCanvas) FillString(face font.Face, at vg.Point, s string) {
	if face.Font.Weight == stdfont.WeightBold {
		plain := face.Font
		plain.Weight = stdfont.WeightNormal
		face = font.DefaultCache.Lookup(plain, plain.Size)
	}
	c.Canvas.FillString(face, at, windows1252(s))
}

// SetColor sets the colour of lines and areas, see [vg.Canvas].
func (c pdfCanvas) SetColor(clr color.Color) {
	if clr == nil {
		clr = color.Black
	}
	c.Canvas.SetColor(straight(color.NRGBAModel.Convert(clr).(color.NRGBA)))
}

// straight is a colour whose channels are not multiplied with its opacity.
type straight color.NRGBA

// RGBA implements [color.Color], but for the multiplication.
func (s straight) RGBA() (r, g, b, a uint32) {
	return uint32(s.R) * 0x101, uint32(s.G) * 0x101, uint32(s.B) * 0x101, uint32(s.A) * 0x101
}

// windows1252 encodes what figures contain; other characters become "?".
func windows1252(s string) string {
	special := map[rune]byte{'€': 0x80, '…': 0x85, '•': 0x95, '–': 0x96, '—': 0x97, '™': 0x99, '‘': 0x91, '’': 0x92, '“': 0x93, '”': 0x94}
	var out []byte
	for _, r := range s {
		b, ok := special[r]
		switch {
		case ok:
			out = append(out, b)
		case r < 0x80, r >= 0xa0 && r <= 0xff:
			out = append(out, byte(r))
		default:
			out = append(out, '?')
		}
	}
	return string(out)
}
