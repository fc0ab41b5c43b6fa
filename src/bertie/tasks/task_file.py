"""task.json in a model folder: what was learned, so that the folder alone can be asked, judged and served."""

import json
from collections.abc import Mapping
from pathlib import Path

from bertie.config import to_values
from bertie.tasks.named import AnyTask, kind_of, make_task, named

NAME = "task.json"
VERSION = 1


def write_task(name: str, task: AnyTask) -> bytes:
    """The file's contents."""
    contents = {"version": VERSION, "name": name, "kind": kind_of(task), "settings": to_values(task)}
    return (json.dumps(contents, indent=1, ensure_ascii=False) + "\n").encode()


def read_task(folder: Path) -> tuple[str, AnyTask]:
    """The name the task goes by and the task, of a model folder; ValueError if it was not made for one."""
    path = folder / NAME
    if not folder.is_dir():
        raise ValueError(f"{folder} is {'a file' if folder.exists() else 'not there'}: a model is a folder.")
    if not path.is_file():
        raise ValueError(f"{folder} has no {NAME}: it is not a model that `bertie finetune` made.")
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}. Copy the folder anew.") from None
    if not isinstance(contents, dict) or contents.get("version") != VERSION:
        raise ValueError(f"{path} was written by another version of bertie; this one reads version {VERSION}.")
    settings = contents.get("settings")
    if not isinstance(settings, Mapping):
        raise ValueError(f"{path} has no settings: copy the folder anew.")
    name = str(contents.get("name"))
    named(name)
    return name, make_task(str(contents.get("kind")), settings, str(path))
