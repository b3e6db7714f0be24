"""A module imports from lower levels or from its own package, in no circle.

Run as a script, as make lint does, it prints every violation, as path:line,
and every circle, and ends with status 1:

    python tests/test_import_rule.py
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Level -> its packages and root modules. Root files that are not listed are
# scripts: they stand above everything, and no file imports them.
LEVELS = {
    1: ("base", "ops"),
    2: ("modeling", "optimization", "tokenization"),
    3: ("records", "checkpoints", "corpus"),
    4: ("training",),
    5: ("pretraining",),
    6: ("tasks",),
    7: ("extras",),
    8: ("serving", "compat", "finetuning"),
    9: ("tools",),
}
SCRIPT = max(LEVELS) + 1

# The exception: names of this package are looked up from below, when they are
# first used (base/lazy.py says why).
LOOKED_UP = "compat"


def level_of(unit: str) -> int:
    """Return the level of a package or root module; scripts are the top."""
    found = [level for level, units in LEVELS.items() if unit in units]
    return found[0] if found else SCRIPT


def imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted module) of every import, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")
        # lazy.attributes_of("compat.modeling")
        elif isinstance(node, ast.Call) and "attributes_of" in ast.dump(
            node.func
        ):
            name = ast.literal_eval(node.args[0])
            if not name.startswith(f"{LOOKED_UP}."):
                yield node.lineno, name


def imported_files(path: Path, root: Path) -> Iterator[Path]:
    """Yield the files below root that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # A file of a package, or a name in one.
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                is_file = file_of(name, root).exists()
                names.append(name if is_file else node.module)
        yield from filter(Path.exists, (file_of(name, root) for name in names))


def file_of(name: str, root: Path) -> Path:
    """Return where a module is, if it is below root."""
    place = root / name.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else Path(f"{place}.py")


def circles(root: Path) -> list[str]:
    """Return every set of files that import each other, as "a.py <-> b.py"."""
    reached = {path: {*imported_files(path, root)} for path in sources(root)}
    for through, below in reached.items():  # Warshall's closure
        for found in reached.values():
            if through in found:
                found |= below
    return sorted(
        {
            " <-> ".join(
                sorted(
                    str(other.relative_to(root))
                    for other in found
                    if path in reached[other]
                )
            )
            for path, found in reached.items()
            if path in found
        }
    )


def sources(root: Path) -> list[Path]:
    """Return the Python files of the root and of the packages."""
    packages = [path.parent for path in root.glob("*/__init__.py")]
    files = list(root.glob("*.py"))
    for package in packages:
        files += package.rglob("*.py")
    return sorted(files)


def violations(root: Path) -> list[str]:
    """Return one line for every import that breaks the rule."""
    files = sources(root)
    units = {
        path.relative_to(root).parts[0].removesuffix(".py"): path
        for path in files
    }
    found = []
    for path in files:
        place = path.relative_to(root)
        own = place.parts[0].removesuffix(".py")
        for line, name in imports_of(ast.parse(path.read_text("utf-8"))):
            unit = name.split(".")[0]
            if name.startswith("."):
                found.append(f"{place}:{line}: relative import of {name}")
            elif unit not in units or unit == own:
                continue
            elif level_of(unit) == SCRIPT:
                found.append(f"{place}:{line}: imports the script {unit}.py")
            elif level_of(unit) >= level_of(own):
                found.append(
                    f"{place}:{line}: {own} (level {level_of(own)}) imports "
                    f"{unit} (level {level_of(unit)})"
                )
    return found


def test_every_unit_of_the_table_is_there():
    for units in LEVELS.values():
        for unit in units:
            assert (ROOT / unit / "__init__.py").exists() or (
                ROOT / f"{unit}.py"
            ).exists(), unit


def test_keras_is_imported_by_its_own_name():
    """With TF_USE_LEGACY_KERAS=1, tf.keras is another package, or none."""
    assert [p for p in sources(ROOT) if "tf.keras" in p.read_text()] == []


def test_every_package_has_a_level():
    for path in ROOT.glob("*/__init__.py"):
        assert level_of(path.parent.name) < SCRIPT, path.parent.name


def test_violations_are_found(tmp_path):
    """Upwards, sideways, of a script, relative, and inside a function."""
    for unit in ("base", "ops", "records"):
        (tmp_path / unit).mkdir()
        (tmp_path / unit / "__init__.py").write_text('"""."""\n')
    (tmp_path / "modeling.py").write_text("from ops import losses\n")
    (tmp_path / "optimization.py").write_text(
        "from base import lazy\n\nf = lazy.attributes_of('compat.optimization')"
        "\ng = lazy.attributes_of('records.cache')\n"
    )
    (tmp_path / "run_it.py").write_text("import modeling\nimport run_other\n")
    (tmp_path / "run_other.py").write_text("from records import cache\n")
    (tmp_path / "base" / "files.py").write_text(
        "import os\n\n\ndef read():\n    import modeling\n"
    )
    (tmp_path / "ops" / "losses.py").write_text(
        "from base.files import read\nfrom . import other\n"
    )
    (tmp_path / "ops" / "other.py").write_text("from ops import losses\n")
    assert violations(tmp_path) == [
        "base/files.py:5: base (level 1) imports modeling (level 2)",
        "ops/losses.py:1: ops (level 1) imports base (level 1)",
        "ops/losses.py:2: relative import of .",
        "optimization.py:4: optimization (level 2) imports records (level 3)",
        "run_it.py:2: imports the script run_other.py",
    ]


def test_circles_are_found(tmp_path):
    """Of three files, by imports of both forms, one inside a function."""
    (tmp_path / "base").mkdir()
    for name, text in {
        "__init__": "",
        "errors": "import base.words\n",
        "words": "def f():\n    from base.files import read\n",
        "files": "from base import errors, logs\n",
        "logs": "import os\n",
    }.items():
        (tmp_path / "base" / f"{name}.py").write_text(text)
    three = "base/errors.py <-> base/files.py <-> base/words.py"
    assert circles(tmp_path) == [three]


if __name__ == "__main__":
    lines = violations(ROOT) + circles(ROOT)
    print("\n".join(lines) or "Every import goes downwards.")
    sys.exit(bool(lines))
