package kernels

// Choice is what a kernel would launch for a problem, told without running it. What is not
// known is zero.
type Choice struct {
	// Label names the kernel exactly as [Launch].Label would, once the launch has run.
	Label string `json:"label"`
	// Tiling is what [TilingTeller] would tell of the launch.
	Tiling
	// Stages is how many steps along K are in flight at the same time.
	Stages int `json:"stages,omitempty"`
	// Cluster is the shape of a cluster in blocks of the launch's grid: zeros for none.
	Cluster [3]int `json:"cluster,omitzero"`
	// Slots is how many tiles the device computes at the same time.
	Slots float64 `json:"slots,omitempty"`
	// Grid is the shape of the launch in blocks.
	Grid [3]int `json:"grid,omitzero"`
}
