package cuda

// families are the kernels of ours for products, the best first.
var families = []gemmFamily{hopper{}, mma{}, gemv{}, wmma{}, tiled{}, naive{}}
