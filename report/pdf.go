package report

import (
	"image/color"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgpdf"
)

// pdfCanvas works around three limits of vgpdf's canvas. It embeds one font only, so bold text uses the
// regular one. It passes UTF-8 to a document with Windows-1252 fonts. It ignores that Go premultiplies the
// channels of translucent colors.
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

// SetColor sets the color of lines and areas, see [vg.Canvas].
func (c pdfCanvas) SetColor(clr color.Color) {
	if clr == nil {
		clr = color.Black
	}
	c.Canvas.SetColor(straight(color.NRGBAModel.Convert(clr).(color.NRGBA)))
}

type straight color.NRGBA

// RGBA implements [color.Color] without premultiplied alpha.
func (s straight) RGBA() (r, g, b, a uint32) {
	return uint32(s.R) * 0x101, uint32(s.G) * 0x101, uint32(s.B) * 0x101, uint32(s.A) * 0x101
}

// windows1252 encodes the characters in figures; others become "?".
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
