"""`bertie`: the list of its commands, how it ends, and the sentence for an error. The commands are in commands/."""

import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from bertie import __version__, console
from bertie.commands import glue, models, pretraining, tasks, text

USER_ERROR, INTERRUPTED, TERMINATED = 2, 130, 143


class Commands(click.Group):
    """A group that lists its commands in the order of the river, as they are added, not by the alphabet."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="bertie %(version)s")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
@click.option("--traceback", is_flag=True, help="On an error show where in the code it came from.", expose_value=False)
def bertie(quiet: bool) -> None:
    """A complete BERT: raw text in, a served model out.

    Each command explains itself with an example: bertie COMMAND --help
    """
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("bertie").setLevel(logging.WARNING if quiet else logging.INFO)


@click.command()
@click.option("--out", required=True, type=Path, help="The folder to write.")
def demo(out: Path) -> None:
    """See it work on text that every machine has: Python's own documentation.

    \b
    Example: bertie demo --out demo
    """
    from bertie.demo import run_demo

    run_demo(out)


for command in (
    text.vocab,
    text.tokenize,
    text.corpus,
    pretraining.plan,
    pretraining.pretrain,
    tasks.finetune,
    tasks.evaluate,
    tasks.predict,
    glue.glue,
    models.embed,
    models.fill,
    models.inspect,
    models.convert,
    demo,
):
    bertie.add_command(command)


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, 2 for what the user can mend (after one sentence), 130 or 143 when stopped from outside."""
    shows_traceback = "--traceback" in arguments
    try:
        bertie.main(list(arguments), prog_name="bertie", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.error("stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` say, has all it wants
        sys.stderr.close()
        return 0
    except (ValueError, OSError) as problem:
        if shows_traceback:
            raise
        console.error(_sentence(problem))
        return USER_ERROR
    return 0


def _sentence(problem: ValueError | OSError) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}."
    return str(problem)


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)
