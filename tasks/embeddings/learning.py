"""What sentence vectors learn: three losses.

    ranking       an anchor is to be nearer to its positive than to all other
                  texts of the batch but anchors and its other positives: the
                  cross entropy of cosines / temperature (Henderson et al.
                  2017, arXiv:1705.00652)
    scores        the squared error of a pair's cosine to its score (Reimers
                  and Gurevych 2019, arXiv:1908.10084)
    distillation  the mean squared error of a text's vector to a teacher's
                  (Reimers and Gurevych 2020, arXiv:2004.09813)

The other texts of a batch are those on the same device, in the same
micro-batch.

Letters in shapes: B examples of G texts each, D numbers of a vector.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modeling import Seed
from ops.elementwise import shape_of
from records.streaming import Batch
from tasks.classifier.model import num_tokens
from tasks.embeddings.flags import DISTILLATION, RANKING, SCORES, Learning
from tasks.embeddings.model import SentenceEncoder, unit_length
from training.objective import Objective, Sums

# Features of the records besides ids. Equal texts of a file, but for case and
# white space, have equal numbers, from 1; 0 fills up the texts of an example.
TEXT_IDS, SCORE, TEACHER = "text_ids", "scores", "teacher_vectors"

# A pair of anchor and positive is the int64 anchor * _MOST_TEXTS + positive.
_MOST_TEXTS = 2**31


def known_positives(text_ids: np.ndarray) -> np.ndarray:
    """Return the pairs of anchor and positive of all examples, [N, G].

    They ascend. Left out are positives that no row has but with this anchor:
    only rows of equal anchors meet them in a batch.
    """
    ids = text_ids.astype(np.int64)
    pairs = ids[:, 0] * _MOST_TEXTS + ids[:, 1]
    pairs, rows = np.unique(pairs, return_counts=True)
    in_all_rows = np.bincount(ids[:, 1:].ravel())
    return pairs[rows < in_all_rows[pairs % _MOST_TEXTS]]


def objective(learning: Learning, known: Sequence[int] = ()) -> Objective:
    """Return what a way to learn minimizes and reports.

    Of a ranking, `known` are the known_positives of the training data.
    """
    name = f"{learning.kind}_loss"

    def count(batch: Batch) -> tf.Tensor:
        """The examples; of a distillation the texts."""
        ids = batch[TEXT_IDS]
        if learning.kind == DISTILLATION:
            return tf.reduce_sum(tf.cast(ids > 0, tf.float32))
        return tf.cast(tf.shape(ids)[0], tf.float32)

    def forward(model: SentenceEncoder, batch: Batch, seed: Seed) -> Sums:
        vectors = model(batch, seed)
        losses = []
        # As in Kusupati et al. 2022, arXiv:2205.13147.
        for size in learning.matryoshka_dims or vectors.shape[-1:]:
            loss, correct = _LOSSES[learning.kind](
                vectors[..., :size], batch, learning, known
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
    vectors: tf.Tensor,
    batch: Batch,
    learning: Learning,
    known: Sequence[int] = (),
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the cross entropies, and how many positives are the nearest.

    Candidates are all positives, then all hard negatives. A candidate that is
    no negative is masked: a text that equals the anchor, and one that equals
    its positive or the positive of an equal anchor, in the batch or `known`.
    """
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
    masked = equal(ids[0], others) | tf.expand_dims(others == 0, 0)
    same_anchor = tf.cast(equal(ids[0], ids[0]), tf.float32)  # [B, B]
    is_text = tf.cast(equal(ids[1], others), tf.float32)  # [B, C]
    masked |= tf.matmul(same_anchor, is_text) > 0
    pairs = tf.cast(ids[0], tf.int64)[:, None] * _MOST_TEXTS
    masked |= _is_among(pairs + tf.cast(others, tf.int64), known)
    places = tf.range(shape_of(anchors)[0])
    own = equal(places, tf.range(tf.shape(others)[0]))
    scores = tf.where(masked & ~own, -1e9, scores)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(places, scores)
    correct = tf.linalg.diag_part(scores) >= tf.reduce_max(scores, axis=1)
    return tf.reduce_sum(losses), tf.reduce_sum(tf.cast(correct, tf.float32))


def _is_among(keys: tf.Tensor, known: Sequence[int]) -> tf.Tensor:
    """Return which int64 keys are among ascending ones, by bisection.

    XLA's tf.searchsorted makes a tensor of each key beside all that are known.
    """
    bits = len(known).bit_length()
    filled = np.full([2**bits], np.iinfo(np.int64).max)
    filled[: len(known)] = known
    table = tf.constant(filled)
    places = tf.zeros_like(keys)
    for bit in reversed(range(bits)):
        later = places + 2**bit
        places = tf.where(tf.gather(table, later) <= keys, later, places)
    return tf.gather(table, places) == keys


def _scores(vectors: tf.Tensor, batch: Batch, *_) -> tuple[tf.Tensor, None]:
    """Return the squared errors of the cosines of pairs [B, 2, D]."""
    vectors = unit_length(vectors)
    cosines = tf.reduce_sum(vectors[:, 0] * vectors[:, 1], axis=-1)  # [B]
    return tf.reduce_sum(tf.square(cosines - batch[SCORE][:, 0])), None


def _distillation(
    vectors: tf.Tensor, batch: Batch, *_
) -> tuple[tf.Tensor, None]:
    """Return the mean squared errors to the teacher's vectors [B, G, D]."""
    errors = tf.reduce_mean(tf.square(vectors - batch[TEACHER]), axis=-1)
    is_text = tf.cast(batch[TEXT_IDS] > 0, tf.float32)
    return tf.reduce_sum(errors * is_text), None


_LOSSES = {RANKING: _ranking, SCORES: _scores, DISTILLATION: _distillation}
