"""`bertie`: the list of its commands, their manners, and how it ends. The commands themselves are in commands/."""

import itertools
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import click

from bertie import __version__, console
from bertie.commands import carried, completion, demo, features, glue, models, pretraining, report, tasks, text
from bertie.sealed import FULL

USER_ERROR, INTERRUPTED, TERMINATED = 2, 130, 143
QUIET = "Say only what goes wrong."
TRACEBACK = "On an error show where in the code it came from."


class Commands(click.Group):
    """A group that lists its commands under headings, in the order of the river, not by the alphabet."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(str(command.name), command.get_short_help_str(100)) for command in commands])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.version_option(__version__, message="bertie %(version)s")
def bertie() -> None:
    """A complete BERT: raw text in, a served model out.

    Each command explains itself with an example: bertie COMMAND --help
    """


# The river, under the headings of `bertie --help`.
COMMANDS: Mapping[str, Sequence[click.Command]] = {
    "Text": (text.vocab, text.tokenize, text.corpus),
    "Pre-training": (pretraining.plan, pretraining.pretrain),
    "Labels": (tasks.finetune, tasks.evaluate, tasks.predict, glue.glue),
    "A model put to work": (
        carried.models,
        models.embed,
        models.fill,
        features.features,
        models.inspect,
        models.convert,
    ),
    "And": (report.report, demo.demo, completion.completion),
}


def _teach_manners(command: click.Command) -> None:
    """What every command can: be quiet, show where an error came from, have names of files completed by the shell."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.FuncParamType) and parameter.type.func is Path:
            parameter.type = click.Path(path_type=Path)
    command.params += [
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False, callback=_be_quiet, help=QUIET),
        click.Option(["--traceback"], is_flag=True, expose_value=False, help=TRACEBACK),
    ]


def _be_quiet(context: click.Context, option: click.Parameter, is_quiet: bool) -> None:
    if is_quiet:
        logging.getLogger("bertie").setLevel(logging.WARNING)


_teach_manners(bertie)
for command in itertools.chain(*COMMANDS.values()):
    _teach_manners(command)
    bertie.add_command(command)


def main() -> None:
    # Read when torch is loaded, of its threads that wait for each other: turns of a loop before they leave the
    # processor to others. As many as they take by themselves starve the one that is waited for where others run.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, 2 for what the user can mend (after one sentence), 130 or 143 when stopped from outside."""
    shows_traceback = "--traceback" in arguments
    logging.basicConfig(format="%(message)s", handlers=[console.Messages()])
    logging.getLogger("bertie").setLevel(logging.INFO)
    try:
        code: object = bertie.main(list(arguments), prog_name="bertie", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        return USER_ERROR
    except click.ClickException as problem:
        console.error(_advice(problem))
        return USER_ERROR
    except (click.Abort, KeyboardInterrupt):
        console.error("stopped.")
        return INTERRUPTED
    except SystemExit as stop:
        if stop.code != 1:  # click's, when the reader of our output, `head` say, has all it wants
            raise
        return 0
    except (ValueError, OSError) as problem:
        if shows_traceback:
            raise
        console.error(_sentence(problem))
        return USER_ERROR
    return code if isinstance(code, int) else 0  # a command that ends itself, by Exit, has one


def _advice(problem: click.ClickException) -> str:
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    help_ = f" See: {context.command_path} --help" if context else ""
    said = " ".join(problem.format_message().split())  # some have a line for each choice
    return said + ("" if said.endswith((".", "?", ")")) else ".") + help_


def _sentence(problem: ValueError | OSError) -> str:
    if not isinstance(problem, OSError) or problem.strerror is None:
        return str(problem)
    if problem.errno in FULL:  # a pipe or a terminal has no name
        where = problem.filename or "the output"
        return f"{where} cannot be written: {problem.strerror}. Make room, or give another place."
    return ": ".join(filter(None, [problem.filename, problem.strerror])) + "."


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
