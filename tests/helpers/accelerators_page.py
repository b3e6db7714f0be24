"""The tables of docs/accelerators.md: steps compiled for TPUs and GPUs.

They are those of tests/golden/accelerators.json, which tools.compile_steps
--rows_file=... writes.
"""

from collections.abc import Iterable, Sequence

from paths import GOLDEN

from tools.accelerators import compiler, rows, steps
from tools.accelerators.rows import Row
from training import memory

# What a program can have of the memory of a device: the runtime, libraries and
# fragments take the rest. docs/accelerators.md names it.
USABLE = 0.92

_COLUMNS = (
    "step",
    "device",
    "compile, s",
    "both, MB",
    "temporaries",
    "estimate",
    "code",
)


def number(value: float | None) -> str:
    """Return three digits at least; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def needed(row: Row) -> int:
    """Return the bytes of arguments and temporaries."""
    return row["arguments"] + row["temporaries"]


def name_of(row: Row) -> str:
    """Return "Base, `mlm_nsp`, 32 x 128, bfloat16"."""
    many = f"{row['replicas']} x " if row["replicas"] > 1 else ""
    return (
        f"{row['size'].capitalize()}, `{row['step']}`, {many}{row['batch']} x "
        f"{row['length']}, {row['dtype']}"
    )


def batch_cell(found: list[Row], sizes: memory.Sizes, memory_gib: int) -> str:
    """Return the largest batch of a device; `found` are rows that differ in it.

    `sizes` are those of such a step, of any batch.
    """
    free = USABLE * memory_gib * 2**30
    found = sorted(found, key=lambda row: row["batch"])
    if len(found) > 1:
        first, last = found[0], found[-1]
        slope = (needed(last) - needed(first)) / (
            last["batch"] - first["batch"]
        )
        largest = int(last["batch"] + (free - needed(last)) // slope)
        cell = f"{largest:,}"
    else:
        largest = memory.largest_batch(sizes, memory_gib * 2**30)
        cell = f"({largest:,})"
    for row in found:
        if 0.8 * largest <= row["batch"] <= 1.2 * largest:
            cell += f"; {row['batch']}: {needed(row) / 1e9:.1f} GB"
    return cell if largest > 0 else "none"


def batches(all_rows: list[Row]) -> str:
    """Return the table of the largest batches."""
    lines = []
    parameters = {
        row["size"]: row["parameters"]
        for row in all_rows
        if row["step"] == "mlm_nsp"
    }
    for size in ("base", "large"):
        for length in (128, 512):
            for step, choice in (
                ("mlm_nsp", "none"),
                ("recompute_attention", "attention"),
                ("recompute_layers", "layers"),
            ):
                cells = [f"{size.capitalize()}, {length}", f"`{choice}`"]
                for device, card in compiler.DEVICES.items():
                    dtype = compiler.dtype_for(device)
                    program = steps.Program(step, size, length, 8, dtype)
                    found = [
                        row
                        for row in all_rows
                        if row["device"] == device
                        and rows.job(row)[0]._replace(batch=8) == program
                    ]
                    logits = steps.predictions_of(length) * steps.VOCAB_SIZE
                    row = {**program._asdict(), "device": ""}
                    row |= {"parameters": parameters[size], "logits": logits}
                    sizes = steps.sizes(row)
                    cells.append(batch_cell(found, sizes, card.memory_gib))
                lines.append(cells)
    return table(
        ["model, length", "`--recompute`", *compiler.DEVICES], lines, "---"
    )


def cells_of(row: Row) -> list[str]:
    """Return the cells of a row in the table of all."""
    if "error" in row:
        why = f"does not compile: {row['error']}".replace("|", "/")
        empty = [""] * (len(_COLUMNS) - 3)
        return [name_of(row), row["device"], why, *empty]
    sizes = steps.sizes(row)
    values = (
        row["seconds"],
        needed(row) / 1e6,
        row["temporaries"] / 1e6,
        memory.total_bytes(sizes) / 1e6 if sizes else None,
        row["code"] / 1e6,
    )
    return [name_of(row), row["device"], *map(number, values)]


def table(
    head: Sequence[str], lines: Iterable[Sequence[str]], align: str = "---:"
) -> str:
    """Return a table in Markdown; the first two columns are names."""
    aligns = ["---"] * 2 + [align] * (len(head) - 2)
    found = [f"| {' | '.join(cells)} |" for cells in (head, *lines)]
    return "\n".join([found[0], f"|{'|'.join(aligns)}|", *found[1:]])


def tables() -> dict[str, str]:
    """Return {name in docs/accelerators.md: table}."""
    all_rows = rows.read(str(GOLDEN / "accelerators.json"))
    good = [row for row in all_rows if "error" not in row]
    return {
        "versions": "; ".join(sorted({row["versions"] for row in all_rows})),
        "batches": batches(good),
        "rows": table(_COLUMNS, map(cells_of, all_rows)),
    }
