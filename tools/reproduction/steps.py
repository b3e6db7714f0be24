"""The steps of a scale: text, vocabulary, records, pre-training, fine-tuning.

A step is one command. Its name is the path of its output below the work
directory, and follows from everything that tells the command from others. Two
tables that need the same model therefore name the same step, and the model is
trained once. In flags, $work_dir and the names of the flags of data stand for
paths, so that a step stays the same when files are moved.
"""

import itertools
import math
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tools.reproduction.scales import Scale, Size
from tools.reproduction.tasks import NER_FEATURES, SQUAD, TASKS, TRIVIAQA

FIRST_SEED = 12345  # the default of the scripts
SEEDS_BETWEEN_RESTARTS = 1000  # fine-tuning run r has 1000 (r - 1) more

# What replaces the predicted tokens, in percent: [MASK], the same, random.
STANDARD = "80-10-10"
DEFAULT_OBJECTIVE = "mlm_nsp"  # of run_pretraining.py

# Begins the names of fine-tuning, whose weights are removed. Training on
# TriviaQA is below pretraining/, so that its weights are kept.
FINETUNING = "finetuning/"


class Step(NamedTuple):
    """One command; its name is the path of its output."""

    number: int  # in the plan, from 1
    name: str
    script: str  # file name
    flags: dict[str, str | bool]  # may have placeholders; True: no value
    after: tuple[str, ...] = ()  # names of steps to be finished before
    reads: tuple[str, ...] = ()  # patterns of the user's files
    config: Mapping[str, Any] = {}  # the content of --bert_config_file


class Row(NamedTuple):
    """A row of a table, or a point of Figure 5: a model, how it is fine-tuned.

    Of a model of --init_checkpoint, what is said of pre-training is not used.
    """

    label: str  # the paper's
    size: Size
    objective: str = DEFAULT_OBJECTIVE
    masking: str = STANDARD
    checkpoint: str = ""  # --init_checkpoint
    variant: str = ""  # of fine-tuning, part of the folder's name
    flags: str = ""  # of fine-tuning, added to the command
    after_triviaqa: bool = False  # fine-tuning begins with it
    task: str = ""  # of the fine-tuning in every column; "" for the column's
    is_ensemble: bool = False  # the runs of a seed answer together
    step: int = 0  # of pre-training (Figure 5); 0: the last one


class Plan:
    """Steps in the order in which one machine runs them.

    The methods add a step to `steps`, and before it those that it needs, and
    return its name. `data` has the flags of what the user gives to read.
    """

    def __init__(self, scale: Scale, data: Collection[str]):
        self.scale, self._data = scale, data
        self.steps: dict[str, Step] = {}  # by name
        self._corpus = scale.table("corpus")
        # Of uncased models the vocabulary says it.
        is_cased = not self._corpus.do_lower_case
        self._casing = "--do_lower_case=false" * is_cased

    def reads(self) -> list[str]:
        """Return the patterns of the user's files that steps read."""
        every = (own for step in self.steps.values() for own in step.reads)
        return list(dict.fromkeys(every))

    def _add(
        self,
        name: str,
        command: str,
        after: Sequence[str] = (),
        reads: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
    ) -> str:
        """Add a step. Of two equal flags the last one counts."""
        script, *words = shlex.split(command)
        pairs = [word.lstrip("-").partition("=") for word in words]
        flags = {key: value or True for key, _, value in pairs}
        own = tuple(filter(None, after)), tuple(reads), config or {}
        step = Step(len(self.steps) + 1, name, script, flags, *own)
        self.steps.setdefault(name, step)
        return name

    def corpus(self) -> str:
        """Add the step that divides the text into training and held-out."""
        corpus, share = self._corpus, ""
        if "held_out_file" not in self._data:
            share = f"--heldout_fraction={corpus.held_out_share:g}"
        return self._add(
            "corpus",
            "prepare_corpus.py --input_file=$input_file "
            f"--output_dir=$work_dir/corpus --language={corpus.language} "
            "--document_separator=blank_line --line_breaks=keep "
            f"--num_shards={corpus.num_record_files} {share}",
            reads=["$input_file"],
        )

    def vocabulary(self) -> str:
        """Add the step that learns the vocabulary; "" if one is given."""
        if "vocab_file" in self._data:
            return ""
        return self._add(
            "vocab.txt",
            "build_vocab.py --input_file=$work_dir/corpus/train-* "
            "--output_file=$work_dir/vocab.txt "
            f"--vocab_size={self._corpus.vocab_size} {self._casing}",
            [self.corpus()],
        )

    def records(self, length: int, masking: str, part: str = "train") -> str:
        """Add the step that makes records of a part: train or held_out."""
        corpus, text = self._corpus, "$work_dir/corpus/train-*"
        files, factor = corpus.num_record_files, corpus.dupe_factor
        if part == "held_out":
            text = "$work_dir/corpus/heldout/heldout-*"
            files, factor = 1, corpus.held_out_dupe_factor
            if "held_out_file" in self._data:
                text = "$held_out_file"
        given = [p for p in (text, "$vocab_file") if p[1:] in self._data]
        name = f"records/{part}_length{length}_mask{masking}"
        mask, _, random = (int(share) / 100 for share in masking.split("-"))
        return self._add(
            name,
            f"create_pretraining_data.py --input_file={text} "
            f"--output_file=$work_dir/{name}/{part}.tfrecord@{files} "
            f"--vocab_file=$vocab_file {self._casing} {self._lengths(length)} "
            f"--masked_lm_prob={corpus.masked_lm_prob:g} "
            f"--mask_token_prob={mask:g} "
            f"--random_token_prob={random:g} --dupe_factor={factor}",
            [self.corpus(), self.vocabulary()],
            given,
        )

    def _folder(self, row: Row, seed: int) -> str:
        """Return the folder of the checkpoints of a row's model."""
        if row.checkpoint:
            return f"pretraining/given/seed{seed}"
        return (
            f"pretraining/{row.objective}_{row.size.name}_mask{row.masking}"
            f"_steps{self.scale['pretraining.num_train_steps']}/seed{seed}"
        )

    def pretraining(self, row: Row, seed: int) -> str:
        """Add the phases of a row's model; return the name of the last one.

        A model of --init_checkpoint has no phase; its name is "".
        """
        if row.checkpoint:
            return ""
        scale, size = self.scale, row.size
        given, model = scale.table("pretraining"), vars(scale.table("model"))
        dropout, num_steps = model.pop("dropout"), given.num_train_steps
        config = {
            **model,
            **size._asdict(),
            "attention_probs_dropout_prob": dropout,
            "hidden_act": "gelu",
            "hidden_dropout_prob": dropout,
            "intermediate_size": 4 * size.hidden_size,
            "type_vocab_size": 2,
            "vocab_size": self._corpus.vocab_size,
        }
        # Figure 5 needs the weights of earlier steps. They are kept without it
        # too. Else adding it would change the command, which would have to run
        # again.
        kept = kept_steps(scale)
        if size != scale.size or row.masking != STANDARD:
            kept = []
        last, first = "", 0
        for index, end in enumerate(phase_ends(scale)):
            if end == first:
                continue  # a share of less than a step
            phase = given.phases[index]
            length = phase["max_seq_length"]
            name = f"{self._folder(row, seed)}/phase{index + 1}"
            records = self.records(length, row.masking, "train")
            held_out = ""
            more = f"--resume_from=$work_dir/{last} " if last else ""
            if end < num_steps:
                more += f"--stop_after_steps={end} "
            else:
                held_out = self.records(length, STANDARD, "held_out")
                more += (
                    "--do_eval "
                    f"--eval_input_file=$work_dir/{held_out}/*.tfrecord-* "
                    f"--eval_batch_size={given.eval_batch_size} "
                    f"--max_eval_steps={given.max_eval_steps} "
                )
            if own := [str(step) for step in kept if first < step < end]:
                more += f"--keep_steps={','.join(own)} "
            warmup = round(given.warmup_proportion * num_steps)
            last = self._add(
                name,
                "run_pretraining.py --do_train "
                f"--bert_config_file=$work_dir/configs/{size.name}.json "
                "--vocab_file=$vocab_file "
                f"--input_file=$work_dir/{records}/*.tfrecord-* "
                f"--output_dir=$work_dir/{name} --objective={row.objective} "
                f"{self._lengths(length)} "
                f"--train_batch_size={phase['train_batch_size']} "
                f"--learning_rate={given.learning_rate:g} "
                f"--num_train_steps={num_steps} --num_warmup_steps={warmup} "
                f"--random_seed={FIRST_SEED + seed - 1} "
                f"--save_checkpoints_steps={given.save_checkpoints_steps} "
                "--keep_checkpoint_max=1 "
                f"--bias_correction={given.bias_correction} "
                f"--dtype={scale['dtype']} {more}{shlex.join(given.flags)}",
                [records, held_out, last],
                config=config,
            )
            first = end
        return last

    def finetuning(self, row: Row, task: str, seed: int, restart: int) -> str:
        """Add the step that fine-tunes a row's model, and scores it.

        Each restart, counted from 1, has a seed of its own.
        """
        # TriviaQA has the values of SQuAD.
        given = self.scale.for_task(SQUAD if task == TRIVIAQA else task)
        begin, after = self._folder(row, seed), self.pretraining(row, seed)
        checkpoint, records = shlex.quote(row.checkpoint), "records/given"
        if after:
            begin, after = self._weights(row, seed)
            checkpoint, records = f"$work_dir/{begin}", "records"
        name = begin.replace("pretraining/", FINETUNING, 1)
        name += f"{row.variant and '/'}{row.variant}/{task}/run{restart}"
        rates, rate = given.learning_rates, "sweep_learning_rates"
        if task == TRIVIAQA:  # no score chooses among several rates
            name, rates = f"{self._folder(row, seed)}/{task}", rates[:1]
        if len(rates) == 1:
            rate = "learning_rate"
        if row.after_triviaqa:
            first = row._replace(after_triviaqa=False)
            after = self.finetuning(first, TRIVIAQA, seed, 1)
            checkpoint = f"$work_dir/{after}"
        # Activations are kept beside the records under one name for every
        # encoder, and records depend on the vocabulary: another encoder must
        # not read them.
        records = f"{records}/{task}"
        if task == NER_FEATURES:
            records = f"{name}/records"
        random_seed = FIRST_SEED + seed - 1
        random_seed += SEEDS_BETWEEN_RESTARTS * (restart - 1)
        return self._add(
            name,
            f"{TASKS[task].command.format(**vars(given))} --do_train "
            f"--init_checkpoint={checkpoint} --output_dir=$work_dir/{name} "
            f"--records_dir=$work_dir/{records} "
            f"{'' if row.checkpoint else self._casing} "
            f"--max_seq_length={given.max_seq_length} "
            f"--train_batch_size={given.train_batch_size} "
            f"--{rate}={','.join(f'{own:g}' for own in rates)} "
            f"--num_train_epochs={given.num_train_epochs:g} "
            f"--random_seed={random_seed} --keep_checkpoint_max=1 "
            f"--bias_correction={given.bias_correction} "
            f"--dtype={self.scale['dtype']} {row.flags} "
            f"{shlex.join(given.flags)}",
            [after],
            [TASKS[task].reads],
        )

    def _weights(self, row: Row, seed: int) -> tuple[str, str]:
        """Return where the weights of a row are, and the name of their step."""
        ends = phase_ends(self.scale)
        step = row.step or ends[-1]
        phase = next(n for n, end in enumerate(ends, 1) if end >= step)
        name = f"{self._folder(row, seed)}/phase{phase}"
        is_end = step == ends[phase - 1]
        return name if is_end else f"{name}/step-{step}", name

    def ensemble(self, runs: Sequence[str]) -> str:
        """Add the step that answers SQuAD with the mean logits of runs."""
        first = self.steps[runs[0]]
        name = f"{os.path.dirname(first.name)}/ensemble{len(runs)}"
        # init_checkpoint has the vocabulary; the runs lose their weights.
        own = ("predict_file", "doc_stride", "init_checkpoint")
        own += ("do_lower_case", "max_seq_length")
        same = shlex.join(
            f"--{k}={first.flags[k]}" for k in own if k in first.flags
        )
        return self._add(
            name,
            "run_squad.py --do_predict --do_eval --ensemble_dirs="
            f"{','.join(f'$work_dir/{run}' for run in runs)} "
            f"--output_dir=$work_dir/{name} {same}",
            runs,
            first.reads,
        )

    def _lengths(self, length: int) -> str:
        """Return the flags of the length of records."""
        # 20 of 128 tokens are predicted, 77 of 512 at 0.15.
        share = self._corpus.masked_lm_prob
        predictions = math.ceil(round(length * share, 6))
        return (
            f"--max_seq_length={length} --max_predictions_per_seq={predictions}"
        )


def kept_steps(scale: Scale) -> list[int]:
    """Return the pre-training steps of Figure 5, the last one included."""
    count = scale["pretraining.num_train_steps"]
    found = {max(1, round(share * count)) for share in scale["figure5.shares"]}
    return sorted({*found, count})


def phase_ends(scale: Scale) -> list[int]:
    """Return the last step of each phase; phases of no step repeat it."""
    given = scale.table("pretraining")
    shares = [phase["share"] for phase in given.phases]
    ends = itertools.accumulate(shares)
    return [round(end / sum(shares) * given.num_train_steps) for end in ends]
