"""What sentence vectors learn: three losses, and large batches by chunks.

    ranking       an anchor is to be nearer to its positive than to all other
                  texts of the batch but anchors: the cross entropy of
                  cosines / temperature (Henderson et al. 2017,
                  arXiv:1705.00652)
    scores        the squared error of a pair's cosine to its score (Reimers
                  and Gurevych 2019, arXiv:1908.10084)
    distillation  the mean squared error of a text's vector to a teacher's
                  (Reimers and Gurevych 2020, arXiv:2004.09813)

The other texts of a batch are those on the same device, in the same
micro-batch.

Letters in shapes: B examples of G texts each, R = B * G rows, S tokens, D
numbers of a vector.
"""

from typing import NamedTuple

import tensorflow as tf

from modeling import Seed
from ops.elementwise import fold_seed, shape_of
from records.streaming import Batch
from tasks.classifier.model import num_tokens
from tasks.embeddings.model import SentenceEncoder, unit_length
from training.objective import Objective, Sums

RANKING, SCORES, DISTILLATION = "ranking", "scores", "distillation"

# Features of the records besides ids. Equal texts of a file have equal
# numbers, from 1; 0 fills up the texts of an example.
TEXT_IDS, SCORE, TEACHER = "text_ids", "scores", "teacher_vectors"


class Learning(NamedTuple):
    """How to learn.

    Attributes:
        kind: RANKING, SCORES or DISTILLATION.
        temperature: cosines are divided by it.
        symmetric: whether a positive is to find its anchor, too.
        sizes: the loss is the mean of the losses of vectors cut to these sizes
            (Kusupati et al. 2022, arXiv:2205.13147); empty: of whole vectors.
        chunk: rows that the encoder computes together; 0: all.
    """

    kind: str
    temperature: float = 0.05
    symmetric: bool = False
    sizes: tuple[int, ...] = ()
    chunk: int = 0


def objective(learning: Learning) -> Objective:
    """Return the loss and the metrics of one of the ways to learn."""
    name = f"{learning.kind}_loss"

    def count(batch: Batch) -> tf.Tensor:
        """The examples; of a distillation the texts."""
        ids = batch[TEXT_IDS]
        if learning.kind == DISTILLATION:
            return tf.reduce_sum(tf.cast(ids > 0, tf.float32))
        return tf.cast(tf.shape(ids)[0], tf.float32)

    def forward(model: SentenceEncoder, batch: Batch, seed: Seed) -> Sums:
        vectors = vectors_of(model, batch, seed, learning.chunk)
        losses = []
        for size in learning.sizes or vectors.shape[-1:]:
            loss, correct = _LOSSES[learning.kind](
                vectors[..., :size], batch, learning
            )
            losses.append(loss)
        weight = count(batch)
        sums = {name: (sum(losses) / len(losses), weight)}
        if correct is not None:  # of the last size
            sums["accuracy"] = (correct, weight)
        return sums | {"tokens": num_tokens(batch)}

    is_ranking = learning.kind == RANKING
    return Objective(
        loss_weights=lambda batch: {name: count(batch)},
        forward=forward,
        total_loss=lambda sums, weights: sums[name] / weights[name],
        names=(name, *(["accuracy"] if is_ranking else []), "tokens"),
    )


# --- Losses of vectors [B, G, D], as sums over the examples ------------------


def _ranking(
    vectors: tf.Tensor, batch: Batch, learning: Learning
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the cross entropies, and how many positives are the nearest.

    Candidates are all positives, then all hard negatives. A candidate that is
    no negative is masked: a text that equals the anchor or its positive, and a
    positive of an equal anchor.
    """
    size = shape_of(vectors)[0]
    vectors = unit_length(vectors)
    by_place = tf.transpose(vectors, [1, 0, 2])  # [G, B, D]
    ids = tf.transpose(batch[TEXT_IDS])  # [G, B]
    anchors = by_place[0]  # [B, D]
    candidates = tf.reshape(by_place[1:], [-1, vectors.shape[-1]])  # [C, D]
    scores = tf.matmul(anchors, candidates, transpose_b=True)
    scores /= learning.temperature  # [B, C]

    def equal(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.expand_dims(a, 1) == tf.expand_dims(b, 0)

    others = tf.reshape(ids[1:], [-1])  # [C]
    masked = equal(ids[0], others) | equal(ids[1], others)
    masked |= tf.expand_dims(others == 0, 0)
    same_anchor = equal(ids[0], ids[0])  # [B, B]
    masked = tf.concat(
        [masked[:, :size] | same_anchor, masked[:, size:]], axis=1
    )
    places = tf.range(size)
    own = equal(places, tf.range(tf.shape(others)[0]))
    scores = tf.where(masked & ~own, -1e9, scores)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(places, scores)
    if learning.symmetric:
        back = tf.nn.sparse_softmax_cross_entropy_with_logits(
            places, tf.transpose(scores[:, :size])
        )
        losses = (losses + back) / 2
    correct = tf.linalg.diag_part(scores) >= tf.reduce_max(scores, axis=1)
    return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(correct, tf.float32))


def _scores(vectors: tf.Tensor, batch: Batch, _) -> tuple[tf.Tensor, None]:
    """Return the squared errors of the cosines of pairs [B, 2, D]."""
    vectors = unit_length(vectors)
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)  # [B]
    return tf.reduce_sum(tf.square(cosines - batch[SCORE][:, 0])), None


def _distillation(
    vectors: tf.Tensor, batch: Batch, _
) -> tuple[tf.Tensor, None]:
    """Return the mean squared errors to the teacher's vectors [B, G, D]."""
    errors = tf.reduce_mean(tf.square(vectors - batch[TEACHER]), axis=-1)
    is_text = tf.cast(batch[TEXT_IDS] > 0, tf.float32)
    return tf.reduce_sum(errors * is_text), None


_LOSSES = {RANKING: _ranking, SCORES: _scores, DISTILLATION: _distillation}


# --- Vectors -----------------------------------------------------------------


def vectors_of(
    model: SentenceEncoder, batch: Batch, seed: Seed, chunk: int = 0
) -> tf.Tensor:
    """Return the vectors [B, G, D] of a batch, by `chunk` rows at a time.

    The loss of a batch needs all its vectors, which are small, but not all
    activations of the encoder. By chunks, activations are computed twice: first
    for the vectors, without being kept; then, when the gradients of all vectors
    are known, chunk by chunk for the gradients of the weights (Gao et al. 2021,
    arXiv:2101.06983). The sums of these are the gradients of one pass. Chunk
    number i has the dropout of fold_seed(seed, i), both times.
    """
    if not chunk:
        return model(batch, seed)
    *leading, length = shape_of(batch["input_ids"])
    count = leading[0] * leading[1] if len(leading) > 1 else leading[0]
    parts = -(-count // chunk)

    def cut(value: tf.Tensor) -> tf.Tensor:  # [R, ...] to [parts, chunk, ...]
        rest = value.shape[1:]
        value = tf.pad(
            value, [[0, parts * chunk - count]] + [[0, 0]] * len(rest)
        )
        return tf.reshape(value, [parts, chunk, *shape_of(value)[1:]])

    rows = {
        name: cut(tf.reshape(batch[name], [-1, length]))
        for name in ("input_ids", "input_mask", "segment_ids")
    }

    def encode(index: tf.Tensor) -> tf.Tensor:
        part = {name: value[index] for name, value in rows.items()}
        own = None if seed is None else fold_seed(seed, index)
        return model(part, own)  # [chunk, D]

    def loop(add_one, state):
        # One after the other: in parallel they would need the memory of all.
        _, *found = tf.while_loop(
            lambda index, *_: index < parts,
            lambda index, *state: (index + 1, *add_one(index, *state)),
            (tf.constant(0), *state),
            parallel_iterations=1,
        )
        return found

    size = model.width

    @tf.custom_gradient
    def all_vectors(_):
        empty = tf.TensorArray(tf.float32, parts, element_shape=[chunk, size])
        (found,) = loop(
            lambda index, found: (found.write(index, encode(index)),), [empty]
        )

        def gradient(upstream, variables):
            upstream = cut(upstream)

            def add_one(index, *totals):
                with tf.GradientTape() as tape:
                    vectors = encode(index)
                more = tape.gradient(
                    vectors,
                    variables,
                    upstream[index],
                    unconnected_gradients="zero",
                )
                return [
                    total + tf.convert_to_tensor(one)
                    for total, one in zip(totals, more, strict=True)
                ]

            zeros = [tf.zeros(v.shape) for v in variables]
            return tf.zeros([]), loop(add_one, zeros)

        return tf.reshape(found.stack(), [-1, size])[:count], gradient

    # custom_gradient wants an input; the gradients are those of variables.
    return tf.reshape(all_vectors(tf.zeros([])), [*leading, size])
