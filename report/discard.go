package report

import (
	"image"
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

type discard struct{}

func (discard) SetLineWidth(vg.Length)                 {}
func (discard) SetLineDash([]vg.Length, vg.Length)     {}
func (discard) SetColor(color.Color)                   {}
func (discard) Rotate(float64)                         {}
func (discard) Translate(vg.Point)                     {}
func (discard) Scale(x, y float64)                     {}
func (discard) Push()                                  {}
func (discard) Pop()                                   {}
func (discard) Stroke(vg.Path)                         {}
func (discard) Fill(vg.Path)                           {}
func (discard) FillString(font.Face, vg.Point, string) {}
func (discard) DrawImage(vg.Rectangle, image.Image)    {}
