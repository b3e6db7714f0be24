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
from tools.reproduction.tasks import (
    NER_FEATURES,
    SQUAD,
    SQUAD_2,
    TASKS,
    TRIVIAQA,
)

FIRST_SEED = 12345  # the default of the scripts
SEEDS_BETWEEN_RESTARTS = 1000  # fine-tuning run r has 1000 (r - 1) more

# What replaces the predicted tokens, in percent: [MASK], the same, random.
STANDARD = "80-10-10"
DEFAULT_OBJECTIVE = "mlm_nsp"  # of run_pretraining.py
CURVES = (DEFAULT_OBJECTIVE, "ltr")  # of Figure 5
ONE_WAY = ("ltr", "rtl")  # predict every token

# Kinds of steps: the first part of their names. Training on TriviaQA is of the
# kind pretraining, so that its weights are kept.
RECORDS, PRETRAINING, FINETUNING = "records", "pretraining", "finetuning"

# Flags of what the user gives steps to read, beside the data of tasks.
TEXT, HELD_OUT, VOCABULARY = "input_file", "held_out_file", "vocab_file"


class Step(NamedTuple):
    """One command; its name is the path of its output."""

    number: int  # in the plan, from 1
    name: str
    script: str  # file name
    flags: dict[str, str | bool]  # may have placeholders; True: no value
    after: tuple[str, ...] = ()  # names of steps to be finished before
    reads: tuple[str, ...] = ()  # a task, or TEXT, HELD_OUT, VOCABULARY
    config: Mapping[str, Any] = {}  # the content of --bert_config_file

    @property
    def kind(self) -> str:
        """Return the first part of its name."""
        return self.name.partition("/")[0]


class Pretrained(NamedTuple):
    """A pre-trained model: what tells it from others of the same scale."""

    size: Size
    num_train_steps: int
    objective: str = DEFAULT_OBJECTIVE
    masking: str = STANDARD
    seed: int = 1  # from 1
    is_shuffled: bool = False  # its text is sentences in random order
    checkpoint: str = ""  # --init_checkpoint; then only the seed matters

    @property
    def name(self) -> str:
        """Return the folder of its checkpoints."""
        if self.checkpoint:
            return f"pretraining/given/seed{self.seed}"
        rate = self.size.learning_rate
        own_rate = f"_lr{rate:g}" if rate else ""
        return (
            f"pretraining/{self.objective}_{self.size.name}{own_rate}_mask"
            f"{self.masking}_steps{self.num_train_steps}"
            f"{'_shuffled' * self.is_shuffled}/seed{self.seed}"
        )

    @property
    def random_seed(self) -> int:
        """Return the value of the scripts' flag."""
        return FIRST_SEED + self.seed - 1


class Row(NamedTuple):
    """A row of a table, or a point of Figure 5."""

    label: str  # the paper's
    model: Pretrained | None = None  # of the first seed
    variant: str = ""  # of fine-tuning, part of the folder's name
    flags: str = ""  # of fine-tuning, added to the command
    after_triviaqa: bool = False  # fine-tuning begins with it
    task: str = ""  # of the fine-tuning in every column; "" for the column's
    is_ensemble: bool = False  # the runs of a seed answer together
    second: Pretrained | None = None  # a run answers together with one of it
    step: int = 0  # of pre-training (Figure 5); 0: the last one
    curve: str = ""  # its name (Figure 5)


class Plan:
    """Steps in the order in which one machine runs them.

    The methods add a step after the steps that it needs, unless it is there,
    and return its name. `given` has HELD_OUT and VOCABULARY, if the user gives
    them.
    """

    def __init__(self, scale: Scale, given: Collection[str] = ()):
        self.scale, self.given = scale, given
        self.steps: dict[str, Step] = {}  # by name
        # Of pre-training. Operations are those of layers and output matrix.
        self.num_train_steps, self.operations = 0, 0.0
        self._casing = "--do_lower_case=false"  # else the vocabulary says it
        if scale.corpus.do_lower_case:
            self._casing = ""

    def read_by_steps(self) -> list[str]:
        """Return the tasks and the kinds of text that steps read."""
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
        if self.steps.setdefault(name, step).flags != flags:
            raise ValueError(f"two commands are called {name}")
        return name

    def text(self, part: str) -> tuple[str, str]:
        """Add the step that makes `part`: train, shuffled or held_out.

        Returns the pattern of its files, and the name of the step, "" if the
        user gives the text.
        """
        corpus, share = self.scale.corpus, ""
        if HELD_OUT not in self.given:
            share = f"--heldout_fraction={corpus.held_out_share:g}"
        elif part == "held_out":
            return "$held_out_file", ""
        name = self._add(
            "corpus",
            "prepare_corpus.py --input_file=$input_file "
            f"--output_dir=$work_dir/corpus --language={corpus.language} "
            "--document_separator=blank_line --line_breaks=keep "
            f"--num_shards={corpus.num_record_files} {share}",
            reads=[TEXT],
        )
        if part == "held_out":
            return "$work_dir/corpus/heldout/heldout-*", name
        train, path = "$work_dir/corpus/train-*", "$work_dir/shuffled.txt"
        if part == "train":
            return train, name
        return path, self._add(
            "shuffled.txt",
            "tools/reproduction/shuffle_sentences.py "
            f"--input_file={train} --output_file={path}",
            [name],
        )

    def vocabulary(self) -> str:
        """Add the step that learns the vocabulary; "" if one is given."""
        if VOCABULARY in self.given:
            return ""
        pattern, after = self.text("train")
        return self._add(
            "vocab.txt",
            f"build_vocab.py --input_file={pattern} "
            "--output_file=$work_dir/vocab.txt "
            f"--vocab_size={self.scale.corpus.vocab_size} {self._casing}",
            [after],
        )

    def records(self, length: int, masking: str, part: str) -> str:
        """Add the step that makes records of a length and a masking.

        `part` is the part of the text: train, shuffled or held_out.
        """
        corpus, is_held_out = self.scale.corpus, part == "held_out"
        pattern, after = self.text(part)
        vocabulary = self.vocabulary()
        reads = [HELD_OUT] if is_held_out and not after else []
        name = f"records/{part}_length{length}_mask{masking}"
        files, factor = corpus.num_record_files, corpus.dupe_factor
        if is_held_out:
            files, factor = 1, corpus.held_out_dupe_factor
        mask, _, random = (int(share) / 100 for share in masking.split("-"))
        return self._add(
            name,
            f"create_pretraining_data.py --input_file={pattern} "
            f"--output_file=$work_dir/{name}/{part}.tfrecord@{files} "
            f"--vocab_file=$vocab_file {self._casing} {self._lengths(length)} "
            f"--masked_lm_prob={corpus.masked_lm_prob:g} "
            f"--mask_token_prob={mask:g} "
            f"--random_token_prob={random:g} --dupe_factor={factor}",
            [after, vocabulary],
            reads if vocabulary else [*reads, VOCABULARY],
        )

    def pretraining(self, model: Pretrained) -> str:
        """Add the phases of a model; return the name of the last one.

        A model of --init_checkpoint has no phase; its name is "".
        """
        if model.checkpoint:
            return ""
        scale, given, size = self.scale, self.scale.pretraining, model.size
        num_steps = model.num_train_steps
        config = {
            "attention_probs_dropout_prob": scale.model.dropout,
            "hidden_act": "gelu",
            "hidden_dropout_prob": scale.model.dropout,
            "hidden_size": size.hidden_size,
            "initializer_range": scale.model.initializer_range,
            "intermediate_size": 4 * size.hidden_size,
            "max_position_embeddings": scale.model.max_position_embeddings,
            "num_attention_heads": size.num_attention_heads,
            "num_hidden_layers": size.num_hidden_layers,
            "type_vocab_size": 2,
            "vocab_size": scale.corpus.vocab_size,
        }
        # Figure 5 needs the weights of earlier steps of these models. They are
        # kept without Figure 5 too. Else adding it would change the command,
        # which would have to run again.
        is_curve = model.objective in CURVES and model == model._replace(
            size=scale.size,
            masking=STANDARD,
            num_train_steps=scale.steps("table5"),
        )
        part = "shuffled" if model.is_shuffled else "train"
        last, first = "", 0
        for index, end in enumerate(phase_ends(scale, num_steps)):
            if end == first:
                continue  # a share of less than a step
            length, batch_size, _ = given.phases[index]
            name = f"{model.name}/phase{index + 1}"
            records, held_out = self.records(length, model.masking, part), ""
            more = f"--resume_from=$work_dir/{last} " if last else ""
            at_end = f"--stop_after_steps={end}"
            if end == num_steps:
                held_out = self.records(length, STANDARD, "held_out")
                at_end = (
                    "--do_eval "
                    f"--eval_input_file=$work_dir/{held_out}/*.tfrecord-* "
                    f"--eval_batch_size={given.eval_batch_size} "
                    f"--max_eval_steps={given.max_eval_steps}"
                )
            kept = [n for n in kept_steps(scale) if first < n < end]
            if is_curve and kept:
                at_end += f" --keep_steps={','.join(map(str, kept))}"
            if name not in self.steps:
                self._count(model, end - first, batch_size * length)
            rate = size.learning_rate or given.learning_rate
            warmup = round(given.warmup_proportion * num_steps)
            last = self._add(
                name,
                "run_pretraining.py --do_train "
                f"--bert_config_file=$work_dir/configs/{size.name}.json "
                "--vocab_file=$vocab_file "
                f"--input_file=$work_dir/{records}/*.tfrecord-* "
                f"--output_dir=$work_dir/{name} "
                f"--objective={model.objective} "
                f"{self._lengths(length)} --train_batch_size={batch_size} "
                f"--learning_rate={rate:g} --num_train_steps={num_steps} "
                f"--num_warmup_steps={warmup} "
                f"--random_seed={model.random_seed} "
                f"--save_checkpoints_steps={given.save_checkpoints_steps} "
                "--keep_checkpoint_max=1 "
                f"--bias_correction={given.bias_correction} "
                f"--dtype={scale.dtype} {more}{at_end} "
                f"{shlex.join(given.flags)}",
                [records, held_out, last],
                config=config,
            )
            first = end
        return last

    def _count(self, model: Pretrained, num_steps: int, num_tokens: int):
        """Count steps of pre-training, each of so many tokens."""
        corpus, (layers, width, *_) = self.scale.corpus, model.size
        # Forwards 2 for each token and parameter, backwards 4. The output
        # matrix is for predicted tokens alone.
        share = 1.0 if model.objective in ONE_WAY else corpus.masked_lm_prob
        parameters = (12 * layers * width + share * corpus.vocab_size) * width
        self.num_train_steps += num_steps
        self.operations += 6 * num_steps * num_tokens * parameters

    def finetuning(
        self,
        model: Pretrained,
        task: str,
        row: Row,
        restart: int = 1,
    ) -> str:
        """Add the step that fine-tunes a model on a task, and scores it.

        The model is that of the row, or differs from it. Each restart, counted
        from 1, has another seed.
        """
        own, given = TASKS[task], self.scale.for_task(task)
        checkpoint, after = checkpoint_of(model, self.scale, row.step)
        begin = model.name if model.checkpoint else checkpoint
        name = begin.replace("pretraining/", "finetuning/", 1)
        name += f"{row.variant and '/'}{row.variant}/{task}/run{restart}"
        if task == TRIVIAQA:
            name = f"{model.name}/{task}"
        if row.after_triviaqa:
            checkpoint = after = self.finetuning(model, TRIVIAQA, Row(""))
        if checkpoint != model.checkpoint:
            checkpoint = f"$work_dir/{checkpoint}"
        rates = given.learning_rates
        rate = "sweep_learning_rates" if len(rates) > 1 else "learning_rate"
        seed = model.random_seed + SEEDS_BETWEEN_RESTARTS * (restart - 1)
        is_squad, is_frozen = (
            task in (SQUAD, SQUAD_2, TRIVIAQA),
            task == NER_FEATURES,
        )
        more = f"--doc_stride={given.doc_stride} " * is_squad
        more += f"--lstm_units={given.lstm_units} " * is_frozen
        if own.scores:
            what = "predict" if is_squad else "eval"
            # Activations are kept beside the records under one name for every
            # encoder, and records depend on the vocabulary: another encoder
            # must not read them.
            records = "records/given" if model.checkpoint else "records"
            records = f"{name}/records" if is_frozen else f"{records}/{task}"
            more += (
                f"--do_eval --{what}_batch_size={given.eval_batch_size} "
                f"--records_dir=$work_dir/{records} "
            )
        return self._add(
            name,
            f"{own.command} --do_train "
            f"--init_checkpoint={shlex.quote(checkpoint)} "
            f"--output_dir=$work_dir/{name} "
            f"{'' if model.checkpoint else self._casing} "
            f"--max_seq_length={given.max_seq_length} "
            f"--train_batch_size={given.train_batch_size} "
            f"--{rate}={','.join(f'{own:g}' for own in rates)} "
            f"--num_train_epochs={given.num_train_epochs:g} "
            f"--random_seed={seed} --keep_checkpoint_max=1 "
            f"--bias_correction={given.bias_correction} "
            f"--dtype={self.scale.dtype} {more} {row.flags} "
            f"{shlex.join(given.flags)}",
            [after],
            [task],
        )

    def ensemble(self, runs: Sequence[str]) -> str:
        """Add the step that answers SQuAD with the mean logits of runs.

        These are all runs of one model, or one run of each of two models.
        """
        first, last = (self.steps[runs[n]] for n in (0, -1))
        name = f"{os.path.dirname(first.name)}/ensemble{len(runs)}"
        if os.path.dirname(last.name) != os.path.dirname(first.name):
            name = f"{first.name}_and_{last.name.split('/')[1]}"
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
        share = self.scale.corpus.masked_lm_prob
        predictions = math.ceil(round(length * share, 6))
        return (
            f"--max_seq_length={length} --max_predictions_per_seq={predictions}"
        )


def kept_steps(scale: Scale) -> list[int]:
    """Return the pre-training steps of Figure 5, the last one included."""
    count = scale.steps("table5")
    found = {max(1, round(share * count)) for share in scale.figure5.shares}
    return sorted({*found, count})


def phase_ends(scale: Scale, num_train_steps: int) -> list[int]:
    """Return the last step of each phase; phases of no step repeat it."""
    shares = itertools.accumulate(p.share for p in scale.pretraining.phases)
    ends = [round(share * num_train_steps) for share in shares]
    return [*ends[:-1], num_train_steps]


def checkpoint_of(
    model: Pretrained, scale: Scale, step: int
) -> tuple[str, str]:
    """Return where the weights of a step are, and the name of their Step.

    The weights of --init_checkpoint have no Step; its name is "".
    """
    if model.checkpoint:
        return model.checkpoint, ""
    ends = phase_ends(scale, model.num_train_steps)
    step = step or ends[-1]
    phase = next(n for n, end in enumerate(ends, 1) if end >= step)
    folder = f"{model.name}/phase{phase}"
    is_end = step == ends[phase - 1]
    return folder if is_end else f"{folder}/step-{step}", folder
