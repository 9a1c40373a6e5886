"""Versions of what was imported, and settings that change times or results."""
import getpass
import os
import platform
import sys
import tempfile

# Packages by the name of their module; the distribution is asked if the module has no version.
PACKAGES = {
    "torch": "torch", "triton": "triton", "numpy": "numpy", "scipy": "scipy", "cupy": "cupy", "jax": "jax", "jaxlib": "jaxlib",
    "cutlass": "nvidia-cutlass-dsl", "flashinfer": "flashinfer-python", "deep_gemm": "deep_gemm", "flash_attn": "flash-attn",
    "tilelang": "tilelang", "transformer_engine": "transformer-engine", "xformers": "xformers", "quack": "quack-kernels",
    "vllm": "vllm", "sgl_kernel": "sgl-kernel", "mlx": "mlx", "numba": "numba", "cuda": "cuda-python", "tensorflow": "tensorflow",
    "helion": "helion", "thunderkittens": "thunderkittens", "bitsandbytes": "bitsandbytes", "torchao": "torchao",
}
PREFIXES = ("CUBLAS_", "CUBLASLT_", "CUDNN_", "TRITON_", "TORCHINDUCTOR_", "TORCH_", "PYTORCH_", "OMP_", "GOMP_", "KMP_", "OPENBLAS_",
            "MKL_", "BLIS_", "CUTE_DSL_", "FLASHINFER_", "NVIDIA_TF32_OVERRIDE", "CUDA_MODULE_LOADING")
FLAGS = {
    "torch.backends.cuda.matmul": ("allow_tf32", "allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction",
                                   "allow_bf16_reduced_precision_reduction_split_k", "allow_fp16_reduced_precision_reduction_split_k",
                                   "allow_fp16_accumulation"),
    "torch.backends.cudnn": ("enabled", "benchmark", "deterministic", "allow_tf32"),
    "torch.backends.mkldnn": ("enabled",),
}


def versions_and_settings():
    """The versions and settings of this process, as texts by name."""
    return versions(), {**flags(), **environment(), **caches()}


def versions():
    found = {"python": platform.python_version()}
    for module, distribution in PACKAGES.items():
        if module in sys.modules:
            version = version_of(sys.modules[module], distribution)
            if version:
                found[module] = version
    torch = sys.modules.get("torch")
    cuda = getattr(getattr(torch, "version", None), "cuda", None)
    if cuda:
        found["cuda-toolkit"] = str(cuda)
    return found


def version_of(module, distribution):
    version = getattr(module, "__version__", None)
    if version is not None:
        return str(version)
    from importlib import metadata
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def flags():
    """Flags of PyTorch's backends."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    found = {}
    for at, names in FLAGS.items():
        owner = torch
        for part in at.split(".")[1:]:
            owner = getattr(owner, part, None)
        for name in names:
            value = read(owner, name)
            if value is not None:
                found[at + "." + name] = str(value).lower()
    for name, get in (("float32_matmul_precision", "get_float32_matmul_precision"), ("num_threads", "get_num_threads")):
        value = called(getattr(torch, get, None))
        if value is not None:
            found["torch." + name] = str(value)
    return found


def read(owner, name):
    """An attribute, or None. PyTorch refuses to read flags that were set through another interface."""
    try:
        return getattr(owner, name, None)
    except RuntimeError:
        return None


def called(get):
    try:
        return get() if get is not None else None
    except RuntimeError:
        return None


def environment():
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}


def caches():
    """The folders where compilers keep what they compiled and tuned."""
    found = {}
    if "triton" in sys.modules:
        found["cache.triton"] = os.environ.get("TRITON_CACHE_DIR") or os.path.join(os.path.expanduser("~"), ".triton", "cache")
    if "torch" in sys.modules:
        folder = os.path.join(tempfile.gettempdir(), "torchinductor_" + user())
        found["cache.inductor"] = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or folder
    return found


def user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
