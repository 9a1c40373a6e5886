// PyTorch's softmax and log_softmax as a user kernel, on the CPU, or on a GPU with -DUSE_CUDA and a PyTorch
// built with CUDA. PyTorch writes directly into the given operands, without copies. On a GPU it runs on
// gemmaudit's stream.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/version.h>
#if defined(USE_CUDA)
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <cstdio>

#include "gemmaudit_kernel.h"

namespace {

at::ScalarType type_of(int32_t dtype) {
  switch (dtype) {
    case GEMMAUDIT_FP16: return at::kHalf;
    case GEMMAUDIT_BF16: return at::kBFloat16;
    default: return at::kFloat;
  }
}

int supports(const gemmaudit_softmax_problem *p, char *error) {
  const char *why = nullptr;
  if (p->queries != 0) why = "PyTorch's softmax has no mask";
  else if (p->scale != 1) why = "PyTorch's softmax has no scale";
  if (why == nullptr) return 0;
  std::snprintf(error, GEMMAUDIT_ERROR_BYTES, "%s", why);
  return 1;
}

int compute(const gemmaudit_softmax_launch *l, at::Device device, char *error) try {
  const gemmaudit_softmax_problem &p = l->problem;
  c10::InferenceMode inference;
  auto options = at::TensorOptions().dtype(type_of(p.dtype)).device(device);
  at::Tensor in = at::from_blob(const_cast<void *>(l->in), {p.rows, p.columns}, options);
  at::Tensor out = at::from_blob(l->out, {p.rows, p.columns}, options);
  if (p.log) at::_log_softmax_out(out, in, 1, false);
  else at::_softmax_out(out, in, 1, false);
  return 0;
} catch (const std::exception &e) {
  std::snprintf(error, GEMMAUDIT_ERROR_BYTES, "%s", e.what());
  return 1;
}

#if defined(USE_CUDA)
int enqueue(const gemmaudit_softmax_launch *l, void *stream, char *error) {
  auto ordinal = static_cast<c10::DeviceIndex>(l->problem.ordinal);
  c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), ordinal));
  return compute(l, at::Device(at::kCUDA, ordinal), error);
}

const gemmaudit_softmax description = {
    GEMMAUDIT_SOFTMAX_ABI, GEMMAUDIT_CUDA, "torch", "PyTorch " TORCH_VERSION, supports, nullptr, enqueue,
};
#else
int run(const gemmaudit_softmax_launch *l, char *error) {
  if (at::get_num_threads() != l->problem.threads) at::set_num_threads(l->problem.threads);
  return compute(l, at::Device(at::kCPU), error);
}

const gemmaudit_softmax description = {
    GEMMAUDIT_SOFTMAX_ABI, GEMMAUDIT_CPU, "torch", "PyTorch " TORCH_VERSION, supports, run, nullptr,
};
#endif

}  // namespace

extern "C" const gemmaudit_softmax *gemmaudit_softmax_get(void) { return &description; }
