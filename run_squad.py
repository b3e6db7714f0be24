r"""Fine-tune BERT on SQuAD; answer questions, score the answers.

    python run_squad.py --train_file=train-v1.1.json \
        --predict_file=dev-v1.1.json --init_checkpoint=uncased_L-12_H-768_A-12 \
        --do_train --do_predict --do_eval --output_dir=squad_out \
        --learning_rate=3e-5 --num_train_epochs=2 --train_batch_size=12

writes `predictions.json`, `nbest_predictions.json` and `eval_results.txt` with
the exact match and F1 of SQuAD's official script. For SQuAD 2.0 give
--version_2_with_negative, and --tune_null_threshold to find the threshold for
"no answer" with the best F1. The logits are kept: the same command with another
--null_score_diff_threshold, --n_best_size or --max_answer_length does not run
the model again. After an interruption, the same command resumes the run.
--do_export writes a SavedModel, too.

Usual choices: --max_seq_length, --doc_stride, --random_seed, --dtype=bfloat16
where the processor has it.

This command runs no model, and combines several runs:

    python run_squad.py --predict_file=dev.json --ensemble_dirs=a,b,c \
        --output_dir=together --do_predict --do_eval

To train on TriviaQA first, give its files as --train_file and its documents as
--triviaqa_evidence_dir. Then train on SQuAD with the output_dir of that run as
--init_checkpoint.
"""

import dataclasses

from base import lazy, script, startup
from base.flags import define, flag, read

from absl import flags

from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from finetuning import flags as finetuning_flags
from finetuning.flags import Work
from tasks.settings import DistillationFlags, RunSettings
from tasks.squad import windows as squad_windows
from tasks.squad.decoding import AnswerOptions
from tasks.squad.flags import Options
from tasks.squad.windows import Lengths

FLAGS = flags.FLAGS

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.run_squad")

finetuning_flags.define(
    ("train_file", "predict_file", "predict_file"),
    {"max_seq_length": 384},
    without=("eval_batch_size",),
    what_is_cut="Largest number of tokens of question and paragraph in a "
    "window; longer paragraphs are read through several windows that overlap.",
    rows="Windows",
    and_of=", --do_eval and --eval_steps",
)


@dataclasses.dataclass(frozen=True)
class Flags:
    """The flags that the job of training and answering does not read."""

    verbose_logging: bool = flag(False)
    """Ignored; the original logs the answers whose text it cannot locate in the
    paragraph. Here the place of every answer is known."""

    ensemble_dirs: tuple[str, ...] = flag(
        (),
        exists="directory",
        needs={"predict_file": "", "output_dir": ""},
        excludes=dict.fromkeys(
            ("do_train", "do_export", "eval_steps", "teacher_answers"),
            "it runs no model",
        ),
    )
    """Answer with the mean of the logits in these output directories, whose
    runs have read the same windows; runs no model."""


define(Flags)
define(Options)
define(Lengths)
define(AnswerOptions)
define(DistillationFlags, without=("learn_all_answers",))


def main(_: list[str]) -> int:
    """Train, answer, score and export; return the exit status."""
    if not FLAGS.ensemble_dirs:
        finetuning_flags.check_flags(FLAGS)
    with startup.importing():
        from finetuning import runner
    if FLAGS.ensemble_dirs:
        return answer_together()
    return runner.run_script(FLAGS, __file__, create_work)


def create_work(settings: RunSettings, source: Checkpoint) -> Work:
    """Return the job the flags describe, its files read and checked."""
    from tasks.squad.job import SquadJob

    length, query = source.max_seq_length, FLAGS.max_query_length
    if not FLAGS["max_query_length"].present:
        query = squad_windows.query_length(length)
    options = read(
        Options,
        FLAGS,
        lengths=Lengths(length, FLAGS.doc_stride, query),
        answers=read(
            AnswerOptions, FLAGS, ignore_padding=not FLAGS.pad_to_max_length
        ),
    )
    job, wrapper = SquadJob(settings, source, options), None
    learned = read(DistillationFlags, FLAGS)
    if settings.do_train and learned.teacher_answers:
        # Only runs that ask for an extra import it.
        from extras.distillation.spans import SpanDistillation

        wrapper = SpanDistillation(job, learned)
    return Work(job, wrapper)


def answer_together() -> int:
    """Answer with --ensemble_dirs; return the exit status.

    With --do_eval the answers are scored too.
    """
    from extras import mistakes
    from tasks.fine_tuned import read_source
    from tasks.squad import answers as squad_answers
    from training import reporting

    folders, output_dir = FLAGS.ensemble_dirs, FLAGS.output_dir
    settings = finetuning_flags.read_settings(FLAGS, RunFolder.read(output_dir))
    squad_answers.check_folders(folders, output_dir)
    prefix = squad_answers.find_model(folders, FLAGS.init_checkpoint)
    job = create_work(settings, read_source(settings, prefix)).job
    answered = job.answer_together(folders)
    if FLAGS.do_eval:
        data = job.questions.data
        results = answered.scores(data)
        if answered.sign_of_failure(data):
            results["degenerate"] = 1
        reporting.write_results(output_dir, results, step=0)
        found = mistakes.wrong_answers(data, answered.chosen)
        mistakes.write_errors(settings, found)
        reporting.log_results(
            reporting.results_path(output_dir),
            results,
            "Evaluation results of predict_file",
        )
    return 0


if __name__ == "__main__":
    script.run(main)
