"""Importing and running scripts inside the test process.

Every script defines absl flags at its top, and scripts share flag names, so
two of them cannot be imported side by side as they are. `load` gives each a
flag registry of its own; `run` calls its main with arguments as a user would.
"""

import importlib
import sys
from types import ModuleType

from base import errors
from base import flags as declared_flags

from absl import flags, logging
from paths import ROOT


def names() -> list[str]:
    """Return the scripts with flags: "run_ner", "tools.benchmark"."""
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (*ROOT.glob("*.py"), *ROOT.glob("tools/*.py"))
        if "\nFLAGS = " in (text := path.read_text())
        and text.endswith("script.run(main)\n")
    )


def path_of(name: str) -> str:
    """Return where a script is below the main folder."""
    return f"{name.replace('.', '/')}.py"


def load(name: str) -> ModuleType:
    """Import a script; its FLAGS become its own."""
    if name in sys.modules:
        return sys.modules[name]
    before = set(flags.FLAGS)
    try:
        module = importlib.import_module(name)
    except BaseException:
        for flag in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, flag)  # or they would hide the failure
        raise
    own = flags.FlagValues()
    shown = {f.name for f in flags.FLAGS.get_key_flags_for_module(name)}
    for flag in [name for name in flags.FLAGS if name not in before]:
        definer = flags.FLAGS.find_module_defining_flag(flag)
        if definer.split(".")[0] in ("absl", "tensorflow"):
            continue  # one of theirs, whoever imports them first
        own[flag] = flags.FLAGS[flag]
        if flag in shown:
            own.register_key_flag_for_module(name, own[flag])
        delattr(flags.FLAGS, flag)
    module.FLAGS = own
    return module


def parse(module: ModuleType, **values) -> flags.FlagValues:
    """Set a script's flags and return them; others have their defaults."""
    module.FLAGS.unparse_flags()
    for flag in module.FLAGS:
        module.FLAGS[flag].unparse()
    arguments = [
        f"--{name}={value}"
        for name, value in values.items()
        if value is not None
    ]
    module.FLAGS([module.__name__, *arguments])
    return module.FLAGS


def run(module: ModuleType, **values) -> int:
    """Call a script's main with flags set; return its exit status.

    Other flags have their defaults. No pictures are drawn unless `pictures` is
    given: they take a second.
    """
    if "pictures" in module.FLAGS:
        values = {"pictures": False} | values
    declared_flags.check(parse(module, **values))
    logging.set_verbosity(logging.INFO)  # as base/logs.py does for a process
    return module.main([module.__name__]) or 0


def error_of(module: ModuleType, **values) -> str:
    """Run and return the one line the script ends with."""
    try:
        run(module, **values)
    except (errors.UserError, flags.Error) as error:
        assert "\n" not in str(error), "an error has to be one line"
        return str(error)
    raise AssertionError(f"{module.__name__} accepted {values}")
