"""The page of the site with the steps that were compiled for accelerators.

    python tests/accelerators_page.py > accelerators.md

It reads tests/golden/accelerators.json, which tools.compile_steps
--rows_file=... writes.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from tools.accelerators import compiler, rows, steps  # noqa: E402
from tools.accelerators.rows import Row  # noqa: E402
from training import memory  # noqa: E402

FILE = ROOT / "tests" / "golden" / "accelerators.json"

# What a program can have of the memory of a device: the runtime, libraries and
# fragments take the rest.
USABLE = 0.92

_HEAD = """\
# Steps compiled for TPUs and GPUs

XLA's compilers for TPUs and GPUs need no device. `tools.compile_steps`
gives them the programs of training, evaluation and prediction, and keeps what
they say: that a step compiles, how much memory it needs, and how many
operations and bytes it has. Use this page to choose a batch for a device that
you do not have yet.

**These programs have not run on a device.** The page shows no speed and no
results of a device ([an H200](records/h200.md) has some). Nor does
it show what TensorFlow adds around a program, such as dispatch, infeed, or NCCL
between GPUs.

On GPUs, XLA generates some matrix products of these programs with Triton. The
scripts turn that off for training in 16-bit types and call cuBLAS
([why](records/h200.md)), so the programs that train differ a little.

TensorFlow's wheel can lower programs for CPUs only. These CPU programs, before
any optimization, were compiled for the devices with these versions: {versions}.

"""

_BATCHES = """\
## The largest batch of a device

The table has the largest number of sequences for each device in pre-training
(masked LM and next sentence, AdamW), in the type that `--dtype=auto` takes
there. For larger batches, use `--gradient_accumulation_steps`, with this
number for each micro-batch.

{usable:.0%} of the memory count as usable. If two batch sizes were compiled,
the memory of other sizes is extrapolated linearly from them. A number in
brackets comes from the [estimate](devices.md#how-exact-the-estimate-is) and a
quarter instead. "40; 32: 13.0 GB" means that 40 sequences fit, and that a
compiled batch of 32 needs 13.0 GB.

| model, length | `--recompute` | {names} |
|---|---|---|{lines}|
"""

_COMPILE = """\
## Compile a step yourself

The compilers need an environment of their own:

```sh
python -m venv .venv-accelerators
.venv-accelerators/bin/python -m pip install -r requirements-accelerators.txt
python -m tools.compile_steps --sizes=base --lengths=128,512 \\
    --devices=v5e --accelerator_python=.venv-accelerators/bin/python
```

For GPUs install `jax[cuda12]==0.10.2` in that environment too.

`make docs` makes this page of `tests/golden/accelerators.json`. To make all
rows of that file again, which takes hours on 2 cores:

```sh
python -m tools.compile_steps --again \\
    --rows_file=tests/golden/accelerators.json \\
    --accelerator_python=.venv-accelerators/bin/python
make docs
```

`make test-accelerators` compiles the rows of Tiny, and fails if one does not
compile or needs 5% more memory than here.

"""

_ROOFLINE = """\
## Operations and bytes in time

The table divides the operations of a step by the peak of 16-bit products, and
the bytes that it accesses by the bandwidth, both from data sheets. **Neither is
a measurement.** The roofline is the larger of the two. The time of the
operations is a lower bound. The time of the bytes is not, because compilers
also count traffic that caches or the memory on a chip serve. Bytes of TPUs are
only those that cross the interface of the memory, and there the last column
says "memory". Operations are "not counted" where XLA takes the products of
cuBLAS.

| device | memory | peak, TFLOP/s | bandwidth, GB/s |
|---|---:|---:|---:|
{cards}

v4 is one of the two cores of a chip, with half of the chip's memory, peak and
bandwidth.

| step | device | operations | bytes | roofline |
|---|---|---:|---:|---:|
{rows}

"""

_ATTENTION = """\
## Attention computed again

`--recompute=attention` keeps no matrix of probabilities, [B, N, S, S], for the
backward pass. It is the choice for long sequences on a v5e. On an H100 a batch
that fits does not need it. The rows of the table below say this of a step of
Base:

- On 8 x 512 tokens a v5e's temporaries fall from 2,258 to 1,083 MB, and its
  memory traffic falls from 14.6 to 7.12 GB. libtpu's own count of accessed
  bytes falls from 53.5 to 30.1 GB.
- On 8 x 512 tokens an H100's temporaries fall from 3,454 to 2,057 MB, and its
  bytes rise from 26.3 to 28.2 GB.
- On 32 x 128 tokens attention is a small part: a v5e's temporaries fall from
  1,312 to 1,085 MB and its memory traffic from 7.13 to 6.75 GB, an H100's
  temporaries from 2,325 to 2,025 MB.

Norms, random bits of dropout and the activations of feed-forward layers could
be computed again in the same way. This was tried on two layers. Where it was
measured it gained little or nothing, and that code was not kept.

libtpu's count of bytes accessed is several times what a step moves. The rest is
traffic on the chip, a copy that is counted both as read and as write, or a
concatenation of slices, which moves nothing. For example, libtpu counts 27.7 GB
for a step of Base on 32 x 128 tokens, and the step moves 7.13 GB to and from a
v5e's memory. This takes 8.7 ms at 819 GB/s, less than the 11.5 ms of its
operations, so the step is not bound by memory.

"""

_ALL = """\
## All rows

- "Both" is arguments (weights, slots, batch) and temporaries. "Estimate" is
  that of `training/memory.py` for both.
- "GB" is the compiler's count of accessed bytes. "Of memory" counts only the
  bytes that cross the interface of a TPU's memory.
- A row with `8 x` is one program for eight devices, with the sums over them. On
  GPUs, NCCL computes these sums outside of the program.
- libtpu counts the body of a loop once, so the row `accumulated`, a loop over 4
  micro-batches, shows the operations of one micro-batch. Operations of GPUs are
  those before optimization, and XLA's cost analysis reads their bytes off the
  optimized program.
- Constants are those above 1 kB. Compiling took place beside other work on 2
  cores.

{tables}"""

_COLUMNS = (
    "step",
    "device",
    "compile, s",
    "both, MB",
    "temporaries",
    "estimate",
    "code",
    "GFLOP",
    "GB",
    "of memory",
    "fusions",
    "copies",
    "transposes",
    "converts",
    "gathers",
    "scatters",
    "custom calls",
    "float32 products",
    "constants",
    "all-reduces",
)


def number(value: float | None) -> str:
    """Return three digits at least; "" for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def needed(row: Row) -> int:
    """Return the bytes of arguments and temporaries."""
    return row["arguments"] + row["temporaries"]


def operations(row: Row) -> float | None:
    """Return the operations of a row; None where they are not counted."""
    if any("cublas" in name for name in row["targets"]):
        return None
    return row.get("flops")


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
                    sizes = steps.sizes(program, parameters[size], logits)
                    cells.append(batch_cell(found, sizes, card.memory_gib))
                lines.append(f"| {' | '.join(cells)} |")
    head = _BATCHES.format(
        usable=USABLE,
        names=" | ".join(compiler.DEVICES),
        lines="|".join(["---"] * len(compiler.DEVICES)),
    )
    return head + "\n".join(lines) + "\n\n"


def roofline(all_rows: list[Row]) -> str:
    """Return the table of operations and bytes in time."""
    lines = []
    for row in all_rows:
        if row["dtype"] == "float32" or "accessed" not in row:
            continue
        card = compiler.DEVICES[row["device"]]
        flops = operations(row)
        computing = (flops or 0) / (card.tflops * 1e12)
        moving = row.get("moved", row["accessed"]) / (card.bandwidth * 1e9)
        seconds = max(computing, moving)
        why = "memory" if "moved" in row else "bytes"
        if computing > moving:
            why = "operations"
        cells = (
            name_of(row),
            row["device"],
            f"{computing * 1e3:.3g} ms" if flops else "not counted",
            f"{moving * 1e3:.3g} ms",
            f"{seconds * 1e3:.3g} ms, {why}",
        )
        # libtpu counts the loop of micro-batches once.
        if row["step"] != "accumulated":
            lines.append(f"| {' | '.join(cells)} |")
    cards = [
        f"| {name} | {card.memory_gib} GiB | {card.tflops} | "
        f"{card.bandwidth:,} |"
        for name, card in compiler.DEVICES.items()
    ]
    return _ROOFLINE.format(cards="\n".join(cards), rows="\n".join(lines))


def line(row: Row) -> str:
    """Return the line of a row in the table of all."""
    if "error" in row:
        why = f"does not compile: {row['error']}".replace("|", "/")
        cells = [name_of(row), row["device"], why]
        return "| " + " | ".join(cells) + " |" * (len(_COLUMNS) - 2)
    sizes = rows.sizes(row)
    constants = row.get("constants")
    if constants:
        constants = f"{constants}: {number(row['constant bytes'] / 1e3)} kB"
    values = (
        row["seconds"],
        needed(row) / 1e6,
        row["temporaries"] / 1e6,
        memory.total_bytes(sizes) / 1e6 if sizes else None,
        row["code"] / 1e6,
        (flops := operations(row)) and flops / 1e9,
        row["accessed"] / 1e9 if "accessed" in row else None,
        row["moved"] / 1e9 if "moved" in row else None,
        *map(row.get, ("fusion", "copy", "transpose", "convert", "gather")),
        *map(row.get, ("scatter", "custom-call", "float32 products")),
        constants,
        row.get("all-reduce"),
    )
    cells = [v if isinstance(v, str) else number(v) for v in values]
    return "| " + " | ".join([name_of(row), row["device"], *cells]) + " |"


def render() -> str:
    """Return the text of the page."""
    all_rows = rows.read(str(FILE))
    good = [row for row in all_rows if "error" not in row]
    head = "| " + " | ".join(_COLUMNS) + " |\n|---|---|"
    head += "---:|" * (len(_COLUMNS) - 2)
    table = "\n".join([head, *map(line, all_rows)])
    versions = "; ".join(sorted({row["versions"] for row in all_rows}))
    return (
        _HEAD.format(versions=versions)
        + batches(good)
        + _COMPILE
        + roofline(good)
        + _ATTENTION
        + _ALL.format(tables=table)
        + "\n"
    )


if __name__ == "__main__":
    print(render(), end="")
