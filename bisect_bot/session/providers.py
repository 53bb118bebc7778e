"""What a report says of scripts that leave it to the runtime which provider runs."""

from __future__ import annotations

from collections.abc import Iterable

from bisect_bot.model import Cell, Outcome, Trial
from bisect_bot.verdicts.scripts import asked_for, is_open, what_ran


def provider_warnings(trials: Iterable[Trial]) -> list[str]:
    """A sentence for each cell and provider list: what was asked for, what ran, and with which builds."""
    found: dict[tuple[Cell, str, str], dict[str, None]] = {}
    for trial in trials:
        if is_open(trial.providers) and trial.verdict.outcome in (Outcome.GOOD, Outcome.BAD):
            ran = what_ran(trial.verdict.provider.split(", ") if trial.verdict.provider else ())
            found.setdefault((trial.cell, asked_for(trial.providers), ran), {})[trial.revision] = None
    return [
        f"{cell}: the script asked for {asked}: {ran} ({', '.join(revisions)})."
        " Ask for one provider to be sure of what runs."
        for (cell, asked, ran), revisions in found.items()
    ]
