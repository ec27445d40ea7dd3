"""`oncelog log`: dump, verify and repair."""

from __future__ import annotations

import typer

from oncelog.cli.log.dump import dump
from oncelog.cli.log.repair import repair
from oncelog.cli.log.verify import verify

app = typer.Typer()
app.command("dump")(dump)
app.command("verify")(verify)
app.command("repair")(repair)
