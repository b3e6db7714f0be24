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

from base import file_system, script
from base.errors import UserError

from absl import flags

from checkpoints import sentence_transformers
from finetuning import flags as finetuning_flags
from finetuning import runner
from tasks import long_texts
from tasks.embeddings.data import Columns
from tasks.embeddings.job import EmbeddingsJob, Options
from tasks.settings import RunSettings
from tasks.source import find_source

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=128,
    what_is_cut="Largest number of tokens of a text; longer texts are cut.",
    train_on="train_file",
    score_on="dev_file and retrieval_dir",
    predict_on="test_file: the vectors of its texts, in embeddings.jsonl",
    predict_batch="Texts in a batch of --do_predict",
)
flags.DEFINE_integer(
    "eval_batch_size",
    32,
    "Texts in a batch of --do_eval, and of the teacher.",
    lower_bound=1,
    upper_bound=2**17,
)

long_texts.define_flags()

# Files
flags.DEFINE_string(
    "train_file",
    None,
    "Pairs or texts to train on: .tsv (not quoted), .csv, .jsonl; .txt has a "
    "text in each line.",
)
flags.DEFINE_string(
    "dev_file",
    None,
    "Pairs to score the model on: by the correlation of scores with cosines, "
    "or what else the model compares vectors by; or, if the pairs have no "
    "scores, by how well each first text finds its second among all second "
    "texts.",
)
flags.DEFINE_string(
    "retrieval_dir",
    None,
    "Folder with a collection to search, in BEIR's format: corpus.jsonl, "
    "queries.jsonl, qrels/test.tsv, with a header or without.",
)
flags.DEFINE_string(
    "qrels", "test", "File in the folder qrels of retrieval_dir, without .tsv."
)
flags.DEFINE_string(
    "test_file", None, "Texts whose vectors --do_predict writes."
)

# Columns
flags.DEFINE_list(
    "text_columns",
    [],
    "Columns of the anchor, its positive and its hard negatives; default: "
    "anchor or query and positive, sentence1 and sentence2, question1 and "
    "question2, premise and hypothesis, text_a and text_b, or text; and all "
    "whose names begin with negative.",
)
flags.DEFINE_string(
    "score_column",
    "score",
    "Column with the score of a pair; without this column, all pairs of a file "
    "have like meaning.",
)
flags.DEFINE_float(
    "max_score",
    1.0,
    "The score that stands for the cosine 1: 5 for STS-B.",
    lower_bound=1e-6,
)
flags.DEFINE_string(
    "label_column", None, "Column with the label of a pair, such as gold_label."
)
flags.DEFINE_string(
    "positive_label", "entailment", "Label of pairs of like meaning."
)
flags.DEFINE_string(
    "negative_label",
    "contradiction",
    "Label of pairs whose second text is a hard negative of the first.",
)

# Vectors
flags.DEFINE_enum(
    "pooling",
    None,
    sentence_transformers.POOLINGS,
    "How the vectors of a text's tokens become one: their mean, their maximum, "
    "or the one of [CLS]; default: as in the model, else mean.",
)
flags.DEFINE_bool(
    "normalize",
    None,
    "Divide vectors by their length; default: as the model does, else not.",
)
flags.DEFINE_string(
    "query_prompt",
    None,
    'Text to put before queries and anchors, such as "query: "; default: the '
    "model's prompt named query, else its default prompt.",
)
flags.DEFINE_string(
    "document_prompt",
    None,
    'Text to put before documents and positives, such as "passage: "; default: '
    "the model's prompt for them.",
)
flags.DEFINE_integer(
    "embedding_size",
    None,
    "Without --do_train: keep only this many numbers of each vector, the first "
    "ones; default: as many as the model's truncate_dim says, else all.",
    lower_bound=1,
)

# Learning
flags.DEFINE_float(
    "temperature",
    0.05,
    "Divide cosines by this in the softmax over the texts of a batch.",
    lower_bound=1e-4,
)
flags.DEFINE_bool(
    "symmetric", False, "Train positives to find their anchors, too."
)
flags.DEFINE_list(
    "matryoshka_dims",
    [],
    "Sizes, such as 384,128,64, to which vectors can be cut after training: "
    "the loss is the mean of the losses at these sizes.",
)
flags.DEFINE_integer(
    "cache_chunk",
    0,
    "Texts that the encoder computes at once in training. A batch of any size "
    "then takes the memory of these texts, for a third more time; 0: all texts "
    "of a batch.",
    lower_bound=0,
)
flags.DEFINE_string(
    "teacher_checkpoint",
    None,
    "Sentence encoder to distill: its vectors of all texts of train_file are "
    "learned.",
)

# Flag -> the flags of which it needs one.
_NEEDED = {
    "do_train": ("train_file",),
    "do_eval": ("dev_file", "retrieval_dir"),
    "eval_steps": ("dev_file", "retrieval_dir"),
    "do_predict": ("test_file",),
}


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
    values["matryoshka_dims"] = _sizes()
    return EmbeddingsJob(settings, source, is_training, Options(**values))


def _sizes() -> tuple[int, ...]:
    """Return --matryoshka_dims as numbers."""
    for text in FLAGS.matryoshka_dims:
        if not (text.strip().isdecimal() and 0 < len(text) < 10 and int(text)):
            raise UserError(
                f"--matryoshka_dims: {text!r} is not a size of at least 1"
            )
    return tuple(map(int, FLAGS.matryoshka_dims))


def check_flags() -> None:
    """Check what can be checked before any file is read."""
    finetuning_flags.check(FLAGS)
    _sizes()
    for flag, needed in _NEEDED.items():
        if FLAGS[flag].value and not any(FLAGS[name].value for name in needed):
            raise UserError(f"--{flag} needs --{' or --'.join(needed)}")
    for name in ("train_file", "dev_file", "test_file"):
        if FLAGS[name].value and not file_system.exists(FLAGS[name].value):
            raise UserError(f"--{name}={FLAGS[name].value} does not exist")
    folder = FLAGS.retrieval_dir
    if folder and not file_system.is_directory(folder):
        raise UserError(f"--retrieval_dir={folder} is not a directory")
    if FLAGS.bilstm_layers:
        raise UserError(
            "--bilstm_layers: sentence vectors are pooled from the encoder; "
            "leave the flag out"
        )
    if FLAGS.embedding_size and FLAGS.do_train:
        raise UserError(
            "--embedding_size is for scores and vectors: to train vectors that "
            "can be cut, give --matryoshka_dims"
        )
    if FLAGS.teacher_checkpoint and FLAGS.matryoshka_dims:
        raise UserError(
            "--matryoshka_dims is for pairs: the vectors of "
            "--teacher_checkpoint have one size"
        )


if __name__ == "__main__":
    script.run(main)
