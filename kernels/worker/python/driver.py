"""The functions of libcuda that a worker calls by itself, through ctypes."""
import ctypes

MAPPED = 2               # CU_MEMHOSTALLOC_DEVICEMAP
LAZY_PEERS = 1           # CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
MOST_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
PLAIN_SHARED = 48 << 10  # without that attribute
KERNEL_NODE = 0          # CUgraphNodeType
NODE_KINDS = {1: "memcpy", 2: "memset", 3: "host function", 4: "graph"}

pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
unsigned, long, out = ctypes.c_uint, ctypes.c_uint64, ctypes.POINTER


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = [("reserved", ctypes.c_char * 64)]


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("func", pointer), ("grid", unsigned * 3), ("block", unsigned * 3), ("shared", unsigned), ("params", pointer),
        ("extra", pointer), ("kern", pointer), ("ctx", pointer),
    ]


FUNCTIONS = {
    "cuGetErrorName": (number, out(ctypes.c_char_p)), "cuGetErrorString": (number, out(ctypes.c_char_p)),
    "cuInit": (unsigned,), "cuCtxGetCurrent": (out(pointer),), "cuCtxSetCurrent": (pointer,), "cuCtxSynchronize": (),
    "cuDeviceGet": (out(number), number), "cuDevicePrimaryCtxRetain": (out(pointer), number),
    "cuModuleLoadData": (out(pointer), ctypes.c_char_p), "cuModuleGetFunction": (out(pointer), pointer, ctypes.c_char_p),
    "cuFuncSetAttribute": (pointer, number, number),
    "cuLaunchKernel": (pointer,) + (unsigned,) * 7 + (pointer, out(pointer), out(pointer)),
    "cuMemHostAlloc": (out(pointer), size, unsigned), "cuMemHostGetDevicePointer_v2": (out(long), pointer, unsigned),
    "cuStreamCreate": (out(pointer), unsigned), "cuStreamSynchronize": (pointer,),
    "cuEventCreate": (out(pointer), unsigned), "cuEventRecord": (pointer, pointer), "cuEventSynchronize": (pointer,),
    "cuEventElapsedTime": (out(ctypes.c_float), pointer, pointer),
    "cuGraphInstantiateWithFlags": (out(pointer), pointer, ctypes.c_ulonglong), "cuGraphUpload": (pointer, pointer),
    "cuGraphLaunch": (pointer, pointer), "cuGraphExecDestroy": (pointer,),
    "cuGraphGetNodes": (pointer, out(pointer), out(size)), "cuGraphNodeGetType": (pointer, out(number)),
    "cuGraphKernelNodeGetParams_v2": (pointer, out(KernelNode)),
    "cuFuncGetName": (out(ctypes.c_char_p), pointer), "cuKernelGetName": (out(ctypes.c_char_p), pointer),
    "cuIpcOpenMemHandle_v2": (out(long), IpcHandle, unsigned), "cuIpcCloseMemHandle": (long,),
}


class DriverError(Exception):
    """A function of the driver that failed."""

    def __init__(self, function, code, name, text):
        super().__init__("%s: %s" % (function, text))
        self.code, self.name = code, name


class Driver:
    """The driver, in the primary context of a device."""

    def __init__(self, library="libcuda.so.1"):
        self.library = ctypes.CDLL(library)
        self.functions = {}

    def function(self, name):
        if name not in self.functions:
            try:
                f = getattr(self.library, name)
            except AttributeError:
                raise DriverError(name, -1, "", "this driver does not have it")
            f.argtypes, f.restype = FUNCTIONS[name], number
            self.functions[name] = f
        return self.functions[name]

    def call(self, name, *args):
        code = self.function(name)(*args)
        if code:
            raise DriverError(name, code, *self.described(code))

    def described(self, code):
        """A code's name, and name and text."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            self.function(name)(code, ctypes.byref(text))
            texts.append((text.value or b"error %d" % code).decode("utf-8", "replace"))
        return texts[0], "%s: %s" % tuple(texts)

    def made(self, kind, name, *args):
        """Calls a function that writes a value to its first argument, and returns it."""
        value = kind()
        self.call(name, ctypes.byref(value), *args)
        return value.value

    def enter(self, index):
        """Makes the device's primary context current, which PyTorch uses too."""
        self.call("cuInit", 0)
        if not self.made(pointer, "cuCtxGetCurrent"):
            device = self.made(number, "cuDeviceGet", index)
            self.call("cuCtxSetCurrent", self.made(pointer, "cuDevicePrimaryCtxRetain", device))

    def health(self):
        """Why the context is unusable, or ""."""
        code = self.function("cuCtxSynchronize")()
        return self.described(code)[1] if code else ""

    def stream(self):
        """A stream that waits for work on the legacy default stream, and that such work waits for: none escapes a gate."""
        return self.made(pointer, "cuStreamCreate", 0)

    def drain(self, stream):
        self.call("cuStreamSynchronize", stream)

    def module(self, image):
        return self.made(pointer, "cuModuleLoadData", image)

    def kernel(self, module, name, shared):
        f = self.made(pointer, "cuModuleGetFunction", module, name.encode())
        if shared > PLAIN_SHARED:
            self.call("cuFuncSetAttribute", f, MOST_DYNAMIC_SHARED, shared)
        return f

    def launch(self, function, grid, block, shared, stream, params):
        """params is the address of the kernel's only parameter, a struct."""
        arguments = (pointer * 1)(params)
        self.call("cuLaunchKernel", function, *grid, *block, shared, stream, arguments, None)

    def host_memory(self, length):
        """Pinned memory: its address for the host and for the device."""
        host = self.made(pointer, "cuMemHostAlloc", length, MAPPED)
        ctypes.memset(host, 0, length)
        return host, self.made(long, "cuMemHostGetDevicePointer_v2", host, 0)

    def event(self):
        return self.made(pointer, "cuEventCreate", 0)

    def record(self, event, stream):
        self.call("cuEventRecord", event, stream)

    def wait(self, event):
        self.call("cuEventSynchronize", event)

    def elapsed(self, begin, end):
        return 1e-3 * self.made(ctypes.c_float, "cuEventElapsedTime", begin, end)

    def instantiate(self, graph, stream):
        executable = self.made(pointer, "cuGraphInstantiateWithFlags", graph, 0)
        self.call("cuGraphUpload", executable, stream)
        self.drain(stream)
        return executable

    def launch_graph(self, executable, stream):
        self.call("cuGraphLaunch", executable, stream)

    def destroy(self, executable):
        self.call("cuGraphExecDestroy", executable)

    def count_nodes(self, graph):
        count = size()
        self.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        return count.value

    def nodes(self, graph, most):
        """The first nodes of a graph that do something, as the protocol has them."""
        count = size(self.count_nodes(graph))
        handles = (pointer * max(1, count.value))()
        self.call("cuGraphGetNodes", graph, handles, ctypes.byref(count))
        found = []
        for handle in handles[:count.value]:
            if len(found) == most:
                break
            kind = number()
            self.call("cuGraphNodeGetType", handle, ctypes.byref(kind))
            if kind.value == KERNEL_NODE:
                node = KernelNode()
                self.call("cuGraphKernelNodeGetParams_v2", handle, ctypes.byref(node))
                found.append({"kernel": self.name(node), "grid": list(node.grid), "block": list(node.block)})
            elif kind.value in NODE_KINDS:
                found.append({"kernel": NODE_KINDS[kind.value], "grid": [0, 0, 0], "block": [0, 0, 0]})
        return found

    def name(self, node):
        """The symbol of a node's kernel."""
        try:
            name = self.made(ctypes.c_char_p, "cuKernelGetName", node.kern) if node.kern else self.made(
                ctypes.c_char_p, "cuFuncGetName", node.func)
        except DriverError:  # drivers before 12.3
            return "kernel"
        return (name or b"kernel").decode("utf-8", "replace")

    def open_ipc(self, handle):
        return self.made(long, "cuIpcOpenMemHandle_v2", IpcHandle.from_buffer_copy(handle), LAZY_PEERS)

    def close_ipc(self, address):
        self.call("cuIpcCloseMemHandle", address)
