"""Questions on paragraphs: SQuAD's files, versions 1.1 and 2.0, to examples.

A paragraph is cut into words once, however many questions it has; an example
points at it. TriviaQA's files become the same examples in triviaqa_data.py.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

import numpy as np
from absl import logging

_SHOWN = 3  # wrong answers named in the log

# What parts words: whatever the tokenizer takes for space. The original knows
# the first five alone, so that other spaces end up inside of answers.
_WORD = re.compile(
    "[^ \t\r\n\u202f\u00a0\u1680\u2000-\u200a\u2028\u2029\u205f\u3000]+"
)


class Paragraph(NamedTuple):
    """A context and where its words are."""

    text: str
    starts: np.ndarray  # [words] first character of each word
    ends: np.ndarray  # [words] one past its last

    def words(self, first: int = 0, last: int | None = None) -> list[str]:
        """Return words [first, last], all by default."""
        stop = len(self.starts) if last is None else last + 1
        spans = zip(self.starts[first:stop], self.ends[first:stop], strict=True)
        return [self.text[start:end] for start, end in spans]


class SquadExample(NamedTuple):
    """One question. Positions are words of the paragraph, -1 for none."""

    qas_id: str
    question_text: str
    paragraph: int
    answers: tuple[str, ...] = ()
    orig_answer_text: str = ""
    start_position: int = -1
    end_position: int = -1
    is_impossible: bool = False


class SquadData(NamedTuple):
    """What a file, or several, hold."""

    paragraphs: list[Paragraph]
    examples: list[SquadExample]

    def has_answers(self) -> bool:
        """Whether there is anything to score against."""
        return any(e.answers or e.is_impossible for e in self.examples)


def make_paragraph(text: str) -> Paragraph:
    """Cut a context into words."""
    spans = [match.span() for match in _WORD.finditer(text)]
    places = np.array(spans, np.int32).reshape(-1, 2)
    return Paragraph(text, places[:, 0], places[:, 1])


def read_json(path: str) -> Any:
    """Return what a JSON file holds.

    Raises:
        UserError: it is none; names line and column.
    """
    with file_system.open_for_reading(path) as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        raise UserError(f"{path} is compressed (gzip): unpack it first")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}: not JSON at line {error.lineno}, column {error.colno}: "
            f"{error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:  # numbers, lists too long
        raise UserError(f"{path}: no JSON for us: {error}") from error


def item(
    parent: Any, key: str, kind: type, where: str, of: str = "SQuAD"
) -> Any:
    """Return parent[key], of a type.

    Raises:
        UserError: names the path inside of the file.
    """
    if not isinstance(parent, dict):
        raise UserError(
            f"{where} is {type(parent).__name__}, wanted an object with the "
            f"key {key!r}: not in {of}'s format"
        )
    if key not in parent:
        raise UserError(f"{where} has no key {key!r}: not in {of}'s format")
    value = parent[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        # Inside of a file "path: data[0]" goes on with a point.
        place = f"{where}.{key}" if ": " in where else f"{where}: {key}"
        raise UserError(
            f"{place} is {type(value).__name__}, wanted {kind.__name__}"
        )
    return value


def read_squad(
    files: Sequence[str],
    is_training: bool,
    version_2_with_negative: bool,
    strict: bool = False,
) -> SquadData:
    """Read SQuAD files into examples.

    In training a question has one answer, the first that is given, and one
    whose answer is not where the file says is left out, as in the original.

    Args:
        files: JSON, one after the other.
        is_training: whether answers are needed.
        version_2_with_negative: whether questions may lack an answer.
        strict: an answer that is not where it should be is an error.

    Raises:
        UserError: names file and place.
    """
    reader = _Reader(is_training, strict)
    for path in files:
        reader.read(path)
        check_version(path, reader.in_file, version_2_with_negative)
        reader.log_unanswered(path)
    reader.log()
    if not reader.data.examples:
        why = ""
        if reader.misplaced:
            why = (
                f" that can be trained on, of {len(reader.places)}; the first "
                f"problem: {reader.misplaced[0]}"
            )
        raise UserError(f"{', '.join(files)}: no question in it{why}")
    return reader.data


class _InFile(NamedTuple):
    """What tells a file's version."""

    questions: int
    impossible: int
    with_answers: int
    says_impossible: int  # questions with the key, whatever its value


def check_version(path: str, found: _InFile, is_version_2: bool) -> None:
    """Compare a file with --version_2_with_negative.

    Raises:
        UserError: they contradict each other.
    """
    if found.impossible and not is_version_2:
        raise UserError(
            f"{path}: {found.impossible} of {found.questions} questions have "
            "no answer: this is SQuAD 2.0, which wants "
            "--version_2_with_negative"
        )
    if is_version_2 and found.with_answers and not found.says_impossible:
        raise UserError(
            f"{path}: no question has the key is_impossible: this is SQuAD "
            "1.1, leave --version_2_with_negative out"
        )


class _Reader:
    """Collects examples over files, and what is wrong with them."""

    def __init__(self, is_training: bool, strict: bool):
        self.is_training, self.strict = is_training, strict
        self.data = SquadData([], [])
        self.places: dict[str, str] = {}  # question id -> where
        self.misplaced: list[str] = []
        self.num_dropped = self.num_several = 0
        self.in_file = _InFile(0, 0, 0, 0)

    def read(self, path: str) -> None:
        """Add a file."""
        self.in_file = _InFile(0, 0, 0, 0)
        content = read_json(path)
        if isinstance(content, dict) and "Data" in content:
            raise UserError(
                f"{path} is TriviaQA's, which is for training alone and wants "
                "--triviaqa_evidence_dir"
            )
        articles = item(content, "data", list, path)
        for at, article in enumerate(articles):
            where = f"{path}: data[{at}]"
            paragraphs = item(article, "paragraphs", list, where)
            for number, paragraph in enumerate(paragraphs):
                self._paragraph(paragraph, f"{where}.paragraphs[{number}]")

    def _paragraph(self, value: Any, where: str) -> None:
        context = make_paragraph(item(value, "context", str, where))
        number = len(self.data.paragraphs)
        self.data.paragraphs.append(context)
        for at, qa in enumerate(item(value, "qas", list, where)):
            place = f"{where}.qas[{at}]"
            example = self._question(qa, number, context, place)
            if example:
                self.data.examples.append(example)

    def _question(
        self, qa: Any, number: int, context: Paragraph, where: str
    ) -> SquadExample | None:
        qas_id = item(qa, "id", object, where)
        if not isinstance(qas_id, (str, int)) or isinstance(qas_id, bool):
            raise UserError(f"{where}.id is {qas_id!r}, wanted a text")
        qas_id = str(qas_id)
        if qas_id in self.places:
            raise UserError(
                f"{where}: id {qas_id!r} is that of {self.places[qas_id]} too; "
                "ids have to differ, over all files"
            )
        self.places[qas_id] = where
        example = SquadExample(qas_id, item(qa, "question", str, where), number)
        is_impossible = "is_impossible" in qa and item(
            qa, "is_impossible", bool, where
        )
        answers = self._answers(qa, example, context, where)
        count = self.in_file
        self.in_file = _InFile(
            count.questions + 1,
            count.impossible + is_impossible,
            count.with_answers + bool(answers),
            count.says_impossible + ("is_impossible" in qa),
        )
        example = example._replace(
            answers=tuple(text for text, _ in answers),
            is_impossible=is_impossible,
        )
        if is_impossible or not self.is_training:
            return example
        if not answers:
            raise UserError(
                f"{where} ({qas_id}) has no answer to train on; leave the "
                "question out, or say is_impossible in SQuAD 2.0"
            )
        self.num_several += len({text for text, _ in answers}) > 1
        return self._with_answer(example, context, *answers[0])

    def _answers(
        self, qa: dict, example: SquadExample, context: Paragraph, where: str
    ) -> list[tuple[str, int]]:
        """Return a question's answers and where they should be."""
        if not qa.get("answers"):
            return []
        found = []
        for at, answer in enumerate(item(qa, "answers", list, where)):
            place = f"{where}.answers[{at}]"
            text = item(answer, "text", str, place)
            offset = item(answer, "answer_start", int, place)
            found.append((text, offset))
            seen = (
                context.text[offset : offset + len(text)] if offset >= 0 else ""
            )
            if text.strip() and seen == text:
                continue
            line = (
                f"{place} ({example.qas_id}): answer_start {offset} is not "
                f"where {text!r} is"
            )
            if self.strict:
                raise UserError(f"{line} (--strict)")
            self.misplaced.append(line)
        return found

    def _with_answer(
        self, example: SquadExample, context: Paragraph, text: str, offset: int
    ) -> SquadExample | None:
        """Find the words of an answer; None where they do not hold it."""
        wanted = " ".join(_WORD.findall(text))
        words, start, end = "", 0, 0
        if len(context.starts) and offset >= 0:
            last = offset + max(len(text), 1) - 1
            # A space belongs to the word before it.
            ends = np.searchsorted(context.starts, [offset, last], "right") - 1
            start, end = ends.clip(0).tolist()
            words = " ".join(context.words(start, end))
        if not wanted or wanted not in words:
            self.num_dropped += 1
            return None
        return example._replace(
            orig_answer_text=text, start_position=start, end_position=end
        )

    def log_unanswered(self, path: str) -> None:
        """Tell of questions of a scored file that count as wrong."""
        found = self.in_file
        lacking = found.questions - found.impossible - found.with_answers
        if found.with_answers and lacking and not self.is_training:
            logging.warning(
                "%s: %d of %d questions have no answers to compare with; "
                "whatever is said counts as wrong",
                path,
                lacking,
                found.questions,
            )

    def log(self) -> None:
        """Say what was read, and what was not as it should be."""
        logging.info(
            "Read %d questions on %d paragraphs",
            len(self.data.examples),
            len(self.data.paragraphs),
        )
        if self.num_several:
            logging.info(
                "%d questions have several answers: the first is trained on",
                self.num_several,
            )
        if self.num_dropped:
            logging.warning(
                "%d questions are left out: the words where the answer should "
                "be do not hold it",
                self.num_dropped,
            )
        if self.misplaced:
            logging.warning(
                "%d answers are not where answer_start says, the first:",
                len(self.misplaced),
            )
            for line in self.misplaced[:_SHOWN]:
                logging.warning("  %s", line)
