"""The tables of docs/published_settings.md."""

from checkpoints import known_settings


def tables() -> str:
    """Return a table for each file, a row for keys that are treated alike."""
    lines = []
    for name, settings in known_settings.SETTINGS.items():
        alike: dict[known_settings.Setting, list[str]] = {}
        for key, setting in settings.items():
            # Values of `harmless` have no hash.
            alike.setdefault((*setting[:2], str(setting.harmless)), []).append(
                key
            )
        lines += ["", f"`{name}`", "", "| setting | is | |", "|---|---|---|"]
        for keys in alike.values():
            treatment, why, harmless = settings[keys[0]]
            if harmless:
                values = " or ".join(f"`{value!r}`" for value in harmless)
                treatment += f", unless {values}"
            names = ", ".join(f"`{key}`" for key in keys)
            lines.append(f"| {names} | {treatment} | {why} |")
    return "\n".join([*lines[1:], ""])
