"""A task's model as a graph: strings in, answers out.

Every graph has two signatures. `serving_default` takes strings, which
graph_tokenizer.py turns into ids inside the graph. `ids` takes the inputs of
the model and has no text operation, for servers without TensorFlow Text. Batch
size and length are free. A batch of strings is padded to its longest text, and
the padding is skipped (ops/unpadding.py): an encoder's output at padding is 0.
"""

import functools
from collections.abc import Callable, Collection, Mapping

import tensorflow as tf

import modeling
from tasks.rows import INPUT_NAMES
from tasks.task import Task
from training.task_model import TaskModel

IDS = tf.TensorSpec([None, None], tf.int32)

TEXTS = tf.TensorSpec([None], tf.string)

Outputs = dict[str, tf.Tensor]


class TaskGraph(tf.Module):
    """The model, tokenizer and signatures of a SavedModel.

    The model says numbers (`TaskModel.outputs`). Subclasses define outputs that
    are strings with `outputs_of`, and inputs of other shapes with `text_specs`.

    Attributes:
        ids: shape and dtype of the inputs of `ids`; None: the model reads no
            rows of ids.
    """

    ids: tf.TensorSpec | None = IDS

    def __init__(self, task: Task, model: TaskModel):
        super().__init__()
        # A SavedModel stores what the attributes of this module lead to.
        # Through a Keras model it would store each weight twice, as the Keras
        # variable and as the TensorFlow variable inside. An attribute that is
        # set by `object` is not followed.
        object.__setattr__(self, "model", model)
        object.__setattr__(self, "task", task)
        self.weights = [variable.value for variable in model.variables]
        self.max_seq_length = task.checkpoint.max_seq_length

    @functools.cached_property
    def tokenizer(self) -> tf.Module:
        """The tokenizer; its tables are made when texts are first read."""
        from tasks import graph_tokenizer

        checkpoint = self.task.checkpoint
        # Outside of the graph that asks for them, since others share them.
        with tf.init_scope():
            return graph_tokenizer.Tokenizer(
                checkpoint.files.vocabulary,
                settings=checkpoint.tokenizer_settings,
            )

    def skip_padding(self) -> None:
        """Leave padding out of all but attention in signatures made later."""
        model = self.model.computing(modeling.Compute(skip_padding=True))
        object.__setattr__(self, "model", model)

    def numbers(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return the outputs that are numbers, of features [n, S].

        A LiteRT file and an ONNX file, which have no strings, compute these
        numbers alone (`rows_function`).
        """
        outputs = self.model.outputs(features)
        if len(outputs) > 1:
            outputs.pop("logits", None)  # probabilities are made of them
        return outputs

    def rows_function(
        self, left_out: Collection[str] = ()
    ) -> tf.types.experimental.PolymorphicFunction:
        """Return the function of a file without strings.

        It takes input_ids, input_mask and segment_ids, int32 [n, S], and gives
        `numbers`, but those that are left out.
        """

        from ops import recurrence

        def numbers(
            input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
        ) -> Outputs:
            rows = dict(
                input_ids=input_ids,
                input_mask=input_mask,
                segment_ids=segment_ids,
            )
            with recurrence.without_arrays():
                outputs = self.numbers(rows)
            return {n: x for n, x in outputs.items() if n not in left_out}

        specs = [
            tf.TensorSpec(IDS.shape, IDS.dtype, name) for name in INPUT_NAMES
        ]
        return tf.function(numbers, specs, autograph=False)

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the outputs, names of labels and tokens among them."""
        return numbers

    def features(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the features of strings [n]."""
        if self.task.prompt:
            texts = tuple(self.task.prompt + text for text in texts)
        checkpoint = self.task.checkpoint
        return self.tokenizer.features(
            *map(self.tokenizer, texts),
            max_seq_length=checkpoint.row_length,
            how=checkpoint.long_texts.how,
        )

    def from_texts(self, *texts: tf.Tensor) -> Outputs:
        """Return the outputs for strings [n]."""
        return self.outputs_of(self.numbers(self.features(*texts)))

    def text_specs(self) -> list[tf.TensorSpec]:
        """Return shape and dtype of the inputs of `serving_default`."""
        return [TEXTS for _ in self.task.text_names]

    def signatures(self) -> dict[str, Callable]:
        """Return the two signatures, name -> concrete function."""
        names = self.task.text_names

        def from_texts(**texts):
            first, *others = names
            for name in others:
                # Ragged operations would repeat a single text, or none.
                tf.debugging.assert_equal(
                    tf.shape(texts[name])[0],
                    tf.shape(texts[first])[0],
                    f"{first} and {name} must have the same length",
                )
            return self.from_texts(*(texts[name] for name in names))

        def of_rows(**rows):
            return type(self).numbers(self, rows)

        if self.ids:
            # Both call the model as one function, so that it is traced once.
            model = concrete(of_rows, dict.fromkeys(INPUT_NAMES, self.ids))
            object.__setattr__(self, "numbers", lambda rows: model(**rows))
        inputs = dict(zip(names, self.text_specs(), strict=True))
        made = {"serving_default": concrete(from_texts, inputs)}
        if self.ids:
            made["ids"] = self.ids_signature()
        return made

    def ids_signature(self) -> Callable:
        """Return the signature whose inputs are those of the model."""

        def from_ids(**features):
            # A stack wants one shape, also in XLA, which drops assertions.
            rows = [features[name] for name in INPUT_NAMES]
            rows = tf.unstack(tf.stack(rows, name="_".join(INPUT_NAMES)))
            features = dict(zip(INPUT_NAMES, rows, strict=True))
            return self.outputs_of(self.numbers(features))

        return concrete(from_ids, dict.fromkeys(INPUT_NAMES, self.ids))


def concrete(
    function: Callable[..., Outputs], inputs: Mapping[str, tf.TensorSpec]
) -> Callable:
    """Return a concrete function of inputs by name."""
    specs = {
        name: tf.TensorSpec(spec.shape, spec.dtype, name)
        for name, spec in inputs.items()
    }
    return tf.function(function, autograph=False).get_concrete_function(**specs)
