"""Options that compare, tune, frontier and reproduce share, each worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help="See `aaggff data list`.")]
Seeds = Annotated[
    str, typer.Option(metavar="N,N-N", help="Seeds; each is one split and one first model.")
]
MethodsToVary = Annotated[
    str,
    typer.Option(
        "--methods",
        "--method",
        metavar="A,B,...",
        help="Methods; options in a name stay fixed: qfedavg:step=plain. all: what can be run.",
    ),
]
Rounds = Annotated[int | None, typer.Option(help="Rounds [those of the data set].")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="K=V", help="As in `aaggff compare`; repeatable."),
]
Json = Annotated[
    str | None, typer.Option(metavar="FILE", help="Every seed's numbers; - for stdout.")
]
Latex = Annotated[bool, typer.Option("--latex", help="Print LaTeX.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
Workers = Annotated[int | None, typer.Option(help="Processes [the cores].")]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where data sets lie [AAGGFF_DATA].")
]
StandIn = Annotated[bool, typer.Option("--stand-in", help="A made-up likeness of the data.")]
