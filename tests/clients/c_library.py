"""TensorFlow's C library on a SavedModel: python c_library.py FILE.

It calls what a program in C calls, by its names, and no Python of TensorFlow.
"""

import ctypes
import importlib.util
import json
import sys
from importlib import metadata
from pathlib import Path

STRING, STRING_BYTES = 7, 24  # TF_STRING; the size of a TF_TString


class Output(ctypes.Structure):
    """A TF_Output: an operation, and which of its outputs."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def folder_of(package):
    """Return the folder of a package, which is not imported."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0])


def load_library():
    """Return the C library, which finds the other one in the process."""
    for name in ("framework", "cc"):
        path = folder_of("tensorflow") / f"libtensorflow_{name}.so.2"
        found = ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    return found


tf = load_library()
pointer = ctypes.c_void_p


def call(name, result, *arguments):
    """Call a function of the library; numbers that are no int are pointers."""
    function = getattr(tf, name)
    function.restype = result
    return function(*arguments)


status = pointer(call("TF_NewStatus", pointer))


def check():
    """Raise an error if the last call failed."""
    if call("TF_GetCode", ctypes.c_int, status):
        raise RuntimeError(call("TF_Message", ctypes.c_char_p, status))


def output(graph, name):
    """Return the output "operation:index" of a graph."""
    operation, index = name.split(":")
    found = call("TF_GraphOperationByName", pointer, graph, operation.encode())
    assert found, name
    return Output(found, int(index))


request = json.loads(Path(sys.argv[1]).read_text())
texts = [text.encode() for text in request["texts"]]
for library in ("_fast_bert_normalizer", "_fast_wordpiece_tokenizer"):
    found = folder_of("tensorflow_text") / "python" / "ops" / f"{library}.so"
    call("TF_LoadLibrary", pointer, str(found).encode(), status)
    check()

graph = pointer(call("TF_NewGraph", pointer))
session = pointer(
    call(
        "TF_LoadSessionFromSavedModel",
        pointer,
        pointer(call("TF_NewSessionOptions", pointer)),
        None,
        request["saved_model"].encode(),
        (ctypes.c_char_p * 1)(b"serve"),
        1,
        graph,
        None,
        status,
    )
)
check()
shape = (ctypes.c_int64 * 1)(len(texts))
size = ctypes.c_size_t(STRING_BYTES * len(texts))
tensor = pointer(call("TF_AllocateTensor", pointer, STRING, shape, 1, size))
start = call("TF_TensorData", pointer, tensor)
for number, text in enumerate(texts):
    place = pointer(start + STRING_BYTES * number)
    call("TF_StringInit", None, place)
    call("TF_StringCopy", None, place, text, ctypes.c_size_t(len(text)))
given = (pointer * 1)()
call(
    "TF_SessionRun",
    None,
    session,
    None,
    (Output * 1)(output(graph, request["input"])),
    (pointer * 1)(tensor),
    1,
    (Output * 1)(output(graph, request["output"])),
    given,
    1,
    None,
    0,
    None,
    status,
)
check()
width = request["width"]
data = ctypes.cast(
    call("TF_TensorData", pointer, pointer(given[0])),
    ctypes.POINTER(ctypes.c_float),
)
vectors = [data[row * width : (row + 1) * width] for row in range(len(texts))]
version = metadata.version("tensorflow")
print(json.dumps({"version": version, "vectors": vectors}))
