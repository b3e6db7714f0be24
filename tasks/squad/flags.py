"""The flags of run_squad.py that its job reads, apart from TensorFlow."""

import dataclasses

from base.flags import flag

from tasks.squad import scores as squad_scores
from tasks.squad.decoding import AnswerOptions
from tasks.squad.windows import Lengths


@dataclasses.dataclass(frozen=True)
class Options:
    """What is read, and how answers are found and scored."""

    lengths: Lengths
    answers: AnswerOptions

    train_file: tuple[str, ...] = flag((), exists="file")
    """SQuAD's JSON, or several files separated by commas."""

    predict_file: tuple[str, ...] = flag((), exists="file")
    """SQuAD's JSON with questions to answer or to score, or several files
    separated by commas."""

    count_steps_by: str = flag("windows", choices=("windows", "questions"))
    """What num_train_epochs counts as an epoch: all windows or as many windows
    as there are questions. The original counts questions, which gives fewer
    steps, since a long paragraph has several windows."""

    version_2_with_negative: bool = flag(False)
    """Questions may have no answer: SQuAD 2.0."""

    triviaqa_evidence_dir: str | None = flag()
    """Directory with TriviaQA's folders wikipedia/ and web/, whose questions
    are in train_file. The first 400 words of each document are read."""

    scoring: str = flag("squad", choices=sorted(squad_scores.RULES))
    """Whose official script scores the answers. F1 counts words for squad,
    characters for korquad, and for cmrc, which is for Chinese, the longest run
    of characters that two answers share."""
