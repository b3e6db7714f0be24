"""Table 5, Table 6, Table 8 and Figure 5 as rows of cells, each of some steps.

A cell names the steps whose scores it averages. `build` adds the steps of all
tables to one plan, seed after seed: a run that is stopped early has the whole
tables of the first seeds.
"""

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from base.errors import UserError

from absl import logging

from tools.reproduction import paper_numbers, steps
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.paper_numbers import BERT, LTR, LTR_BILSTM, NO_NSP
from tools.reproduction.plan import Plan
from tools.reproduction.scales import Scale
from tools.reproduction.steps import Pretrained

NAMES = ("table5", "table6", "table8", "figure5")
PERPLEXITY = "perplexity"

# Table 5: row -> objective of pre-training, whether fine-tuning adds a BiLSTM.
TABLE_5 = {
    BERT: ("mlm_nsp", False),
    NO_NSP: ("mlm", False),
    LTR: ("ltr", False),
    LTR_BILSTM: ("ltr", True),
}

# Table 8: percent of the predicted tokens that become [MASK], stay, are random.
MASKINGS: tuple[steps.Masking, ...] = (
    steps.STANDARD,
    (100, 0, 0),
    (80, 0, 20),
    (80, 20, 0),
    (0, 20, 80),
    (0, 0, 100),
)

# Figure 5: the two curves. The paper's masked LM is BERT-Base, which predicts
# the next sentence too: its last point is Table 5's first row.
FIGURE_5 = {BERT: "mlm_nsp", LTR: "ltr"}


class Cell(NamedTuple):
    """The steps whose scores a cell averages.

    Attributes:
        steps: names, one for each seed and restart.
        key: of eval_results.txt.
        factor: score in the table / score in the file.
    """

    steps: tuple[str, ...]
    key: str
    factor: float


class Row(NamedTuple):
    """A row of a table.

    Attributes:
        label: the paper's.
        cells: column -> cell.
        step: pre-training steps (Figure 5), else 0.
        curve: the name of its curve (Figure 5).
    """

    label: str
    cells: dict[str, Cell]
    step: int = 0
    curve: str = ""


class Experiment(NamedTuple):
    """A table or figure.

    Attributes:
        name: of NAMES.
        columns: headers: the paper's, then those of further tasks.
        rows: in the paper's order.
        left_out: task, or "task of row", -> why it has no score.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    left_out: dict[str, str]


class _Variant(NamedTuple):
    """A row before its steps are known; see Row."""

    label: str
    model: Pretrained  # of the first seed
    has_bilstm: bool = False
    step: int | None = None
    curve: str = ""


def variants(name: str, scale: Scale) -> list[_Variant]:
    """Return the rows of an experiment."""
    size = scale.model.size
    if name == "table6":
        count = scale.steps(name)
        return [
            _Variant(
                own.name, Pretrained(own, "mlm_nsp", steps.STANDARD, count, 1)
            )
            for own in scale.table6.sizes
        ]
    if name == "table8":
        count = scale.steps(name)
        return [
            _Variant(
                steps.masking_name(masking),
                Pretrained(size, "mlm_nsp", masking, count, 1),
            )
            for masking in MASKINGS
        ]
    count = scale.steps("table5")
    if name == "table5":
        return [
            _Variant(
                label,
                Pretrained(size, objective, steps.STANDARD, count, 1),
                has_bilstm,
            )
            for label, (objective, has_bilstm) in TABLE_5.items()
        ]
    return [
        _Variant(
            f"{label}, step {step}",
            Pretrained(size, objective, steps.STANDARD, count, 1),
            step=None if step == count else step,
            curve=label,
        )
        for step in kept_steps(scale)
        for label, objective in FIGURE_5.items()
    ]


def kept_steps(scale: Scale) -> list[int]:
    """Return the pre-training steps of Figure 5, the last one included."""
    count = scale.steps("table5")
    found = {max(1, round(share * count)) for share in scale.figure5.shares}
    return sorted({*found, count})


# --- Building the plan -------------------------------------------------------


def build(
    names: Sequence[str],
    scale: Scale,
    extra_tasks: Sequence[str],
    data: reproduction_tasks.Data,
    seeds: Iterable[int],
    has_vocab: bool,
) -> tuple[Plan, list[Experiment]]:
    """Return the plan of some experiments, and their tables.

    Args:
        names: of NAMES.
        scale: sizes, steps, tasks.
        extra_tasks: for every table, besides its own.
        data: decides which tasks can run.
        seeds: of the pre-training runs of each variant, counted from 1.
        has_vocab: a vocabulary is given.
    """
    plan = Plan()
    # Table -> tasks with data; -> (row, column) -> steps.
    chosen: dict[str, list[str]] = {}
    cells: dict[str, dict[tuple[str, str], list[str]]] = {}
    left_out: dict[str, dict[str, str]] = {}
    for name in names:
        every = reproduction_tasks.choose(
            [
                reproduction_tasks.name_of(task, name)
                for task in getattr(scale, name).tasks
            ],
            extra_tasks,
        )
        reasons = {t: reproduction_tasks.missing(t, data) for t in every}
        chosen[name] = [task for task in every if reasons[task] is None]
        left_out[name] = {t: why for t, why in reasons.items() if why} | {
            f"{task} of {variant.label}": why
            for variant in variants(name, scale)
            for task in chosen[name]
            if (why := _why_not(variant, task))
        }
        cells[name] = collections.defaultdict(list)
    for seed in seeds:
        for name in names:
            for variant in variants(name, scale):
                model = variant.model._replace(seed=seed)
                last = _add_pretraining(plan, scale, model, name, has_vocab)
                cells[name][variant.label, PERPLEXITY].append(last)
                for task in chosen[name]:
                    if _why_not(variant, task):
                        continue
                    column = reproduction_tasks.TASKS[task].column
                    for restart in range(1, getattr(scale, name).restarts + 1):
                        step = steps.finetuning_step(
                            model,
                            scale,
                            task,
                            restart,
                            variant.step,
                            variant.has_bilstm,
                        )
                        cell = cells[name][variant.label, column]
                        cell.append(plan.add(step, name))
    return plan, [
        _experiment(name, scale, chosen[name], left_out[name], cells[name])
        for name in names
    ]


def _add_pretraining(
    plan: Plan,
    scale: Scale,
    model: Pretrained,
    experiment: str,
    has_vocab: bool,
) -> str:
    """Add the steps of a model and what they need; return the last's name."""

    def add_records(length, masking, is_held_out) -> str:
        after = ()
        if not has_vocab:
            after = (plan.add(steps.vocabulary_step(scale), experiment),)
        step = steps.records_step(scale, length, masking, is_held_out, after)
        return plan.add(step, experiment)

    # Figure 5 needs weights of these models' earlier steps. They are kept
    # without Figure 5 too: a command that changes when a table is added would
    # have to run again.
    curves = [
        Pretrained(
            scale.model.size,
            objective,
            steps.STANDARD,
            scale.steps("table5"),
            model.seed,
        )
        for objective in FIGURE_5.values()
    ]
    keep = kept_steps(scale) if model in curves else []
    for step in steps.pretraining_steps(model, scale, keep, add_records):
        last = plan.add(step, experiment)
    return last


def _why_not(variant: _Variant, task: str) -> str:
    """Return why the model of a row cannot run a task, "" if it can."""
    if task != reproduction_tasks.NER_FEATURES:
        return ""
    if variant.has_bilstm:
        return "it has a BiLSTM of its own"
    layers = variant.model.size.num_hidden_layers
    if layers < reproduction_tasks.FEATURE_LAYERS:
        return (
            f"it reads the last {reproduction_tasks.FEATURE_LAYERS} layers, "
            f"the model has {layers}"
        )
    return ""


def _experiment(
    name: str,
    scale: Scale,
    tasks: Sequence[str],
    left_out: dict[str, str],
    cells: dict[tuple[str, str], list[str]],
) -> Experiment:
    """Return the table of the steps that were added."""
    by_column = {reproduction_tasks.TASKS[t].column: t for t in tasks}
    paper = paper_numbers.PAPER[name]
    columns = list(next(iter(paper.values()), {}))
    columns = reproduction_tasks.choose(columns, list(by_column))
    if name == "figure5":
        columns = list(by_column)
    elif PERPLEXITY not in columns:
        columns.append(PERPLEXITY)
    rows = []
    for variant in variants(name, scale):
        own = {}
        for column in columns:
            names = tuple(cells.get((variant.label, column), ()))
            if not names:
                continue
            if column == PERPLEXITY:
                key = f"{perplexity_of(variant.model.objective)}_perplexity"
                own[column] = Cell(names, key, 1.0)
            elif column in by_column:
                task = reproduction_tasks.TASKS[by_column[column]]
                own[column] = Cell(names, task.key, task.factor)
        step = variant.step or variant.model.num_train_steps
        rows.append(
            Row(
                variant.label,
                own,
                step if name == "figure5" else 0,
                variant.curve,
            )
        )
    return Experiment(name, tuple(columns), tuple(rows), left_out)


def perplexity_of(objective: str) -> str:
    """Return the language model whose perplexity an objective reports."""
    return "lm" if objective == "ltr" else "masked_lm"


def check_tasks(tables: Sequence[Experiment]) -> None:
    """Check that every table has a task with data; warn of those without.

    Raises:
        UserError: a table has none.
    """
    for experiment in tables:
        lacks = ", ".join(
            f"{task} ({why})" for task, why in experiment.left_out.items()
        )
        has_any = any(
            cell.steps
            for row in experiment.rows
            for column, cell in row.cells.items()
            if column != PERPLEXITY
        )
        if not has_any:
            raise UserError(
                f"--experiment={experiment.name}: no task of it has data: "
                f"{lacks}; give them, or name other tasks with --tasks"
            )
        if lacks:
            logging.warning("%s: left out: %s", experiment.name, lacks)


def warn_of_lengths(scale: Scale, tasks: Sequence[str]) -> None:
    """Warn of tasks that are longer than the text of pre-training."""
    longest = max(p.max_seq_length for p in scale.pretraining.phases)
    for task in tasks:
        length = scale.for_task(task).max_seq_length
        if length > longest:
            logging.warning(
                "%s is fine-tuned at %d tokens, pre-training ends at %d: the "
                "later position embeddings are untrained",
                task,
                length,
                longest,
            )
