"""The original's run_squad.py: examples, windows as features, answers."""

import collections
import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from base import file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags

import modeling
import tokenization
from compat.modeling import output_layer
from tasks import rows
from tasks.squad import answers, data, decoding, windows

v1 = tf.compat.v1

# --- Examples ----------------------------------------------------------------


@dataclasses.dataclass
class SquadExample:
    """A question, and the words of its paragraph.

    start_position and end_position are words; -1 if it is impossible, None if
    it is to be predicted. The answer is searched for in these words.
    """

    qas_id: str
    question_text: str
    doc_tokens: list[str]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


def _flag(name: str) -> Any:
    """Return a flag of run_squad.py, which the original reads here too."""
    return flags.FLAGS[name].value if name in flags.FLAGS else None


def read_squad_examples(
    input_file: str, is_training: bool
) -> list[SquadExample]:
    """Return the questions of a file, as --version_2_with_negative says."""
    is_version_2 = bool(_flag("version_2_with_negative"))
    found = data.read_squad([input_file], is_training, is_version_2)
    words = [paragraph.words() for paragraph in found.paragraphs]
    examples = []
    for x in found.examples:
        example = SquadExample(x.qas_id, x.question_text, words[x.paragraph])
        examples.append(example)
        if is_training:
            example.is_impossible = x.is_impossible
            example.orig_answer_text = "" if x.is_impossible else x.answers[0]
            example.start_position = example.end_position = -1
        if is_training and x.place:
            example.start_position, example.end_position = found.paragraphs[
                x.paragraph
            ].words_in(*x.place)
    return examples


def _squad_data(examples: Sequence[SquadExample]) -> data.SquadData:
    """Return examples as run_squad.py has them."""
    found = data.SquadData([], [])
    last = None
    for example in examples:
        if example.doc_tokens != last:
            last = example.doc_tokens
            sizes = np.array([len(word) for word in last], np.int32)
            ends = np.cumsum(sizes + 1, dtype=np.int32) - 1
            paragraph = data.Paragraph(" ".join(last), ends - sizes, ends)
            found.paragraphs.append(paragraph)
        found.examples.append(
            data.SquadExample(
                example.qas_id,
                example.question_text,
                len(found.paragraphs) - 1,
                place=_place(example, found.paragraphs[-1]),
                is_impossible=bool(example.is_impossible),
            )
        )
    return found


def _place(
    example: SquadExample, paragraph: data.Paragraph
) -> tuple[int, int] | None:
    """Return the characters of an answer in the words, joined by blanks."""
    first, last = example.start_position, example.end_position
    if first is None or first < 0:
        return None
    start, end = int(paragraph.starts[first]), int(paragraph.ends[last])
    text = " ".join(data.split_words(example.orig_answer_text or ""))
    at = paragraph.text.find(text, start, end) if text else -1
    return (at, at + len(text)) if at >= 0 else (start, end)


# --- Features ----------------------------------------------------------------


@dataclasses.dataclass
class InputFeatures:
    """A window: the model's input, and where its tokens are from.

    `source` is what write_predictions needs: all windows of the conversion.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    tokens: list[str]
    token_to_orig_map: dict[int, int]
    token_is_max_context: dict[int, bool]
    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool | None = None
    source: Any = dataclasses.field(default=None, repr=False)


def convert_examples_to_features(
    examples: Sequence[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    output_fn: Callable[[InputFeatures], Any],
) -> None:
    """Call output_fn with the features of every window."""
    lengths = windows.Lengths(max_seq_length, doc_stride, max_query_length)
    found = windows.convert(_squad_data(examples), tokenizer, lengths)
    records = windows.records(found, tokenizer.vocab)
    is_max_context = decoding.max_context(
        found.example, found.doc_start, found.doc_length
    )
    at, spans = 0, collections.Counter()
    for number, (row, labels) in enumerate(records):
        example = int(found.example[number])
        size = int(found.doc_length[number])
        first = int(found.doc_offset[number])
        start = int(found.doc_start[number])
        of_word = found.words[found.data.examples[example].paragraph]
        columns = rows.pad([row], max_seq_length)
        features = InputFeatures(
            labels["unique_ids"],
            example,
            spans[example],
            tokenizer.convert_ids_to_tokens(row.input_ids.tolist()),
            dict(enumerate(of_word[start : start + size].tolist(), first)),
            dict(enumerate(is_max_context[at : at + size].tolist(), first)),
            *(columns[name][0].tolist() for name in columns),
            source=(found, tokenizer),
        )
        if is_training:
            features.start_position = int(found.start_positions[number])
            features.end_position = int(found.end_positions[number])
            features.is_impossible = bool(examples[example].is_impossible)
        output_fn(features)
        spans[example] += 1
        at += size


# --- Model -------------------------------------------------------------------


def create_model(
    bert_config: modeling.BertConfig,
    is_training: bool,
    input_ids: tf.Tensor,
    input_mask: tf.Tensor,
    segment_ids: tf.Tensor,
    use_one_hot_embeddings: bool,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return start and end logits, both [B, S].

    Variables are those of modeling.BertModel and cls/squad/output_weights and
    output_bias.
    """
    del use_one_hot_embeddings  # see modeling.BertModel
    model = modeling.BertModel(
        bert_config, is_training, input_ids, input_mask, segment_ids
    )
    with v1.variable_scope("cls/squad"):
        logits = output_layer(model.get_sequence_output(), 2)  # [B, S, 2]
    return logits[..., 0], logits[..., 1]


# --- Answers -----------------------------------------------------------------

RawResult = collections.namedtuple(
    "RawResult", ["unique_id", "start_logits", "end_logits"]
)


def get_final_text(pred_text: str, orig_text: str, do_lower_case: bool) -> str:
    """Return the part of the words orig_text that the pieces pred_text are.

    Pieces are lower-cased, and may begin or end inside a word. Their place in
    the words is found by counting characters other than blanks, whose number
    is the same before and after normalization:

        orig_text    (Steve Jobs)      12 characters, 11 without the blank
        normalized   ( steve jobs )    14 characters, 11 without blanks
        pred_text    steve jobs        at characters 1 to 9 of the 11
        result       Steve Jobs        characters 1 to 9 of the 11

    It is all of orig_text if that fails. `write_predictions` does not need it:
    it knows the characters of each piece.
    """
    basic = tokenization.BasicTokenizer(do_lower_case)
    seen = " ".join(basic.tokenize(orig_text))
    at = seen.find(pred_text)
    # Not found, for example, if a piece is [UNK]: no word contains that.
    if at < 0 or not pred_text:
        return orig_text
    # Counting fails where normalization changes the number of characters: it
    # splits a Hangul syllable into two or three letters.
    places = [i for i, char in enumerate(orig_text) if char != " "]
    if len(places) != len(seen) - seen.count(" "):
        return orig_text
    # The first and the last of the pieces among the characters without blanks.
    first = at - seen.count(" ", 0, at)
    last = first + len(pred_text) - pred_text.count(" ") - 1
    return orig_text[places[first] : places[last] + 1]


def write_predictions(
    all_examples: Sequence[SquadExample],
    all_features: Sequence[InputFeatures],
    all_results: Sequence[RawResult],
    n_best_size: int,
    max_answer_length: int,
    do_lower_case: bool,
    output_prediction_file: str,
    output_nbest_file: str,
    output_null_log_odds_file: str,
) -> None:
    """Write the answers, the n-best lists and, for SQuAD 2.0, the null odds.

    The flags --version_2_with_negative and --null_score_diff_threshold apply.
    The casing is that of the tokenizer that convert_examples_to_features, which
    makes all_features, was called with.
    """
    del all_examples, do_lower_case
    results = {result.unique_id: result for result in all_results}
    source = all_features[0].source if all_features else None
    ids = [feature.unique_id for feature in all_features]
    if (
        not source
        or len(ids) != len(source[0])
        or not results.keys() >= set(ids)
    ):
        raise UserError(
            f"write_predictions: found {len(ids)} windows and {len(results)} "
            "results, wanted a result for each window that "
            "convert_examples_to_features made"
        )
    found, tokenizer = source
    start_logits, end_logits = (
        np.array([getattr(results[number], name) for number in ids], np.float32)
        for name in ("start_logits", "end_logits")
    )
    is_version_2 = bool(_flag("version_2_with_negative"))
    asked = found.data._replace(is_version_2=is_version_2)
    decoded = decoding.decode(
        dataclasses.replace(found, data=asked),
        start_logits,
        end_logits,
        tokenizer,
        decoding.AnswerOptions(
            n_best_size, max_answer_length, ignore_padding=False
        ),
    )
    threshold = _flag("null_score_diff_threshold") or 0.0
    best = {key: c.text for key, c in decoded.chosen(threshold).items()}
    written = {
        output_prediction_file: json.dumps(best, indent=4),
        output_nbest_file: answers.nbest_json(decoded.nbest),
    }
    if is_version_2:
        odds = json.dumps(decoded.null_odds, indent=4)
        written[output_null_log_odds_file] = odds
    for path, text in written.items():
        file_system.write_text(path, text + "\n")
