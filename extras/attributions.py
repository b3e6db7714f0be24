"""Which words decided: integrated gradients (Sundararajan et al. 2017).

"Axiomatic Attribution for Deep Networks" explains an output F of a model by a
sum over the tokens. Let F(a) be the output where the embedding of each token is

    baseline + a (token - baseline).

The baseline of a word is [PAD], that of [CLS], [SEP] and padding is itself:
F(1) is the output for the text, F(0) that for as many words that say nothing.
Then

    F(1) - F(0) = sum over tokens i of A_i
    A_i = integral from 0 to 1 over a of dF / da_i,

where a_i is the a of token i alone, and the derivative is taken where all of
them are a. Why the baseline is not zeros, as in the paper:
docs/batch_prediction.md#which-words-decided.
"""

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tasks import rows
from tasks.graph import IDS, INPUT_NAMES, TaskGraph
from tasks.task import Encoded, Input, Model, Outputs, Prediction, Task, number

TASKS = ("classifier", "multi_label_classification")

# Attributions may miss what they explain by this share of it.
TOLERANCE = 0.01

# The integral is a sum over so many points; where the attributions miss the
# difference of the outputs by more than the tolerance, over twice as many.
_STEPS, _MOST_STEPS = 32, 512


def log_odds(logits: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    """Return log P / (1 - P) [B] of classes [B] under a softmax."""
    is_own = tf.one_hot(classes, tf.shape(logits)[1], True, False, dtype=bool)
    others = tf.where(is_own, logits.dtype.min, logits)
    own = tf.gather(logits, classes, batch_dims=1)
    return own - tf.reduce_logsumexp(others, axis=1)


def explaining(
    graph: TaskGraph, run: Model, check: Callable[[], None] = lambda: None
) -> Model:
    """Return a function like `run` whose outputs also have attributions.

    F is the log odds of the likeliest label, or the number of a regression.
    Added to the outputs of `run` are `attributions` [B, S], 0 at [CLS], [SEP]
    and padding; `value` and `baseline`, F(1) and F(0) [B]; and `gap` [B], by
    which the attributions' sum misses F(1) - F(0), as a share of it.

    Args:
        graph: the graph of one of TASKS.
        run: the graph's signature `ids`, see loading.run_graph.
        check: called before each step; what it raises ends the work.
    """
    model, task = graph.model, graph.task
    has_softmax = task.name == "classifier" and task.labels
    vocab = task.tokenizer.vocab
    kept = tf.constant([vocab["[CLS]"], vocab["[SEP]"]])
    padding = vocab.get("[PAD]", 0)
    table = model.bert.embeddings.word_embeddings

    specs = [
        dict.fromkeys(INPUT_NAMES, IDS),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([], tf.float32),
    ]

    @tf.function(autograph=False, input_signature=specs)
    def step(features, classes, a):
        """Return F(a) [B], and its derivative by each token's a [B, S]."""
        tokens = features["input_ids"]  # [B, S]
        is_word = tf.reduce_all(tokens[..., None] != kept, -1)
        is_word &= features["input_mask"] > 0
        start = tf.gather(
            table, tf.where(is_word, padding, tokens)
        )  # [B, S, H]
        way = tf.gather(table, tokens) - start  # 0 at other tokens
        a = tf.fill(tf.shape(tokens), a)
        with tf.GradientTape() as tape:
            tape.watch(a)
            vectors = start + a[..., None] * way
            logits = model(features | {"word_vectors": vectors})  # [B, K]
            # With a sigmoid the logit is the log odds.
            value = tf.gather(logits, classes, batch_dims=1)
            if has_softmax:
                value = log_odds(logits, classes)
        return value, tape.gradient(value, a)

    def explained(features):
        outputs = run(features)
        count = len(features["input_ids"])
        classes = np.zeros(count, np.int32)
        if "probabilities" in outputs:
            classes = outputs["probabilities"].argmax(-1).astype(np.int32)

        def at(a, rows):
            """Return F(a) [rows] and its derivatives [rows, S]."""
            check()
            taken = {n: tf.constant(features[n][rows]) for n in INPUT_NAMES}
            point = tf.constant(a, tf.float32)
            found = step(taken, tf.constant(classes[rows]), point)
            return [value.numpy().astype(np.float64) for value in found]

        todo = np.arange(count)
        (end, _), (start, _) = at(1, todo), at(0, todo)
        found = np.zeros(features["input_ids"].shape)
        gap = np.zeros(count)
        steps = _STEPS
        while len(todo) and steps <= _MOST_STEPS:
            # Gauss and Legendre's rule, exact for polynomials of degree 2n - 1.
            points, weights = np.polynomial.legendre.leggauss(steps)
            found[todo] = sum(
                weight / 2 * at((point + 1) / 2, todo)[1]
                for point, weight in zip(points, weights, strict=True)
            )
            difference = end - start
            missed = np.abs(found.sum(-1) - difference)
            gap = missed / np.maximum(np.abs(difference), 1e-12)
            todo = np.flatnonzero(gap > TOLERANCE)
            steps *= 2
        return outputs | {
            "attributions": found,
            "value": end,
            "baseline": start,
            "gap": gap,
        }

    return explained


# --- Numbers of pieces to words ----------------------------------------------


def explaining_task(task: Task) -> Task:
    """Return a task like one of TASKS, whose predictions have `attributions`.

    Its model is one of `explaining`.
    """
    found = copy.copy(task)

    def decode(
        encoded: Encoded, outputs: Sequence[Outputs]
    ) -> Iterator[Prediction | str]:
        plain = task.decode(encoded, outputs)
        for item, one, own in zip(encoded.inputs, plain, outputs, strict=True):
            if not isinstance(one, str):
                one["attributions"] = _attributions(task, item, own)
            yield one

    found.decode = decode
    return found


def _attributions(task: Task, item: Input, outputs: Outputs) -> Prediction:
    """Return what was explained, and [word, attribution] of each word.

    A word is what spaces part, or an ideograph: the sum of its pieces.
    """
    found: Prediction = {}
    model, tokenizer = task.checkpoint, task.tokenizer
    if task.labels:
        found["label"] = task.labels[int(outputs["probabilities"].argmax())]
    for name in ("value", "baseline"):
        found[name] = number(outputs[name])
    if outputs["gap"] > TOLERANCE:
        found["gap"] = number(outputs["gap"])
    texts = []  # for each text: its words, and how many pieces each has
    for name in task.text_names:
        words = tokenizer.basic_tokenizer.clean(item.texts[name]).split()
        texts.append([(x, len(tokenizer.text_to_ids(x))) for x in words])
    sizes = [sum(size for _, size in words) for words in texts]
    kept = rows.kept_lengths(
        sizes[0],
        sum(sizes[1:]),
        model.row_length,
        model.tokenizer_settings.is_of_hub,
    )
    start = 1  # behind [CLS]
    for name, words, size, count in zip(
        task.text_names, texts, sizes, kept, strict=False
    ):
        places = rows.kept_places(size, count, model.long_texts.how)
        shares = outputs["attributions"][start:]
        of_piece = dict(zip(places, shares, strict=False))
        piece, found[name] = 0, []
        for word, length in words:
            pieces = range(piece, piece + length)
            own = [of_piece[p] for p in pieces if p in of_piece]
            if own:
                found[name].append([word, number(float(np.sum(own)))])
            piece += length
        start += count + 1  # behind [SEP]
    return found
