"""The flags of run_embeddings.py that its job reads, apart from TensorFlow."""

import dataclasses

from base.flags import flag

from checkpoints.trained_for import TOKEN_POOLINGS
from tasks.embeddings.data import Columns
from tasks.embeddings.task import Prompts

RANKING, SCORES, DISTILLATION = "ranking", "scores", "distillation"


@dataclasses.dataclass(frozen=True)
class Learning:
    """What is learned from pairs of texts, and the settings of its loss."""

    kind: str = RANKING  # or SCORES or DISTILLATION

    temperature: float = flag(0.05, low=1e-4)
    """Divide cosines by this in the softmax over the texts of a batch."""

    matryoshka_dims: tuple[int, ...] = flag(
        (),
        low=1,
        excludes={"teacher_answers": "a teacher's vectors have one size"},
    )
    """Sizes, such as 384,128,64, to which vectors can be cut after training:
    the loss is the mean of the losses at these sizes."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What is read, and what vectors are made and learned; None: not given."""

    columns: Columns
    learning: Learning
    prompts: Prompts

    # Files
    train_file: str | None = flag(exists="file")
    """Pairs or texts to train on: .tsv (not quoted), .csv, .jsonl; .txt has a
    text in each line."""

    dev_file: str | None = flag(exists="file")
    """Pairs to score the model on: by the correlation of scores with cosines,
    or what else the model compares vectors by; or, if the pairs have no scores,
    by how well each first text finds its second among all second texts."""

    retrieval_dir: str | None = flag(exists="directory")
    """Folder with a collection to search, in BEIR's format: corpus.jsonl,
    queries.jsonl, qrels/test.tsv, with a header or without."""

    qrels: str = flag("test", needs={"retrieval_dir": ""})
    """File in the folder qrels of retrieval_dir, without .tsv."""

    test_file: str | None = flag(exists="file")
    """Texts whose vectors --do_predict writes."""

    # Vectors
    pooling: str | None = flag(choices=TOKEN_POOLINGS)
    """How the vectors of a text's tokens become one: their mean, the one of
    [CLS], their maximum, their sum divided by the square root of their number,
    their mean weighted by their positions from 1, or the one of the last token;
    default: as in the model, else mean."""

    normalize: bool | None = flag()
    """Divide vectors by their length; default: as the model does, else not."""

    embedding_size: int | None = flag(
        low=1,
        excludes={
            "do_train": "to train vectors that can be cut, give "
            "--matryoshka_dims"
        },
    )
    """Without --do_train: keep only this many numbers of each vector, the first
    ones; default: as many as the model's truncate_dim says, else all."""

    # Learning
    teacher_answers: tuple[str, ...] = flag(
        (), needs={"do_train": "answers are for training"}
    )
    """Vectors to learn for all texts of train_file: output_dir of
    batch_predict.py --as_teacher, or its files. Texts without a vector are
    written to unanswered.jsonl in output_dir."""
