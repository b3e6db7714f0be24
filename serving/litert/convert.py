"""Convert a model to LiteRT: the only module that needs the converter.

TensorFlow 2.20 and 2.21 have `tf.lite.TFLiteConverter`. Its removal is
announced, and no other package converts TensorFlow models yet, so that newer
versions of TensorFlow may not convert. Running a file needs no TensorFlow.

Three mistakes give a file that is wrong, or none:

1. Variables must be reachable from the saved tf.Module as tf.Variable, as
   `TaskGraph.weights` are. Keras variables alone give a file of 90 KB that
   reads variables which nobody sets, and no error. `convert` checks the size.
2. x[:, None] of an unknown size is an operation that LiteRT lacks (StridedSlice
   with a new_axis mask: "neither a custom op nor a flex op"). tf.expand_dims
   converts. This holds for all code between the inputs and the outputs.
3. A tf.TensorArray converts for one known batch size only. The loop of an LSTM
   therefore has another form here: see ops.recurrence.without_arrays.

The products must also be in float32: those of bfloat16 do not convert.
"""

import tempfile
from collections.abc import Callable, Sequence

from base import progress
from base.errors import UserError

import numpy as np
import tensorflow as tf

from serving.litert import metadata
from serving.litert.metadata import BYTES_PER_WEIGHT


def check_converter() -> None:
    """Raise a UserError if this TensorFlow has no converter."""
    if not hasattr(getattr(tf, "lite", None), "TFLiteConverter"):
        raise UserError(
            f"TensorFlow {tf.__version__} has no converter to LiteRT: pip "
            "install 'tensorflow>=2.20,<2.22'"
        )


def convert(module: tf.Module, function: Callable, quantize: str) -> bytes:
    """Return a LiteRT file with a concrete function as its signature `ids`.

    The function's variables belong to `module`; `quantize` is a key of
    BYTES_PER_WEIGHT.

    Raises:
        UserError: an operation of the model has no counterpart in LiteRT.
    """
    # Its lines would be about the temporary directory.
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        clock = progress.clock("Converting to LiteRT")
        with clock, tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder, {"ids": function})
            # from_concrete_functions would lose the name of the signature.
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=["ids"]
            )
            if quantize != "none":
                # int8 weights, unless the next line names another type.
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if quantize == "float16":
                converter.target_spec.supported_types = [tf.float16]
            data = converter.convert()
    except Exception as error:  # ConverterError is not public
        if type(error).__name__ != "ConverterError":
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        named = [line for line in lines if "ops:" in line or "error:" in line]
        reason = (named or [line for line in lines if line] or [""])[-1][:200]
        raise UserError(
            f"LiteRT lacks an operation of this model: {reason}"
        ) from error
    finally:
        logger.setLevel(level)
    numbers = sum(int(np.prod(v.shape)) for v in module.variables)
    # The pooler and others may be unused; embeddings are always there.
    if len(data) < 0.25 * numbers * BYTES_PER_WEIGHT[quantize]:
        raise RuntimeError(
            f"the converted file has {len(data)} bytes for {numbers} weights: "
            "they are not among its constants"
        )
    return bytes(data)


def with_metadata(
    data: bytes,
    description: str,
    has_labels: bool,
    length: int,
    outputs: Sequence[str],
) -> bytes:
    """Return a LiteRT file with the metadata that MediaPipe reads.

    The outputs get the order of `outputs`, since the converter does not keep
    that of the signature, and programs read the first vector of a text. The
    inputs are named in the order of the graph.

    The inputs, which may have any size, get the shape [1, length], and can be
    resized as before. MediaPipe cuts and pads texts to the length of the
    inputs; where they have none it cuts nothing, and a text that is longer than
    the model's positions makes it fail for all later ones. The outputs get the
    shapes that follow, by which LiteRT in JavaScript makes room for them: of an
    output of unknown size it returns the numbers of the first token alone. How
    many masks a text has stays unknown.
    """
    import flatbuffers
    from tensorflow.lite.python import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    graph, (signature,) = model.subgraphs[0], model.signatureDefs
    names = {x.tensorIndex: x.name.decode() for x in signature.inputs}
    inputs = [names[index] for index in graph.inputs]
    places = {x.name.decode(): x.tensorIndex for x in signature.outputs}
    graph.outputs = [places[name] for name in outputs]
    content = metadata.describe(description, inputs, outputs, has_labels)
    for index in graph.inputs:
        tensor = graph.tensors[index]
        tensor.shape, tensor.shapeSignature = [1, length], None
    for index in graph.outputs if "token_ids" not in outputs else ():
        tensor = graph.tensors[index]
        pairs = zip(tensor.shapeSignature, (1, length, -1), strict=False)
        tensor.shape = [size if known < 0 else known for known, size in pairs]
        tensor.shapeSignature = None
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(content, np.uint8)
    model.buffers.append(buffer)
    entry = schema.MetadataT()
    entry.name = metadata.NAME.encode()
    entry.buffer = len(model.buffers) - 1
    model.metadata = [*(model.metadata or []), entry]
    builder = flatbuffers.Builder(len(data) + len(content) + (1 << 16))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
