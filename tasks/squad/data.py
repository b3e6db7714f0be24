"""Read SQuAD 1.1 and 2.0 files into paragraphs and questions.

A file has this form; is_impossible exists only in version 2.0:

    {"data": [{"paragraphs": [{"context": "The founder (Steve Jobs) left.",
      "qas": [{"id": "1", "question": "Who left?", "is_impossible": false,
        "answers": [{"text": "Steve Jobs", "answer_start": 13}]}]}]}]}

The place of an answer is expressed in two units:

    characters  the file and SquadExample, this module: answer_start = 13, 10
                characters
    pieces      windows.py: the tokenizer makes the, founder, (, steve, jobs,
                ), left, . of the context, and the characters of the answer
                are in pieces 3 to 4

triviaqa.py reads TriviaQA's files into the same classes.
"""

import bisect
import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import tables, text_files
from base.errors import UserError

import numpy as np
from absl import logging

# A word ends at every character that the tokenizer treats as white space. The
# original splits at the first five of them only (blank, tab, CR, LF, U+202F),
# so that "5\u00a0pounds" was one word and an answer "5" grew to "5 pounds".
_SPACES = " \t\r\n\u202f\u00a0\u1680\u2000-\u200a\u2028\u2029\u205f\u3000"
_WORD = re.compile(f"[^{_SPACES}]+")

_require = functools.partial(tables.require, hint=": not in SQuAD's format")


class Paragraph(NamedTuple):
    """A context and the character spans of its words.

    The questions of a paragraph share one Paragraph, so it is split once.
    """

    text: str
    starts: np.ndarray  # [words] index of the first character of each word
    ends: np.ndarray  # [words] one past the index of the last

    def words(self) -> list[str]:
        """Return the words."""
        spans = zip(self.starts, self.ends, strict=True)
        return [self.text[start:end] for start, end in spans]

    def words_in(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and the last word of the characters [start, end).

        The last is before the first if there is no word.
        """
        first = bisect.bisect(self.ends, start)
        return first, bisect.bisect_left(self.starts, end) - 1


class SquadExample(NamedTuple):
    """One question on one paragraph."""

    qas_id: str
    question_text: str
    paragraph: int  # index in SquadData.paragraphs
    answers: tuple[str, ...] = ()  # reference answers, for scores
    # Characters [start, end) of the first of them, the one to train on; None
    # if it is not in the paragraph, or is not to be trained on.
    place: tuple[int, int] | None = None
    is_impossible: bool = False


class SquadData(NamedTuple):
    """Paragraphs and their questions, in the order of the paragraphs."""

    paragraphs: list[Paragraph]
    examples: list[SquadExample]
    scoring: str = "squad"  # a key of scores.RULES
    is_version_2: bool = False  # whether questions may have no answer

    def has_answers(self) -> bool:
        """Return whether any question can be scored."""
        return any(e.answers or e.is_impossible for e in self.examples)


def split_words(text: str) -> list[str]:
    """Return the words of a text."""
    return _WORD.findall(text)


def make_paragraph(text: str) -> Paragraph:
    """Return a context split into words."""
    spans = [match.span() for match in _WORD.finditer(text)]
    places = np.array(spans, np.int32).reshape(-1, 2)
    return Paragraph(text, places[:, 0], places[:, 1])


# --- Files -------------------------------------------------------------------


def read_squad(
    files: Sequence[str], is_training: bool, version_2_with_negative: bool
) -> SquadData:
    """Return the questions of SQuAD files.

    For training, a question keeps one answer, the first one in the file. As
    in the original, a question is left out if the words at answer_start do
    not contain the answer. In version 2.0 a question without the key
    is_impossible is impossible if it has no answers, as in the official
    script, which does not read the key.

    Files of version 2.0 may have others of 1.1 beside them.

    Raises:
        UserError: a file is not in SQuAD's format, the files together are of
            the other version, or leave no question; names file and place.
    """
    data = SquadData([], [], is_version_2=version_2_with_negative)
    reader = _Reader(data, is_training)
    for path in files:
        reader.read(path)
    reader.check_version(", ".join(files))
    misplaced = reader.misplaced
    if reader.num_dropped:
        logging.warning(
            "%d questions are left out: the words at answer_start do not "
            "contain the answer",
            reader.num_dropped,
        )
    empty = [x.qas_id for x in data.examples if not x.question_text.strip()]
    if empty:
        logging.warning(
            "%d questions have no text, the first: %s", len(empty), empty[0]
        )
    if misplaced:
        logging.warning(
            "%d answers are not where answer_start points, the first: %s",
            len(misplaced),
            misplaced[0],
        )
    if not data.examples:
        why = ""
        if misplaced:
            why = (
                f" that can be trained on, of {len(reader.places)}; the first "
                f"problem: {misplaced[0]}"
            )
        raise UserError(f"{', '.join(files)}: no question found{why}")
    return data


class _Reader:
    """Collects the examples of several files, and counts of problems."""

    def __init__(self, data: SquadData, is_training: bool):
        self.data, self.is_training = data, is_training
        self.places: dict[str, str] = {}  # question id -> place in a file
        self.misplaced: list[str] = []  # a line per answer not at its place
        self.num_dropped = 0
        self.found = Counter()  # questions of each kind, in all files

    def read(self, path: str) -> None:
        """Add the paragraphs and questions of a file to `data`."""
        is_version_2 = self.data.is_version_2
        content = text_files.read_json(path)
        # TriviaQA's key is "Data", SQuAD's is "data".
        if isinstance(content, dict) and "Data" in content:
            raise UserError(
                f"{path} is a TriviaQA file: it can only be trained on, with "
                "--triviaqa_evidence_dir"
            )
        found = Counter()  # questions of each kind
        for at, article in enumerate(_require(content, "data", list, path)):
            where = f"{path}: data[{at}]"
            paragraphs = _require(article, "paragraphs", list, where)
            for number, value in enumerate(paragraphs):
                place = f"{where}.paragraphs[{number}]"
                text = _require(value, "context", str, place)
                self.data.paragraphs.append(make_paragraph(text))
                questions = _require(value, "qas", list, place)
                for index, qa in enumerate(questions):
                    self._question(qa, f"{place}.qas[{index}]", found)
        no_label = not (found["with answers"] or found["with key"])
        if self.is_training and is_version_2 and found["all"] and no_label:
            raise UserError(
                f"{path}: no question has an answer or the key is_impossible: "
                "this is a file to predict, not to train on; if its questions "
                'have no answer, write "is_impossible": true into them'
            )
        if str(content.get("version")).lower().lstrip("v")[:1] == "2":
            found["with key"] += 1  # a part of 2.0, whatever its questions
        self.found += found
        lacking = found["all"] - found["with answers"]
        if found["with answers"] and lacking and not is_version_2:
            logging.warning(
                "%s: %d of %d questions have no answers to compare with; "
                "every prediction for them counts as wrong. Is this SQuAD 2.0? "
                "Then give --version_2_with_negative",
                path,
                lacking,
                found["all"],
            )

    def check_version(self, files: str) -> None:
        """Raise a UserError if the files together are of the other version.

        Questions to answer may all have an answer: their scores are those of
        the flag, which a warning says.
        """
        found, is_version_2 = self.found, self.data.is_version_2
        if found["impossible"] and not is_version_2:
            raise UserError(
                f"{files}: {found['impossible']} of {found['all']} questions "
                "have no answer: this is SQuAD 2.0, give "
                "--version_2_with_negative"
            )
        is_1 = found["with answers"] == found["all"] and not found["with key"]
        if not (is_version_2 and found["all"] and is_1):
            return
        line = (
            f"{files}: every question has an answer, and none has the key "
            "is_impossible: this is SQuAD 1.1"
        )
        if self.is_training:
            raise UserError(
                f"{line}, leave --version_2_with_negative out, or write "
                '"version": "v2.0" into the file'
            )
        logging.warning("%s, with the answers and scores of 2.0", line)

    def _question(self, qa: Any, where: str, found: Counter) -> None:
        """Add a question on the last paragraph, unless it has to be dropped."""
        qas_id = str(_require(qa, "id", (str, int), where))
        # predictions.json has one answer for each id.
        if qas_id in self.places:
            raise UserError(
                f"{where}: id {qas_id!r} is used at {self.places[qas_id]} too; "
                "ids must be unique over all files"
            )
        self.places[qas_id] = where
        text = _require(qa, "question", str, where)
        is_impossible = "is_impossible" in qa and _require(
            qa, "is_impossible", bool, where
        )
        answers = self._answers(qa, where, qas_id)
        if self.is_training and self.data.is_version_2:
            if qa.get("answers") == []:
                is_impossible |= "is_impossible" not in qa
        found["all"] += 1
        found["impossible"] += is_impossible
        found["with answers"] += bool(answers)
        found["with key"] += "is_impossible" in qa
        place = self._place(*answers[0]) if answers else None
        if self.is_training and is_impossible:
            place = None  # it is trained on with [CLS] for an answer
        elif self.is_training:
            if not answers:
                raise UserError(
                    f"{where} ({qas_id}) has no answer to train on; remove "
                    "the question, or if the paragraph does not answer it, "
                    'write "is_impossible": true and give '
                    "--version_2_with_negative"
                )
            if not place:
                self.num_dropped += 1
                return
        self.data.examples.append(
            SquadExample(
                qas_id,
                text,
                len(self.data.paragraphs) - 1,
                tuple(answer for answer, _ in answers),
                place,
                is_impossible,
            )
        )

    def _answers(
        self, qa: dict, where: str, qas_id: str
    ) -> list[tuple[str, int]]:
        """Return the (text, answer_start) pairs of a question.

        Pairs that do not fit the paragraph are among them.
        """
        if not qa.get("answers"):
            return []
        context = self.data.paragraphs[-1].text
        found = []
        for at, answer in enumerate(_require(qa, "answers", list, where)):
            place = f"{where}.answers[{at}]"
            text = _require(answer, "text", str, place)
            offset = _require(answer, "answer_start", int, place)
            found.append((text, offset))
            seen = context[offset : offset + len(text)] if offset >= 0 else ""
            # An answer next to its place is kept: the words there may contain
            # it (see _place), and a score needs its text only.
            if text.strip() and seen == text:
                continue
            self.misplaced.append(
                f"{place} ({qas_id}): answer_start {offset} is not "
                f"where {text!r} is"
            )
        return found

    def _place(self, text: str, offset: int) -> tuple[int, int] | None:
        """Return the characters [start, end) of an answer.

        Where the text is not at its offset, they are those of the text nearest
        to it in the words there: an offset that is off by a character or two
        is often good enough. None if the words do not contain the text.
        """
        paragraph, words = self.data.paragraphs[-1], split_words(text)
        end = offset + len(text)
        inside = 0 <= offset < len(paragraph.text)
        if not words or not len(paragraph.starts) or not inside:
            return None
        if paragraph.text[offset:end] == text:
            return offset, end
        # The last word that starts at or before the character. A blank thereby
        # belongs to the word before it, as in the original.
        seen = np.searchsorted(paragraph.starts, [offset, end - 1], "right") - 1
        first, last = seen.clip(0).tolist()
        pattern = re.compile(f"[{_SPACES}]+".join(map(re.escape, words)))
        found = pattern.finditer(
            paragraph.text, paragraph.starts[first], paragraph.ends[last]
        )
        return min(
            (match.span() for match in found),
            key=lambda place: abs(place[0] - offset),
            default=None,
        )
