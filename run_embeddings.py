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
    query, pos, neg                    all texts of the batch
    sentence1, sentence2, gold_label   the same: --label_column=gold_label
    any texts                          a teacher's vectors:
                                       --teacher_answers

A model of sentence-transformers keeps its pooling, length, prompts and
normalization; without --do_train any BERT is scored.
"""

from base import script, startup
from base.flags import define, read

from absl import flags, logging

from checkpoints.model import Checkpoint
from finetuning import flags as finetuning_flags
from finetuning.flags import Work
from tasks.embeddings.data import Columns
from tasks.embeddings.flags import Learning, Options
from tasks.embeddings.task import Prompts
from tasks.long_texts import LongTextFlags
from tasks.settings import RunSettings

FLAGS = flags.FLAGS

finetuning_flags.define(
    ("train_file", "dev_file or retrieval_dir", "test_file"),
    {"eval_batch_size": 32},
    without=("bilstm_layers", "bilstm_units"),  # vectors are pooled
    what_is_cut="Largest number of tokens of a text; longer texts are cut.",
    score_on="dev_file and retrieval_dir",
    predict_on="test_file: the vectors of its texts, in embeddings.jsonl",
    rows="Texts",
)

define(LongTextFlags)
define(Options)
define(Columns)
define(Learning)
define(Prompts)


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    finetuning_flags.check_flags(FLAGS)
    with startup.importing():
        from finetuning import runner

    return runner.run_script(FLAGS, __file__, create_work)


def create_work(settings: RunSettings, source: Checkpoint) -> Work:
    """Return the job the flags describe, its files read and checked."""
    from tasks.embeddings.job import EmbeddingsJob

    options = read(
        Options,
        FLAGS,
        columns=read(Columns, FLAGS),
        learning=read(Learning, FLAGS),
        prompts=read(Prompts, FLAGS),
    )
    wrapper, similarity, why = None, None, "which the losses use"
    is_taught = settings.do_train and options.teacher_answers
    if is_taught:
        # Only runs that ask for an extra import it.
        from extras.distillation import vectors

        similarity = vectors.similarity_of(options.teacher_answers)
        why = "as its teacher"
    before = source.trained_for.similarity_fn_name
    if settings.do_train and similarity != before:
        logging.warning(
            "The model compares vectors by similarity_fn_name %s. It is "
            "trained for %s, %s, and written with that",
            *(before or "cosine", similarity or "cosine", why),
        )
        source = source.changed(similarity_fn_name=similarity)
    job = EmbeddingsJob(settings, source, options)
    if is_taught:
        wrapper = vectors.VectorDistillation(job)
    return Work(job, wrapper)


if __name__ == "__main__":
    script.run(main)
