"""bertie completion: the shell completes commands, options, names and files when TAB is pressed."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from bertie.carried import names

RECIPES = Path(__file__).parents[1] / "recipes"


@click.command(short_help="The script that lets TAB complete commands, options, files.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands, options, names and files.

    zsh: add it to ~/.zshrc. fish: write it to ~/.config/fish/completions/bertie.fish.

    \b
    Example: bertie completion bash >> ~/.bashrc
    """
    script = get_completion_class(shell)
    assert script
    click.echo(script(context.find_root().command, {}, "bertie", "_BERTIE_COMPLETE").source())


def recipes(context: click.Context, option: click.Parameter, beginning: str) -> list[str]:
    """The recipes for pre-training; read from their folder, since to import them takes torch's seconds."""
    return sorted(path.stem for path in RECIPES.glob(f"{beginning}*.toml"))


def models(context: click.Context, option: click.Parameter, beginning: str) -> list[str]:
    """The models that the package carries."""
    return [name for name in names() if name.startswith(beginning)]


def presets(context: click.Context, option: click.Parameter, beginning: str) -> list[str]:
    from bertie.model.config import PRESETS

    return [name for name in PRESETS if name.startswith(beginning)]


def task_names(context: click.Context, option: click.Parameter, beginning: str) -> list[str]:
    from bertie.tasks.named import NAMED

    return [name for name in NAMED if name.startswith(beginning)]
