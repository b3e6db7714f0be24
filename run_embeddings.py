r"""Fine-tune BERT for sentence vectors; score them, write them.

    python run_embeddings.py --output_dir=sts_out \
        --init_checkpoint=hf://sentence-transformers/all-MiniLM-L6-v2 \
        --train_file=STS-B/train.tsv --dev_file=STS-B/dev.tsv --max_score=5 \
        --do_train --do_eval

trains the model so that the cosine of two sentences' vectors is their score. It
ends with `eval_results.txt` and the fine-tuned weights in `bert_model.ckpt`.
After an interruption, the same command resumes the run. --do_export writes a
SavedModel, too; --do_predict writes the vectors of --test_file.

Usual choices: --max_seq_length, --train_batch_size, --learning_rate,
--num_train_epochs, --random_seed, --dtype=bfloat16 where the processor has it.

The columns of the training file (.tsv, .csv or .jsonl) decide what is learned:

    sentence1, sentence2, score        the score of the pair
    anchor, positive, negative         to find the positive of an anchor among
                                       all texts of the batch
    sentence1, sentence2, gold_label   the same: --label_column=gold_label
    any texts                          a teacher's vectors:
                                       --teacher_checkpoint

A model of sentence-transformers keeps its pooling, length, prompts and
normalization; without --do_train any BERT is scored.
"""

import dataclasses

from base import script
from base.flags import define, flag

from absl import flags

from checkpoints import sentence_transformers
from finetuning import flags as finetuning_flags
from finetuning import runner
from tasks.embeddings.data import Columns
from tasks.embeddings.job import EmbeddingsJob, Options
from tasks.long_texts import LongTextFlags
from tasks.settings import RunSettings
from tasks.source import find_source

FLAGS = flags.FLAGS

finetuning_flags.define(
    {
        "do_train": "train_file",
        "do_eval": "dev_file or retrieval_dir",
        "eval_steps": "dev_file or retrieval_dir",
        "do_predict": "test_file",
    },
    {"eval_batch_size": 32},
    without=("bilstm_layers", "bilstm_units"),  # vectors are pooled
    what_is_cut="Largest number of tokens of a text; longer texts are cut.",
    train_on="train_file",
    score_on="dev_file and retrieval_dir",
    predict_on="test_file: the vectors of its texts, in embeddings.jsonl",
    eval_batch="Texts in a batch of --do_eval, and of the teacher",
    predict_batch="Texts in a batch of --do_predict",
)

define(LongTextFlags)


@dataclasses.dataclass(frozen=True)
class Flags:
    """Files, columns, vectors and what is learned."""

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

    qrels: str = flag("test")
    """File in the folder qrels of retrieval_dir, without .tsv."""

    test_file: str | None = flag(exists="file")
    """Texts whose vectors --do_predict writes."""

    # Columns
    text_columns: tuple[str, ...] = flag(())
    """Columns of the anchor, its positive and its hard negatives; default:
    anchor or query and positive, sentence1 and sentence2, question1 and
    question2, premise and hypothesis, text_a and text_b, or text; and all whose
    names begin with negative."""

    score_column: str = flag("score")
    """Column with the score of a pair; without this column, all pairs of a file
    have like meaning."""

    max_score: float = flag(1.0, low=1e-6)
    """The score that stands for the cosine 1: 5 for STS-B."""

    label_column: str | None = flag()
    """Column with the label of a pair, such as gold_label."""

    positive_label: str = flag("entailment")
    """Label of pairs of like meaning."""

    negative_label: str = flag("contradiction")
    """Label of pairs whose second text is a hard negative of the first."""

    # Vectors
    pooling: str | None = flag(choices=sentence_transformers.POOLINGS)
    """How the vectors of a text's tokens become one: their mean, their maximum,
    or the one of [CLS]; default: as in the model, else mean."""

    normalize: bool | None = flag()
    """Divide vectors by their length; default: as the model does, else not."""

    query_prompt: str | None = flag()
    """Text to put before queries and anchors, such as "query: "; default: the
    model's prompt named query, else its default prompt."""

    document_prompt: str | None = flag()
    """Text to put before documents and positives, such as "passage: "; default:
    the model's prompt for them."""

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
    temperature: float = flag(0.05, low=1e-4)
    """Divide cosines by this in the softmax over the texts of a batch."""

    symmetric: bool = flag(False)
    """Train positives to find their anchors, too."""

    matryoshka_dims: tuple[int, ...] = flag(
        (),
        low=1,
        excludes={"teacher_checkpoint": "a teacher's vectors have one size"},
    )
    """Sizes, such as 384,128,64, to which vectors can be cut after training:
    the loss is the mean of the losses at these sizes."""

    cache_chunk: int = flag(0, low=0)
    """Texts that the encoder computes at once in training. A batch of any size
    then takes the memory of these texts, for a third more time; 0: all texts of
    a batch."""

    teacher_checkpoint: str | None = flag()
    """Sentence encoder to distill: its vectors of all texts of train_file are
    learned."""


define(Flags)


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    check_flags()
    return runner.run_script(FLAGS, __file__, create_job)


def create_job(settings: RunSettings, is_training: bool) -> EmbeddingsJob:
    """Return the job the flags describe, its files read and checked."""
    source = find_source(settings, is_training)
    values = {
        name: FLAGS[name].value for name in Options._fields if name in FLAGS
    }
    values["columns"] = Columns(
        tuple(FLAGS.text_columns),
        FLAGS.score_column,
        FLAGS.max_score,
        FLAGS.label_column,
        FLAGS.positive_label,
        FLAGS.negative_label,
    )
    values["matryoshka_dims"] = tuple(FLAGS.matryoshka_dims)
    return EmbeddingsJob(settings, source, is_training, Options(**values))


def check_flags() -> None:
    """Check what can be checked before any file is read."""
    finetuning_flags.check(FLAGS)


if __name__ == "__main__":
    script.run(main)
