"""The steps of a scale: vocabulary, records, pre-training, fine-tuning.

A step is one command line. Its name follows from everything that its command
depends on, and it is the path of its output: a model that two tables need has
one name, so it is trained once. Paths are written with placeholders, {work_dir}
and those of the data, so that a step does not depend on how a command writes
its paths.
"""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.scales import Finetuning, Phase, Scale, Size

# The seed of the scripts' own default is that of the first run.
FIRST_SEED = 12345
# Fine-tuning run r of a model: 1000 (r - 1) more than the model's seed.
SEEDS_BETWEEN_RESTARTS = 1000

# What replaces the predicted tokens, in percent: [MASK], the same, random.
Masking = tuple[int, int, int]
STANDARD: Masking = (80, 10, 10)
DEFAULT_OBJECTIVE = "mlm_nsp"  # of run_pretraining.py
CURVES = (DEFAULT_OBJECTIVE, "ltr")  # of Figure 5
ONE_WAY = ("ltr", "rtl")  # predict every token

# Kinds of steps; the last two write scores. A model trained on TriviaQA is one
# of the third: its weights stay.
VOCABULARY, RECORDS = "vocab.txt", "records"
PRETRAINING, FINETUNING = "pretraining", "finetuning"
KINDS = (VOCABULARY, RECORDS, PRETRAINING, FINETUNING)


class Step(NamedTuple):
    """One command; its name is what it writes below the work directory."""

    number: int  # in the plan, from 1
    name: str
    title: str  # what it is for
    script: str  # file name
    flags: dict[str, str | bool]  # may have placeholders; True: no value
    after: tuple[str, ...] = ()  # names of steps to be finished before
    task: str = ""  # that it fine-tunes on

    @property
    def kind(self) -> str:
        """Return which of KINDS it is."""
        return self.name.partition("/")[0]


class Pretrained(NamedTuple):
    """A pre-trained model: what its steps depend on besides the scale."""

    size: Size
    objective: str
    masking: Masking
    num_train_steps: int
    seed: int = 1  # from 1
    is_shuffled: bool = False  # its text is sentences in random order
    checkpoint: str = ""  # of --init_checkpoint: nothing else but seed counts

    @property
    def name(self) -> str:
        """Return the folder of its checkpoints."""
        if self.checkpoint:
            return f"pretraining/given/seed{self.seed}"
        rate = self.size.learning_rate
        own_rate = f"_lr{number(rate)}" if rate else ""
        return (
            f"pretraining/{self.objective}_{self.size.name}{own_rate}_mask"
            f"{masking_name(self.masking, '-')}_steps{self.num_train_steps}"
            f"{'_shuffled' * self.is_shuffled}/seed{self.seed}"
        )

    @property
    def random_seed(self) -> int:
        """Return the value of the scripts' flag."""
        return FIRST_SEED + self.seed - 1

    @property
    def title(self) -> str:
        """Return what tells it from other models."""
        if self.checkpoint:
            return f"{self.checkpoint}, seed {self.seed}"
        return (
            f"{self.objective}, {self.size.name}, masking "
            f"{masking_name(self.masking)}{', shuffled' * self.is_shuffled}, "
            f"seed {self.seed}"
        )


class Variant(NamedTuple):
    """What a row changes about fine-tuning."""

    name: str = ""  # part of the folder's name
    flags: Mapping[str, str | int] = {}  # added to the script's
    begins_with_triviaqa: bool = False


PLAIN = Variant()


class Plan:
    """Steps in the order in which one machine runs them.

    The methods add a step, unless it is there, after all that it needs; they
    return its name. `has_vocab`: a vocabulary is given.
    """

    def __init__(self, scale: Scale, has_vocab: bool):
        self.scale = scale
        self.has_vocab = has_vocab
        self.steps: dict[str, Step] = {}  # by name
        # Of each encoder: path below the work directory -> bert_config.json.
        self.configs: dict[str, dict[str, Any]] = {}
        # Of pre-training, about: those of layers and output matrix.
        self.num_train_steps, self.operations = 0, 0.0

    def tasks(self) -> list[str]:
        """Return the tasks that models are fine-tuned on."""
        found = (step.task for step in self.steps.values())
        return list(dict.fromkeys(filter(None, found)))

    def _add(
        self,
        name: str,
        title: str,
        script: str,
        flags: dict[str, Any],
        after: Sequence[str] = (),
        task: str = "",
    ) -> str:
        """Add a step; a flag that is None has its default."""
        texts = {
            key: number(value) if isinstance(value, float) else str(value)
            for key, value in flags.items()
            if value is not None
        }
        texts |= {key: True for key, value in flags.items() if value is True}
        count = len(self.steps)
        step = Step(count + 1, name, title, script, texts, tuple(after), task)
        if self.steps.setdefault(name, step).flags != texts:
            raise ValueError(f"two commands are called {name}")
        return name

    def vocabulary(self) -> str:
        """Add the step that learns the vocabulary from the training text."""
        return self._add(
            VOCABULARY,
            "Vocabulary of the training text",
            "build_vocab.py",
            {
                "input_file": "{train_text}",
                "output_file": "{work_dir}/vocab.txt",
                "vocab_size": self.scale.corpus.vocab_size,
                "do_lower_case": self._casing(),
            },
        )

    def records(self, length: int, masking: Masking, part: str) -> str:
        """Add the step that makes records of a length and a masking.

        `part` of the text: train, shuffled or held_out.
        """
        corpus, is_held_out = self.scale.corpus, part == "held_out"
        name = f"records/{part}_length{length}_mask{masking_name(masking, '-')}"
        files = 1 if is_held_out else corpus.num_record_files
        mask, _, random = masking
        return self._add(
            name,
            f"Records of corpus/{part}, length {length}, masking "
            f"{masking_name(masking)}",
            "create_pretraining_data.py",
            {
                "input_file": f"{{{part}_text}}",
                "output_file": f"{{work_dir}}/{name}/{part}.tfrecord@{files}",
                "vocab_file": "{vocab_file}",
                "do_lower_case": self._casing(),
                "max_seq_length": length,
                "max_predictions_per_seq": self._predictions(length),
                "masked_lm_prob": corpus.masked_lm_prob,
                "mask_token_prob": mask / 100,
                "random_token_prob": random / 100,
                "dupe_factor": corpus.held_out_dupe_factor
                if is_held_out
                else corpus.dupe_factor,
            },
            [] if self.has_vocab else [self.vocabulary()],
        )

    def pretraining(self, model: Pretrained) -> str:
        """Add the phases of a model; return the name of the last one.

        A model of --init_checkpoint has none: "".
        """
        if model.checkpoint:
            return ""
        given, num_steps = self.scale.pretraining, model.num_train_steps
        config_path = f"configs/{model.size.name}.json"
        self.configs[config_path] = {
            "attention_probs_dropout_prob": self.scale.model.dropout,
            "hidden_act": "gelu",
            "hidden_dropout_prob": self.scale.model.dropout,
            "hidden_size": model.size.hidden_size,
            "initializer_range": self.scale.model.initializer_range,
            "intermediate_size": 4 * model.size.hidden_size,
            "max_position_embeddings": self.scale.model.max_position_embeddings,
            "num_attention_heads": model.size.num_attention_heads,
            "num_hidden_layers": model.size.num_hidden_layers,
            "type_vocab_size": 2,
            "vocab_size": self.scale.corpus.vocab_size,
        }
        # Figure 5 needs weights of these models' earlier steps. They are kept
        # without Figure 5 too: a command that changes when a table is added
        # would have to run again.
        is_curve = model.objective in CURVES and model == model._replace(
            size=self.scale.model.size,
            masking=STANDARD,
            num_train_steps=self.scale.steps("table5"),
        )
        keep = kept_steps(self.scale) if is_curve else []
        ends = phase_ends(given.phases, num_steps)
        last, first = "", 0
        for index, (phase, end) in enumerate(
            zip(given.phases, ends, strict=True)
        ):
            if end == first:
                continue  # too few steps for a share as small as this
            is_last, length = end == num_steps, phase.max_seq_length
            name = f"{model.name}/phase{index + 1}"
            part = "shuffled" if model.is_shuffled else "train"
            train = self.records(length, model.masking, part)
            held_out = (
                self.records(length, STANDARD, "held_out") if is_last else ""
            )
            eval_files = f"{{work_dir}}/{held_out}/held_out.tfrecord-*"
            kept = [str(step) for step in keep if first < step < end]
            flags = {
                "do_train": True,
                "do_eval": is_last or None,
                "resume_from": f"{{work_dir}}/{last}" if last else None,
                "bert_config_file": f"{{work_dir}}/{config_path}",
                "vocab_file": "{vocab_file}",
                "input_file": f"{{work_dir}}/{train}/{part}.tfrecord-*",
                "eval_input_file": eval_files if is_last else None,
                "output_dir": f"{{work_dir}}/{name}",
                "objective": None
                if model.objective == DEFAULT_OBJECTIVE
                else model.objective,
                "max_seq_length": length,
                "max_predictions_per_seq": self._predictions(length),
                "train_batch_size": phase.train_batch_size,
                "learning_rate": model.size.learning_rate
                or given.learning_rate,
                "num_train_steps": num_steps,
                "num_warmup_steps": round(given.warmup_proportion * num_steps),
                "random_seed": model.random_seed,
                "save_checkpoints_steps": given.save_checkpoints_steps,
                "keep_checkpoint_max": 1,
                "eval_batch_size": given.eval_batch_size if is_last else None,
                "max_eval_steps": given.max_eval_steps if is_last else None,
                "bias_correction": given.bias_correction or None,
                "dtype": self._dtype(),
                "stop_after_steps": None if is_last else end,
                "keep_steps": ",".join(kept) or None,
            }
            if name not in self.steps:
                self.num_train_steps += end - first
                size = model.size
                projected = (
                    1.0
                    if model.objective in ONE_WAY
                    else self.scale.corpus.masked_lm_prob
                )
                parameters = size.num_hidden_layers * 12 * size.hidden_size**2
                vocab_size = self.scale.corpus.vocab_size
                parameters += projected * vocab_size * size.hidden_size
                # 2 forwards and 4 backwards.
                tokens = (end - first) * phase.train_batch_size * length
                self.operations += 6 * tokens * parameters
            last = self._add(
                name,
                f"Pre-training, {model.title}, steps {first + 1:,} to {end:,} "
                f"at length {length}",
                "run_pretraining.py",
                flags | extra_flags(given.flags),
                [before for before in (train, held_out, last) if before],
            )
            first = end
        return last

    def finetuning(
        self,
        model: Pretrained,
        task: str,
        restart: int,
        checkpoint_step: int,
        variant: Variant = PLAIN,
    ) -> str:
        """Add the step that fine-tunes and scores a model on a task.

        It begins with the weights of `checkpoint_step` of pre-training. Each
        restart, counted from 1, has another seed.
        """
        given = self.scale.for_task(task)
        checkpoint, after = checkpoint_of(model, self.scale, checkpoint_step)
        begin = model.name if model.checkpoint else checkpoint
        name = begin.replace("pretraining/", "finetuning/", 1)
        name += f"{variant.name and '/'}{variant.name}/{task}/run{restart}"
        if variant.begins_with_triviaqa:
            checkpoint = after = self._triviaqa(model, checkpoint, after)
        is_frozen = task == reproduction_tasks.NER_FEATURES
        data = reproduction_tasks.TASKS[task].data
        match data:
            case "squad" | "squad2":
                script = "run_squad.py"
                own = {
                    "do_predict": True,
                    "train_file": f"{{{data}_train_file}}",
                    "predict_file": f"{{{data}_dev_file}}",
                    "doc_stride": given.doc_stride,
                    "predict_batch_size": given.eval_batch_size,
                    "version_2_with_negative": data == "squad2" or None,
                    "tune_null_threshold": data == "squad2" or None,
                }
            case "glue":
                script = "run_classifier.py"
                own = {
                    "task_name": task,
                    "data_dir": f"{{glue_dir}}/{task}",
                    "eval_batch_size": given.eval_batch_size,
                }
            case "swag":
                script = "run_swag.py"
                own = {
                    "data_dir": "{swag_dir}",
                    "eval_batch_size": given.eval_batch_size,
                }
            case _:
                script = "run_ner.py"
                own = {
                    "train_file": "{ner_train_file}",
                    "dev_file": "{ner_dev_file}",
                    "eval_batch_size": given.eval_batch_size,
                    "feature_based": is_frozen or None,
                    "lstm_units": given.lstm_units if is_frozen else None,
                }
        # The activations of an encoder are kept beside the records, under the
        # same name for every encoder, and records depend on its vocabulary: no
        # other step may read them.
        records = f"records/{task}"
        if is_frozen:
            records = f"{name}/records"
        elif model.checkpoint:
            records = f"records/given/{task}"
        is_early = checkpoint_step < model.num_train_steps
        at = f" at step {checkpoint_step:,}" if is_early else ""
        which = f", {variant.name}" if variant.name else ""
        return self._add(
            name,
            f"{task}{which}, run {restart}, from {model.title}{at}",
            script,
            {
                "do_train": True,
                "do_eval": True,
                **own,
                "records_dir": f"{{work_dir}}/{records}",
                **self._training_flags(model, given, checkpoint, name, restart),
                **variant.flags,
                **extra_flags(given.flags),
            },
            [after] if after else [],
            task,
        )

    def _training_flags(
        self,
        model: Pretrained,
        given: Finetuning,
        checkpoint: str,
        name: str,
        restart: int = 1,
    ) -> dict[str, Any]:
        """Return the flags that all fine-tuning scripts share."""
        is_given = checkpoint == model.checkpoint
        rates = given.learning_rates
        return {
            "init_checkpoint": checkpoint
            if is_given
            else f"{{work_dir}}/{checkpoint}",
            "output_dir": f"{{work_dir}}/{name}",
            "do_lower_case": None if model.checkpoint else self._casing(),
            "max_seq_length": given.max_seq_length,
            "train_batch_size": given.train_batch_size,
            "sweep_learning_rates"
            if len(rates) > 1
            else "learning_rate": ",".join(map(number, rates)),
            "num_train_epochs": given.num_train_epochs,
            "random_seed": model.random_seed
            + SEEDS_BETWEEN_RESTARTS * (restart - 1),
            "keep_checkpoint_max": 1,
            "bias_correction": None if given.bias_correction else "false",
            "dtype": self._dtype(),
        }

    def _triviaqa(self, model: Pretrained, checkpoint: str, after: str) -> str:
        """Add the step that trains a model on TriviaQA."""
        given = self.scale.for_task(reproduction_tasks.TRIVIAQA)
        name = f"{model.name}/{reproduction_tasks.TRIVIAQA}"
        return self._add(
            name,
            f"TriviaQA, from {model.title}",
            "run_squad.py",
            {
                "do_train": True,
                "train_file": "{triviaqa_file}",
                "triviaqa_evidence_dir": "{triviaqa_evidence_dir}",
                "doc_stride": given.doc_stride,
                **self._training_flags(model, given, checkpoint, name),
                **extra_flags(given.flags),
            },
            [after] if after else [],
            reproduction_tasks.TRIVIAQA,
        )

    def ensemble(self, runs: Sequence[str]) -> str:
        """Add the step that answers with the mean of SQuAD runs' logits.

        They are all runs of a model, or of two models one each.
        """
        first, last = (self.steps[runs[n]] for n in (0, -1))
        name = f"{os.path.dirname(first.name)}/ensemble{len(runs)}"
        if os.path.dirname(last.name) != os.path.dirname(first.name):
            name = f"{first.name}_and_{last.name.split('/')[1]}"
        own = (
            "predict_file",
            "doc_stride",
            "init_checkpoint",  # its vocabulary; the runs lose their weights
            "do_lower_case",
            "max_seq_length",
        )
        return self._add(
            name,
            f"Ensemble of {len(runs)} runs: {first.title}",
            first.script,
            {
                "do_predict": True,
                "do_eval": True,
                "ensemble_dirs": ",".join(f"{{work_dir}}/{n}" for n in runs),
                **{key: first.flags.get(key) for key in own},
                "output_dir": f"{{work_dir}}/{name}",
            },
            runs,
            first.task,
        )

    def _casing(self) -> str | None:
        return None if self.scale.corpus.do_lower_case else "false"

    def _dtype(self) -> str | None:
        return None if self.scale.dtype == "float32" else self.scale.dtype

    def _predictions(self, length: int) -> int:
        # 20 of 128 tokens are predicted, 77 of 512 at 0.15.
        return math.ceil(round(length * self.scale.corpus.masked_lm_prob, 6))


def kept_steps(scale: Scale) -> list[int]:
    """Return the pre-training steps of Figure 5, the last one included."""
    count = scale.steps("table5")
    found = {max(1, round(share * count)) for share in scale.figure5.shares}
    return sorted({*found, count})


def phase_ends(phases: Sequence[Phase], num_train_steps: int) -> list[int]:
    """Return the last step of each phase; phases of no step repeat it."""
    ends, share = [], 0.0
    for phase in phases:
        share += phase.share
        ends.append(round(share * num_train_steps))
    ends[-1] = num_train_steps
    return ends


def checkpoint_of(
    model: Pretrained, scale: Scale, step: int
) -> tuple[str, str]:
    """Return where the weights of a step are, and the Step that writes them.

    Those of --init_checkpoint are there, no Step writes them.
    """
    if model.checkpoint:
        return model.checkpoint, ""
    ends = phase_ends(scale.pretraining.phases, model.num_train_steps)
    phase = next(n for n, end in enumerate(ends, 1) if end >= step)
    folder = f"{model.name}/phase{phase}"
    is_end = step == ends[phase - 1]
    return folder if is_end else f"{folder}/step-{step}", folder


def masking_name(masking: Masking, separator: str = "/") -> str:
    """Return "80/10/10"."""
    return separator.join(map(str, masking))


def number(value: float) -> str:
    """Return a number in few characters: 5e-05, 0.1, 3."""
    return f"{value:.10g}"


def extra_flags(flags: Sequence[str]) -> dict[str, str | bool]:
    """Return flags such as "--use_tpu" and "-tpu_name=x" by name."""
    # absl takes one dash for two.
    pairs = [flag.lstrip("-").partition("=") for flag in flags]
    return {name: value or True for name, _, value in pairs}
