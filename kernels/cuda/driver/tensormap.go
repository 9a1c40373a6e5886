//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// tensorMapTypes: TF32 is fp32 in memory, and bytes are moved unchanged.
var tensorMapTypes = map[kernels.DType]C.CUtensorMapDataType{
	kernels.FP32: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT32, kernels.TF32: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
	kernels.FP16: C.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, kernels.BF16: C.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
	kernels.FP8: C.CU_TENSOR_MAP_DATA_TYPE_UINT8, kernels.INT8: C.CU_TENSOR_MAP_DATA_TYPE_UINT8,
	kernels.INT32: C.CU_TENSOR_MAP_DATA_TYPE_INT32,
}

var tensorMapSwizzles = map[int]C.CUtensorMapSwizzle{
	0: C.CU_TENSOR_MAP_SWIZZLE_NONE, 32: C.CU_TENSOR_MAP_SWIZZLE_32B,
	64: C.CU_TENSOR_MAP_SWIZZLE_64B, 128: C.CU_TENSOR_MAP_SWIZZLE_128B,
}

// encodeTensorMap writes the driver's form of m to a multiple of 64 bytes.
func encodeTensorMap(m planning.TensorMap, to unsafe.Pointer) error {
	dtype, known := tensorMapTypes[m.DType]
	swizzle, ok := tensorMapSwizzles[m.Swizzle]
	if !known || !ok {
		return fmt.Errorf("tensor map of %s with swizzle %d: no such thing", m.DType, m.Swizzle)
	}
	dims := [2]C.uint64_t{C.uint64_t(m.Cols), C.uint64_t(m.Rows)}
	strides := [1]C.uint64_t{C.uint64_t(m.LD) * C.uint64_t(m.DType.Size())}
	box := [2]C.uint32_t{C.uint32_t(m.BoxCols), C.uint32_t(m.BoxRows)}
	steps := [2]C.uint32_t{1, 1}
	// L2 fetches 128 bytes per miss, a row of a box: with 256, memory-bound products take 5 % longer on an
	// H200.
	err := result(C.cuTensorMapEncodeTiled((*C.CUtensorMap)(to), dtype, 2, *(*unsafe.Pointer)(unsafe.Pointer(&m.Address)),
		&dims[0], &strides[0], &box[0], &steps[0], C.CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
		C.CU_TENSOR_MAP_L2_PROMOTION_L2_128B, C.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
	if err != nil {
		return fmt.Errorf("tensor map of %d×%d %s at %#x, leading dimension %d, boxes of %d×%d, swizzle %d: %w",
			m.Rows, m.Cols, m.DType, m.Address, m.LD, m.BoxRows, m.BoxCols, m.Swizzle, err)
	}
	return nil
}
