"""A report as one HTML file that needs nothing else: no script, no font, no picture, no network.

Whatever a template prints goes through `visible` and then through escaping, so that no text from outside can be
forgotten; the content security policy of the page allows its own style sheet and nothing besides.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from bisect_bot.model import Report, Revision
from bisect_bot.reports import chart, html_view
from bisect_bot.reports.commits import culprit_lines, culprits, several
from bisect_bot.reports.differences import difference_sentences
from bisect_bot.reports.escaping import shorten, visible
from bisect_bot.reports.groups import groups_sentence
from bisect_bot.reports.proved import proved
from bisect_bot.reports.sentence import UPSTREAM, hex_id, name, to_go_on, what_goes_on
from bisect_bot.reports.values import (
    cost,
    counted,
    foreground,
    lowest_cosine,
    max_abs_err,
    number,
    overview,
    times,
)
from bisect_bot.reports.words import failure_words


def to_html(report: Report, sentence: str | None = None) -> str:
    """`report` as a page of its own, in UTF-8; `sentence` is its heading where no search gave one."""
    return page("report.html.j2", view=html_view.view(report, sentence), limits=html_view, chart=chart)


def page(template: str, **values: Any) -> str:
    """The page that `template` makes of `values`, with our style sheet and a policy that allows nothing else."""
    style = _resource("report.css")
    made: str = _template(template).render(style=Markup(style), policy=policy(style), **values)
    return made.lstrip()


def policy(style: str) -> str:
    """The content security policy of a page whose only style sheet is `style`."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    sources = ("default-src 'none'", f"style-src 'sha256-{digest}'", "img-src data:", "base-uri 'none'")
    return "; ".join((*sources, "form-action 'none'"))


def commit_link(revision: Revision) -> str | None:
    """The address of the commit of `revision` on GitHub; None where its id is not known."""
    commit = hex_id(revision.commit)
    return f"{UPSTREAM}/commit/{commit}" if commit else None


@cache
def _template(file: str) -> Template:
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_harmless, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "short": shorten,
        "name": name,
        "to_go_on": to_go_on,
        "what_goes_on": what_goes_on,
        "number": number,
        "commit_link": commit_link,
        "max_abs_err": max_abs_err,
        "lowest_cosine": lowest_cosine,
        "overview": overview,
        "foreground": foreground,
        "failure_words": failure_words,
        "proved": proved,
        "culprits": culprits,
        "culprit_lines": culprit_lines,
        "several": several,
        "groups_sentence": groups_sentence,
        "difference_sentences": difference_sentences,
        "cost": cost,
        "counted": counted,
        "times": times,
    }
    return environment.from_string(_resource(file))


def _harmless(value: Any) -> Any:
    """What is printed, with control and invisible characters shown; our own markup as it is."""
    return visible(value, keep="\n") if isinstance(value, str) and not isinstance(value, Markup) else value


def _resource(file: str) -> str:
    return resources.files("bisect_bot.reports").joinpath(file).read_text(encoding="utf-8")
