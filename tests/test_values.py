"""Jobs, plans, settings and models are values: nobody else changes them."""

import ast
from pathlib import Path

import test_import_rule

NAMES = {"job", "plan", "settings", "work", "task", "source", "checkpoint"}


def test_nothing_is_assigned_from_outside():
    root, found = test_import_rule.ROOT, []
    for path in sorted(Path(root).rglob("*.py")):
        place = path.relative_to(root)
        if place.parts[0] in ("tests", "docs") or place.parts[0][0] == ".":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            is_set = isinstance(node, ast.Attribute) and isinstance(
                node.ctx, ast.Store
            )
            if is_set and ast.unparse(node.value).split(".")[-1] in NAMES:
                found.append(f"{place}:{node.lineno} {ast.unparse(node)}")
    assert not found
