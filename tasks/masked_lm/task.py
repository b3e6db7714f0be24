"""What a masked LM does: fill the [MASK]s of a text, or score a sentence.

For a score each token is masked in turn and predicted from all the others
(Salazar et al. 2020, "Masked Language Model Scoring"):

    score = sum over tokens of log P(token | all others)
    perplexity = exp(-score / number of tokens)

[CLS] and [SEP] are seen but not scored. A piece of a long word is easily told
from its other pieces, so these can be masked together (score_whole_words).
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np

import tokenization
from checkpoints.model import Checkpoint
from tasks import rows
from tasks.rows import Row, Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number

# Likely misspellings of [MASK], for a hint in the error message.
_MISSPELLED = re.compile(r"\[mask\]|<mask>|\bMASK\b", re.IGNORECASE)


def sentence_to_ids(
    text: str, tokenizer: tokenization.FullTokenizer
) -> list[int]:
    """Return the ids of [CLS] text [SEP], with [MASK] as one token.

    The tokenizer splits "[MASK]" into [, mask and ], as the original's does.
    """
    vocab = tokenizer.vocab
    first, *others = text.split("[MASK]")
    ids = [vocab["[CLS]"], *tokenizer.text_to_ids(first)]
    for other in others:
        ids += [vocab["[MASK]"], *tokenizer.text_to_ids(other)]
    return [*ids, vocab["[SEP]"]]


def format_fillings(text: str, found: Prediction) -> str:
    """Return the sentence and a line for each of its [MASK]s."""
    lines = [text]
    masks = zip(found["tokens"], found["scores"], strict=True)
    for place, (tokens, scores) in enumerate(masks, 1):
        name = f"[MASK] {place}: " if len(found["tokens"]) > 1 else ""
        pairs = zip(tokens, scores, strict=True)
        lines.append(
            f"    {name}{', '.join(f'{t} {score:.2f}' for t, score in pairs)}"
        )
    return "\n".join(lines)


class MaskedLmTask(RowTask):
    """Base class of what a masked LM does."""

    head = "cls/predictions/output_bias"

    def __init__(self, settings: TaskSettings):
        super().__init__(settings)
        tokenization.validate_special_tokens(
            self.tokenizer.vocab, ["[MASK]"], self.tokenizer.vocab_file
        )

    def row(self, text_a: str, text_b: str | None = None) -> Row:
        """Return the row of a text, with [MASK] as one token."""
        ids = sentence_to_ids(text_a, self.tokenizer)
        return rows.make_row(ids, len(ids))

    def check_size(self, size: int, why: str) -> None:
        """Raise a UserError for more tokens than are read."""
        longest = self.checkpoint.max_seq_length
        if size > longest:
            raise UserError(
                f"{size} tokens, more than the {longest} that are read "
                f"(--max_seq_length): {why}"
            )

    @classmethod
    def fits(cls, checkpoint: Checkpoint) -> bool:
        """Return whether the model fills masks from both sides.

        One of one direction was never trained on [MASK]. Its best guess would
        ignore the rest of the sentence, and look like the answer of a bad BERT.
        """
        import modeling

        direction = checkpoint.config.attention_direction
        return direction == modeling.BIDIRECTIONAL and super().fits(checkpoint)

    @classmethod
    def check_model(cls, checkpoint: Checkpoint, needs_rows: bool) -> None:
        """Raise a UserError if tokens see one side alone."""
        import modeling

        direction = checkpoint.config.attention_direction
        if direction != modeling.BIDIRECTIONAL:
            raise UserError(
                f"{checkpoint.prefix} is a {direction} model, which predicts "
                "neighbors and no [MASK]; filling masks and scoring sentences "
                "need one trained with --objective=mlm_nsp or mlm"
            )


class FillingOptions(NamedTuple):
    """How many tokens there are for each [MASK]."""

    top_k: int = 5


class MaskedTokens(MaskedLmTask):
    """The likeliest tokens for every [MASK] of a text."""

    name = "masked_lm"
    model = "masked_lm.model.BertForMaskedLM"
    graph = "masked_lm.model.MaskedLmGraph"
    options_type = FillingOptions
    described = (*MaskedLmTask.described, "top_k")
    predicted = ("tokens", "scores")

    def __init__(self, settings: TaskSettings):
        count = len(settings.checkpoint.tokenizer.vocab)
        own = FillingOptions(min(settings.options.top_k, count))
        super().__init__(settings._replace(options=own))

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise UserError for a text without [MASK]."""
        text = texts["text"]
        if "[MASK]" not in text:
            misspelled = _MISSPELLED.search(text)
            hint = f", only {misspelled[0]!r}" if misspelled else ""
            raise UserError(
                f"no [MASK] in the text{hint}: write [MASK] in place of each "
                "word to find (batch_predict.py --task=encoder makes vectors)"
            )
        size = len(sentence_to_ids(text, self.tokenizer))
        self.check_size(size, "a [MASK] may be cut off")

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return tokens and scores [masks, top_k]."""
        mask = self.tokenizer.vocab["[MASK]"]
        count = int((unit[0].input_ids == mask).sum())
        return {
            "tokens": [
                [token.decode() for token in tokens]
                for tokens in outputs["tokens"][:count].tolist()
            ],
            "scores": [
                [number(score) for score in scores]
                for scores in outputs["scores"][:count].tolist()
            ],
        }

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the tokens of ids; those of -1 are empty."""
        # In the order of ids.
        tokens = np.array([t.encode() for t in self.tokenizer.vocab], object)
        ids = numbers["token_ids"]  # [B, M, top_k]
        return {
            "tokens": np.where(ids < 0, b"", tokens[ids]),
            "scores": numbers["scores"],
        }


# --- Scores of sentences ------------------------------------------------------


def perplexity(score: float, num_tokens: int) -> float:
    """Return the perplexity of a sentence or, of two sums, of many."""
    return math.exp(-score / num_tokens)


def format_score(text: str, found: Prediction) -> str:
    """Return lines: the sentence, its score, and its tokens' if asked for."""
    lines = [
        text,
        f"    perplexity {found['perplexity']:.2f}, "
        f"score {found['score']:.2f} of {found['num_tokens']} tokens",
    ]
    if "tokens" in found:
        pairs = zip(found["tokens"], found["token_scores"], strict=True)
        lines.append(f"    {', '.join(f'{t} {x:.2f}' for t, x in pairs)}")
    return "\n".join(lines)


def format_total(found: Sequence[Prediction]) -> str:
    """Return a line with the perplexity of all sentences."""
    score, count = (
        sum(one[name] for one in found) for name in SentenceScore.totals
    )
    return (
        f"{len(found)} sentences: perplexity {perplexity(score, count):.2f}, "
        f"score {score:.2f} of {count} tokens"
    )


class ScoreOptions(NamedTuple):
    """How a sentence is scored.

    Attributes:
        score_whole_words: whether it is scored word by word.
        token_scores: whether the score is also given by tokens.
    """

    score_whole_words: bool = False
    token_scores: bool = False


class SentenceScore(MaskedLmTask):
    """The pseudo-log-likelihood of a text, and its pseudo-perplexity."""

    name = "sentence_score"
    model = "masked_lm.model.SentenceScorer"
    options_type = ScoreOptions
    described = (*MaskedLmTask.described, "score_whole_words")
    totals = ("score", "num_tokens")
    why_no_records = "a record may have masks: give text or JSON lines"

    @property
    def predicted(self) -> tuple[str, ...]:
        """The fields of a sentence, and of its tokens if they are asked for."""
        tokens = ("tokens", "token_scores") if self.options.token_scores else ()
        return ("score", "num_tokens", "perplexity", *tokens)

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise UserError for a text with [MASK], no token, or too many."""
        if "[MASK]" in texts["text"]:
            raise UserError("[MASK] in the text: a sentence is scored whole")
        size = len(self.tokenizer.text_to_ids(texts["text"])) + 2
        if size == 2:
            raise UserError("text is empty")
        self.check_size(size, "a part is not the sentence")

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return score and perplexity; the tokens with --token_scores."""
        found: Prediction = {
            "score": number(outputs["score"]),
            "num_tokens": int(outputs["num_tokens"]),
            "perplexity": number(outputs["perplexity"]),
        }
        if self.options.token_scores:
            ids = unit[0].input_ids.tolist()[1:-1]
            scores = outputs["token_scores"][1 : len(ids) + 1]
            found["tokens"] = self.tokenizer.convert_ids_to_tokens(ids)
            found["token_scores"] = [number(x) for x in scores.tolist()]
        return found
