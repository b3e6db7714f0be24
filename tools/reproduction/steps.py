"""The steps of a scale: vocabulary, records, pre-training, fine-tuning.

A step is one command. Its name is the path of its output below the work
directory, and follows from everything that tells the command from others. Two
tables that need the same model therefore name the same step, and the model is
trained once. In flags, {work_dir} and the names of the data's flags stand for
paths, so that a step stays the same when files are moved.
"""

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.reproduction.scales import Scale, Size
from tools.reproduction.tasks import NER_FEATURES, TASKS, TRIVIAQA

FIRST_SEED = 12345  # the default of the scripts
SEEDS_BETWEEN_RESTARTS = 1000  # fine-tuning run r has 1000 (r - 1) more

# What replaces the predicted tokens, in percent: [MASK], the same, random.
Masking = tuple[int, int, int]
STANDARD: Masking = (80, 10, 10)
DEFAULT_OBJECTIVE = "mlm_nsp"  # of run_pretraining.py
CURVES = (DEFAULT_OBJECTIVE, "ltr")  # of Figure 5
ONE_WAY = ("ltr", "rtl")  # predict every token

# Kinds of steps. The last two write scores. Training on TriviaQA is of the
# third kind, so that its weights are kept.
VOCABULARY, RECORDS = "vocab.txt", "records"
PRETRAINING, FINETUNING = "pretraining", "finetuning"
KINDS = (VOCABULARY, RECORDS, PRETRAINING, FINETUNING)


class Step(NamedTuple):
    """One command; its name is the path of its output."""

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
    """A pre-trained model: what tells it from others of the same scale."""

    size: Size
    num_train_steps: int
    objective: str = DEFAULT_OBJECTIVE
    masking: Masking = STANDARD
    seed: int = 1  # from 1
    is_shuffled: bool = False  # its text is sentences in random order
    checkpoint: str = ""  # --init_checkpoint; then only the seed matters

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
        """Return the model in words."""
        if self.checkpoint:
            return f"{self.checkpoint}, seed {self.seed}"
        return (
            f"{self.objective}, {self.size.name}, masking "
            f"{masking_name(self.masking)}{', shuffled' * self.is_shuffled}, "
            f"seed {self.seed}"
        )


class Variant(NamedTuple):
    """How the fine-tuning of a row differs from the usual one."""

    name: str = ""  # part of the folder's name
    flags: Mapping[str, str | int] = {}  # added to the script's
    begins_with_triviaqa: bool = False


PLAIN = Variant()


class Plan:
    """Steps in the order in which one machine runs them.

    The methods add a step after the steps that it needs, unless it is there,
    and return its name. `has_vocab` says whether a vocabulary is given.
    """

    def __init__(self, scale: Scale, has_vocab: bool):
        self.scale = scale
        self.has_vocab = has_vocab
        self.steps: dict[str, Step] = {}  # by name
        # Of each encoder: path below the work directory -> bert_config.json.
        self.configs: dict[str, dict[str, Any]] = {}
        # Of pre-training. Operations are those of layers and output matrix.
        self.num_train_steps, self.operations = 0, 0.0
        # Flags that every script has; None for their defaults.
        self._casing = None if scale.corpus.do_lower_case else "false"
        self._dtype = None if scale.dtype == "float32" else scale.dtype

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
        """Add a step. A flag that is None is left out."""
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
                "do_lower_case": self._casing,
            },
        )

    def records(self, length: int, masking: Masking, part: str) -> str:
        """Add the step that makes records of a length and a masking.

        `part` is the part of the text: train, shuffled or held_out.
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
                "do_lower_case": self._casing,
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

        A model of --init_checkpoint has no phase; its name is "".
        """
        if model.checkpoint:
            return ""
        scale, given, size = self.scale, self.scale.pretraining, model.size
        num_steps = model.num_train_steps
        config_path = f"configs/{size.name}.json"
        self.configs[config_path] = {
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
            size=scale.model.size,
            masking=STANDARD,
            num_train_steps=scale.steps("table5"),
        )
        last, first = "", 0
        for index, end in enumerate(phase_ends(scale, num_steps)):
            if end == first:
                continue  # a share of less than a step
            phase, is_last = given.phases[index], end == num_steps
            length, batch_size = phase.max_seq_length, phase.train_batch_size
            name = f"{model.name}/phase{index + 1}"
            part = "shuffled" if model.is_shuffled else "train"
            after = [self.records(length, model.masking, part)]
            flags = {
                "do_train": True,
                "resume_from": f"{{work_dir}}/{last}" if last else None,
                "bert_config_file": f"{{work_dir}}/{config_path}",
                "vocab_file": "{vocab_file}",
                "input_file": f"{{work_dir}}/{after[0]}/{part}.tfrecord-*",
                "output_dir": f"{{work_dir}}/{name}",
                "objective": None
                if model.objective == DEFAULT_OBJECTIVE
                else model.objective,
                "max_seq_length": length,
                "max_predictions_per_seq": self._predictions(length),
                "train_batch_size": batch_size,
                "learning_rate": size.learning_rate or given.learning_rate,
                "num_train_steps": num_steps,
                "num_warmup_steps": round(given.warmup_proportion * num_steps),
                "random_seed": model.random_seed,
                "save_checkpoints_steps": given.save_checkpoints_steps,
                "keep_checkpoint_max": 1,
                "bias_correction": given.bias_correction or None,
                "dtype": self._dtype,
            }
            if is_last:
                held_out = self.records(length, STANDARD, "held_out")
                after.append(held_out)
                flags |= {
                    "do_eval": True,
                    "eval_input_file": f"{{work_dir}}/{held_out}/"
                    "held_out.tfrecord-*",
                    "eval_batch_size": given.eval_batch_size,
                    "max_eval_steps": given.max_eval_steps,
                }
            else:
                flags["stop_after_steps"] = end
            if is_curve:
                kept = [n for n in kept_steps(scale) if first < n < end]
                flags["keep_steps"] = ",".join(map(str, kept)) or None
            if name not in self.steps:
                steps = end - first
                self.num_train_steps += steps
                # Forwards 2 for each token and parameter, backwards 4. The
                # output matrix is for predicted tokens alone.
                share = scale.corpus.masked_lm_prob
                share = 1.0 if model.objective in ONE_WAY else share
                rows = 12 * size.num_hidden_layers * size.hidden_size
                rows += share * scale.corpus.vocab_size
                parameters = rows * size.hidden_size
                self.operations += 6 * steps * batch_size * length * parameters
            last = self._add(
                name,
                f"Pre-training, {model.title}, steps {first + 1:,} to {end:,} "
                f"at length {length}",
                "run_pretraining.py",
                flags | extra_flags(given.flags),
                [*after, *filter(None, [last])],
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
        """Add the step that fine-tunes a model on a task, and scores it.

        It begins with the weights of `checkpoint_step` of pre-training. Each
        restart, counted from 1, has another seed.
        """
        own, given = TASKS[task], self.scale.for_task(task)
        checkpoint, after = checkpoint_of(model, self.scale, checkpoint_step)
        begin = model.name if model.checkpoint else checkpoint
        name = begin.replace("pretraining/", "finetuning/", 1)
        name += f"{variant.name and '/'}{variant.name}/{task}/run{restart}"
        if task == TRIVIAQA:
            name = f"{model.name}/{task}"
        if variant.begins_with_triviaqa:
            checkpoint = after = self.finetuning(
                model, TRIVIAQA, 1, checkpoint_step
            )
        if checkpoint != model.checkpoint:
            checkpoint = f"{{work_dir}}/{checkpoint}"
        rates = given.learning_rates
        rate = "sweep_learning_rates" if len(rates) > 1 else "learning_rate"
        flags = {
            "do_train": True,
            **own.inputs,
            **own.flags,
            "init_checkpoint": checkpoint,
            "output_dir": f"{{work_dir}}/{name}",
            "do_lower_case": None if model.checkpoint else self._casing,
            "max_seq_length": given.max_seq_length,
            "train_batch_size": given.train_batch_size,
            rate: ",".join(map(number, rates)),
            "num_train_epochs": given.num_train_epochs,
            "random_seed": model.random_seed
            + SEEDS_BETWEEN_RESTARTS * (restart - 1),
            "keep_checkpoint_max": 1,
            "bias_correction": None if given.bias_correction else "false",
            "dtype": self._dtype,
        }
        is_squad, is_frozen = own.script == "run_squad.py", task == NER_FEATURES
        if is_squad:
            flags["doc_stride"] = given.doc_stride
        if is_frozen:
            flags["lstm_units"] = given.lstm_units
        if own.scores:
            batch_size = "predict_batch_size" if is_squad else "eval_batch_size"
            # Activations are kept beside the records under one name for every
            # encoder, and records depend on the vocabulary: another encoder
            # must not read them.
            records = "records/given" if model.checkpoint else "records"
            records = f"{name}/records" if is_frozen else f"{records}/{task}"
            flags |= {
                "do_eval": True,
                batch_size: given.eval_batch_size,
                "records_dir": f"{{work_dir}}/{records}",
            }
        is_early = checkpoint_step < model.num_train_steps
        at = f" at step {checkpoint_step:,}" if is_early else ""
        which = f", {variant.name}" if variant.name else ""
        return self._add(
            name,
            f"{task}{which}, run {restart}, from {model.title}{at}",
            own.script,
            {**flags, **variant.flags, **extra_flags(given.flags)},
            [after] if after else [],
            task,
        )

    def ensemble(self, runs: Sequence[str]) -> str:
        """Add the step that answers SQuAD with the mean logits of runs.

        These are all runs of one model, or one run of each of two models.
        """
        first, last = (self.steps[runs[n]] for n in (0, -1))
        name = f"{os.path.dirname(first.name)}/ensemble{len(runs)}"
        if os.path.dirname(last.name) != os.path.dirname(first.name):
            name = f"{first.name}_and_{last.name.split('/')[1]}"
        flags = {
            "do_predict": True,
            "do_eval": True,
            "ensemble_dirs": ",".join(f"{{work_dir}}/{run}" for run in runs),
            "output_dir": f"{{work_dir}}/{name}",
        }
        # init_checkpoint has the vocabulary; the runs lose their weights.
        own = ("predict_file", "doc_stride", "init_checkpoint")
        for key in (*own, "do_lower_case", "max_seq_length"):
            flags[key] = first.flags.get(key)
        title = f"Ensemble of {len(runs)} runs: {first.title}"
        return self._add(name, title, first.script, flags, runs, first.task)

    def _predictions(self, length: int) -> int:
        # 20 of 128 tokens are predicted, 77 of 512 at 0.15.
        return math.ceil(round(length * self.scale.corpus.masked_lm_prob, 6))


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
