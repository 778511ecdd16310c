"""Registration of commands. The options of a command are the fields of a dataclass."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_type_hints

import typer
from rich.text import Text

from oahu.cli.output import error_console

__all__ = ["add_command", "report_errors"]


def add_command(app: typer.Typer, run: Callable[[Any], None], name: str | None = None) -> None:
    """Add ``run(options)`` to ``app`` as a command.

    Parameters
    ----------
    app : typer.Typer
        Application that the command is added to.
    run : callable
        Function with one parameter, ``options``, which is annotated with a dataclass. Each field of the dataclass
        has a type ``Annotated[..., typer.Option(...)]`` and becomes one option. The docstring of the function is
        the help text of the command.
    name : str, optional
        Name of the command, by default the name of ``run``.
    """
    options_class = get_type_hints(run)["options"]
    hints = get_type_hints(options_class, include_extras=True)

    def command(**values: Any) -> None:
        with report_errors():
            run(options_class(**values))

    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [_parameter(field, hints[field.name]) for field in dataclasses.fields(options_class)]
    )
    command.__annotations__ = hints
    command.__doc__ = run.__doc__
    app.command(name or run.__name__)(command)


def _parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


@contextmanager
def report_errors() -> Iterator[None]:
    """Print expected errors as one line, and exit with status 1.

    Expected errors are errors of the library, file errors and missing packages.
    """
    try:
        yield
    except (BrokenPipeError, typer.Exit):
        raise  # typer handles both
    except Exception as error:
        from oahu.exceptions import OAHUError  # imports scikit-learn, which takes a second

        if not isinstance(error, OAHUError | OSError | ImportError):
            raise
        error_console.print(Text.assemble(("error: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from error
