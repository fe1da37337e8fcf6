"""Asks the CUDA driver which GPUs there are, in a process of its own. Prints JSON. Standard library only.

In the caller's process, initialising the driver would take time and memory on every GPU and make a later fork unsafe.
"""

from __future__ import annotations

import ctypes
import json


def main() -> None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        print(json.dumps({"error": f"no NVIDIA driver: {error}"}))
        return
    result = cuda.cuInit(0)
    if result:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(result, ctypes.byref(name))
        print(json.dumps({"error": f"cuInit: {(name.value or b'?').decode()} ({result})"}))
        return
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for number in range(count.value):
        device = ctypes.c_int()
        text = ctypes.create_string_buffer(256)
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetName(text, 256, device)
        names.append(text.value.decode("utf-8", "replace"))
    print(json.dumps({"driver": f"{version.value // 1000}.{version.value % 1000 // 10}", "gpus": names}))


if __name__ == "__main__":
    main()
