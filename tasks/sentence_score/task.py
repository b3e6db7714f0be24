"""How probable a sentence is to a masked LM, and its pseudo-perplexity.

Each token is masked in turn and predicted from all the others (Salazar et al.
2020, "Masked Language Model Scoring"):

    score = sum over tokens of log P(token | all others)
    perplexity = exp(-score / number of tokens)

[CLS] and [SEP] are seen but not scored. A piece of a long word is easily told
from its other pieces, so these can be masked together (score_whole_words).
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from base.errors import UserError

from tasks.masked_lm.task import MaskedLmTask
from tasks.rows import Unit
from tasks.task import Outputs, Prediction, number

if TYPE_CHECKING:
    import modeling
    from tasks.sentence_score import model


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


class SentenceScore(MaskedLmTask):
    """The pseudo-log-likelihood of a text, and its pseudo-perplexity."""

    name = "sentence_score"
    described = (*MaskedLmTask.described, "score_whole_words")
    totals = ("score", "num_tokens")
    why_no_records = "a record may have masks: give text or JSON lines"

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
        if self.settings.token_scores:
            ids = unit[0].input_ids.tolist()[1:-1]
            scores = outputs["token_scores"][1 : len(ids) + 1]
            found["tokens"] = self.tokenizer.convert_ids_to_tokens(ids)
            found["token_scores"] = [number(x) for x in scores.tolist()]
        return found

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.SentenceScorer":
        """Return the encoder with the heads of pre-training."""
        from tasks.sentence_score import model

        return model.SentenceScorer(
            config, dtype, self.tokenizer.vocab, self.settings.score_whole_words
        )
