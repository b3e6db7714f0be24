"""Jobs, plans, settings and models are values: nobody else changes them."""

import ast

from test_import_rule import ROOT, sources

NAMES = {"job", "plan", "settings", "work", "task", "source", "checkpoint"}


def test_nothing_is_assigned_from_outside():
    found = []
    for path in sources(ROOT):
        place = path.relative_to(ROOT)
        if place.parts[0] == "tests":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(getattr(node, "ctx", None), ast.Store) and (
                isinstance(node, ast.Attribute)
                and ast.unparse(node.value).split(".")[-1] in NAMES
            ):
                found.append(f"{place}:{node.lineno} {ast.unparse(node)}")
    assert not found
